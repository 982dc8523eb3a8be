"""A layer under one mapping: what it costs, and which loops lie where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, Hierarchy, Move
from headway.cost.mapping import Costs, Flow
from headway.cost.nest import Batch, Nest, Spread

LoopsByLevel = Mapping[str, Sequence[Sequence[tuple[str, int]]]]
"""For each operand the temporal loops (dim, size) of each of its memory levels, innermost first."""


@dataclass(frozen=True)
class MappedLayer:
    """A layer on a core under one mapping. Cycles, accesses of a port's full width, and pJ.

    `loops` are the temporal loops by operand and memory level, innermost first; `unrolled` how many
    iterations of a loop run side by side, on average where the array does not divide it. `words` and
    `energy_pj` are by memory name and operand, reads and writes of a level together in `energy_pj`.
    """

    compute_cycles: float
    stall_cycles: float
    onload_cycles: float
    offload_cycles: float
    loops: dict[str, tuple[tuple[tuple[str, int], ...], ...]]
    unrolled: dict[str, float]
    words: dict[tuple[str, str, Move], float]
    energy_pj: dict[tuple[str, str], float]
    mac_count: int

    @property
    def latency_cycles(self) -> float:
        """From the first word loaded to the last one stored."""
        return self.compute_cycles + self.stall_cycles + self.onload_cycles + self.offload_cycles

    @property
    def memory_energy_pj(self) -> float:
        """Energy of all memory accesses, without the array."""
        return sum(self.energy_pj.values())

    def words_of(self, memory: str) -> dict[str, float]:
        """Accesses of a memory by operand."""
        found: dict[str, float] = {}
        for (name, operand, _), count in self.words.items():
            if name == memory:
                found[operand] = found.get(operand, 0.0) + count
        return found


def checked_loops(
    nest: Nest, spreading: Spread, hierarchy: Hierarchy, mapping: LoopsByLevel, operands: tuple[str, ...]
) -> list[tuple[str, int]]:
    """The loops of a given mapping, innermost first. Raises HeadwayError if it is none of this nest."""
    orders = {}
    for operand in operands:
        levels = mapping.get(operand)
        expected = len(hierarchy.levels[operand])
        if levels is None or len(levels) != expected:
            found = "none" if levels is None else str(len(levels))
            raise HeadwayError(f"mapping: operand {operand} has {expected} memory levels; found {found}")
        orders[operand] = [loop for level in levels for loop in level]
    first, *others = orders.values()
    if any(order != first for order in others):
        raise HeadwayError(f"mapping: the loops of {', '.join(operands)} are not in the same order")
    for dim, size in zip(LOOP_DIMS, spreading.temporal, strict=True):
        given = prod(count for name, count in first if name == dim)
        if given != size:
            raise HeadwayError(
                f"mapping: loops over {dim} have {given} iterations; this layer leaves {size} on this array"
            )
    unknown = {name for name, _ in first} - set(LOOP_DIMS)
    if unknown:
        raise HeadwayError(f"mapping: found loops {sorted(unknown)}; accepted: {', '.join(LOOP_DIMS)}")
    return first


def mapped_layer(costs: Costs, row: int, batch: Batch, hierarchy: Hierarchy, nest: Nest) -> MappedLayer:
    """One row of a batch and its costs."""
    order = [
        (LOOP_DIMS[dim], int(size)) for dim, size in zip(batch.loops[row], batch.sizes[row], strict=True)
    ]
    side_by_side = zip(
        LOOP_DIMS, np.prod(batch.exact[row if len(batch.exact) > 1 else 0], axis=0).tolist(), strict=True
    )
    by_level = {}
    for operand, cut in batch.cuts.items():
        levels = len(hierarchy.levels[operand])
        edges = [0, *cut[row, : levels - 1].tolist(), len(order)]
        by_level[operand] = tuple(
            tuple(loop for loop in order[a:b] if loop[1] > 1) for a, b in pairwise(edges)
        )

    def memory_of(flow: Flow) -> str:
        return hierarchy.memories[hierarchy.levels[flow.operand][flow.level]].name

    energy: dict[tuple[str, str], float] = {}
    for flow, spent in costs.energy_pj.items():
        key = (memory_of(flow), flow.operand)
        energy[key] = energy.get(key, 0.0) + float(spent[row])
    return MappedLayer(
        compute_cycles=float(costs.compute[row]),
        stall_cycles=float(costs.stall[row]),
        onload_cycles=float(costs.onload[row]),
        offload_cycles=float(costs.offload[row]),
        loops=by_level,
        unrolled={name: count for name, count in side_by_side if count > 1},
        words={(memory_of(flow), flow.operand, flow.move): float(w[row]) for flow, w in costs.words.items()},
        energy_pj=energy,
        mac_count=nest.macs,
    )
