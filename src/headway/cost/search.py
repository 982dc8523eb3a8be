"""The best mapping of one layer on one core, or the cost of a mapping that is given.

For a whole graph at once, and without DRAM, see `oncore`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, OPERANDS, Hierarchy, Move
from headway.cost.mapping import Costs, Flow, Overlap, evaluate
from headway.cost.nest import AT, Nest, Spread, batch_of, spread
from headway.cost.orders import all_orders, allocated

LoopsByLevel = Mapping[str, Sequence[Sequence[tuple[str, int]]]]
"""For each operand the temporal loops (dim, size) of each of its memory levels, innermost first."""

_FACTOR_LIMITS = (4, 6)  # orders of few large loops, and of more small ones


@dataclass(frozen=True)
class MappedLayer:
    """A layer on a core under one mapping. Cycles, accesses of a port's full width, and pJ.

    `loops` are the temporal loops by operand and memory level, `words` and `energy_pj` by memory name and
    operand, reads and writes of a level together in `energy_pj`. `dram_words` are those of the topmost
    memory by operand.
    """

    compute_cycles: float
    stall_cycles: float
    onload_cycles: float
    offload_cycles: float
    loops: dict[str, tuple[tuple[tuple[str, int], ...], ...]]
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


def map_layer(
    nest: Nest,
    hierarchy: Hierarchy,
    mapping: LoopsByLevel | None = None,
    overlap: Overlap = "physical",
    operands: tuple[str, ...] = OPERANDS,
) -> MappedLayer:
    """The given mapping evaluated exactly, or the fastest of those tried (less energy among equals).

    The hierarchy ends with DRAM if loads and stores of the layer are to be counted. Raises HeadwayError if
    the mapping is not one of this nest, or if nothing fits.
    """
    if mapping is None:
        return _searched(nest, hierarchy, overlap, operands)
    spreading = spread(nest, hierarchy)
    loops = _checked(nest, spreading, hierarchy, mapping, operands)
    order = np.array([[AT[dim] for dim, _ in loops] or [0]], dtype=np.int64)
    sizes = np.array([[float(size) for _, size in loops] or [1.0]])
    batch = batch_of([nest], [spreading], [order], [sizes], operands)
    cuts = {
        operand: np.cumsum([[len(level) for level in mapping[operand]]], axis=1)[:, :-1]
        for operand in operands
    }
    costs = evaluate(replace(batch, cuts=cuts), hierarchy, overlap)
    return _picked(costs, 0, order[0], sizes[0], cuts, hierarchy, nest)


def _checked(
    nest: Nest, spreading: Spread, hierarchy: Hierarchy, mapping: LoopsByLevel, operands: tuple[str, ...]
) -> list[tuple[str, int]]:
    """The loops of the mapping, innermost first."""
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


@lru_cache(maxsize=4096)
def _searched(nest: Nest, hierarchy: Hierarchy, overlap: Overlap, operands: tuple[str, ...]) -> MappedLayer:
    spreading = spread(nest, hierarchy)
    tried = [all_orders(spreading.temporal, limit) for limit in _FACTOR_LIMITS]
    batch = batch_of(
        [nest] * len(tried), [spreading] * len(tried), [t[0] for t in tried], [t[1] for t in tried], operands
    )
    batch, fits = allocated(batch, hierarchy, twice=overlap == "physical")
    if not fits.any():
        raise HeadwayError(
            "no mapping fits: the array's own data are more than the memories "
            f"{', '.join(memory.name for memory in hierarchy.memories)} hold"
        )
    costs = evaluate(batch, hierarchy, overlap)
    latency = np.where(fits, costs.latency, np.inf)
    fastest = latency <= latency.min() * (1 + 1e-12)
    row = int(np.argmin(np.where(fastest, costs.memory_pj, np.inf)))
    return _picked(costs, row, batch.loops[row], batch.sizes[row], dict(batch.cuts), hierarchy, nest)


def _picked(
    costs: Costs,
    row: int,
    loops: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    cuts: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.int64]]],
    hierarchy: Hierarchy,
    nest: Nest,
) -> MappedLayer:
    order = [(LOOP_DIMS[dim], int(size)) for dim, size in zip(loops, sizes, strict=True)]
    by_level = {}
    for operand, cut in cuts.items():
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
        words={(memory_of(flow), flow.operand, flow.move): float(w[row]) for flow, w in costs.words.items()},
        energy_pj=energy,
        mac_count=nest.macs,
    )
