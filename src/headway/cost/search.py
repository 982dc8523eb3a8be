"""The best mapping of one layer on one core, or the cost of a mapping that is given.

For a whole graph at once, and without DRAM, see `oncore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, OPERANDS, Hierarchy, Move
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.mapping import Costs, Flow, Overlap, evaluate
from headway.cost.nest import AT, Batch, Nest, Spread, batch_of, input_map, spread
from headway.cost.orders import all_orders, allocated, block_orders, loop_factors
from headway.cost.subarray import columns_of, folded, full, is_product, least_cycles, ordered_parts

LoopsByLevel = Mapping[str, Sequence[Sequence[tuple[str, int]]]]
"""For each operand the temporal loops (dim, size) of each of its memory levels, innermost first."""

_FACTOR_LIMITS = (4, 6)  # orders of few large loops, and of more small ones
_MANY_FACTORS = 7  # where those leave the array waiting or data to be read again; all 5040 orders
_NEAR = 1.01  # how much longer a mapping may take that moves less
_PARTS_AT_ONCE = 64  # parts of the array tried with few orders before looking which are still of use
_PARTS_SEARCHED = 4  # the best of them, tried with all orders


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


def map_layer(
    nest: Nest,
    hierarchy: Hierarchy,
    mapping: LoopsByLevel | None = None,
    overlap: Overlap = "physical",
    operands: tuple[str, ...] = OPERANDS,
) -> MappedLayer:
    """The given mapping evaluated exactly, or the best of those tried.

    That is, among those within 1 % of the fastest, the one with the least traffic at the topmost memory, then
    the fastest, then the one with the least energy; with `overlap="zigzag"` the fastest, as the peer chooses.
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
    return _picked(costs, 0, replace(batch, cuts=cuts), hierarchy, nest)


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
    whole = full(hierarchy, 1)
    tried = [_Tried.of(nest, hierarchy, overlap, operands, whole, _all_orders)]
    if overlap == "physical":
        _try_more_loops(tried, nest, hierarchy, operands)
        _try_parts(tried, nest, hierarchy, operands)
    if not any(each.fits.any() for each in tried):
        raise HeadwayError(
            "no mapping fits: the array's own data are more than the memories "
            f"{', '.join(memory.name for memory in hierarchy.memories)} hold"
        )
    chosen, row = _best(tried, _NEAR if overlap == "physical" else 1 + 1e-12)
    return _picked(chosen.costs, row, chosen.batch, hierarchy, nest)


@dataclass(frozen=True)
class _Tried:
    """Mappings that were evaluated: which fit, their cycles and what they move at the topmost memory [n]."""

    batch: Batch
    fits: Bools
    costs: Costs
    latency: Floats
    traffic_bits: Floats

    @classmethod
    def of(
        cls,
        nest: Nest,
        hierarchy: Hierarchy,
        overlap: Overlap,
        operands: tuple[str, ...],
        parts: Longs,
        orders_of: Callable[[Spread], list[tuple[Longs, Floats]]],
    ) -> _Tried:
        """All orders of the nest on each part [part, loop] of the array.

        By hardware the rows of a matrix product may lie on columns of the array; the peer leaves them idle.
        """
        nests, spreads, orders, sizes = [], [], [], []
        for factors in parts:
            shaped = nest
            if overlap == "physical":
                shaped = _folded(nest, int(columns_of(hierarchy, factors[None, :])[0]))
            spreading = spread(shaped, hierarchy, factors)
            for order, size in orders_of(spreading):
                nests.append(shaped)
                spreads.append(spreading)
                orders.append(order)
                sizes.append(size)
        batch = batch_of(nests, spreads, orders, sizes, operands)
        batch, fits = allocated(batch, hierarchy, twice=overlap == "physical")
        costs = evaluate(batch, hierarchy, overlap)
        bits = np.zeros(len(batch))
        for flow, words in costs.words.items():
            levels = hierarchy.levels[flow.operand]
            if flow.level == len(levels) - 1:
                bits += words * hierarchy.memories[levels[-1]].port_of(flow.operand, flow.move).bits
        return cls(batch, fits, costs, np.where(fits, costs.latency, np.inf), bits)


def _folded(nest: Nest, columns: int) -> Nest:
    sizes = np.array([nest.sizes], dtype=np.int64)
    if columns == 1 or not is_product(sizes)[0]:
        return nest
    shape = folded(sizes, np.array([columns], dtype=np.int64))[0]
    return replace(nest, sizes=tuple(shape.tolist()), input_rows=None, input_columns=None)


def _all_orders(spreading: Spread) -> list[tuple[Longs, Floats]]:
    loops = dict.fromkeys(loop_factors(spreading.temporal, limit) for limit in _FACTOR_LIMITS)
    return [all_orders(spreading.temporal, len(each)) for each in loops]


def _most_orders(spreading: Spread) -> list[tuple[Longs, Floats]]:
    return [all_orders(spreading.temporal, _MANY_FACTORS)]


def _few_orders(spreading: Spread) -> list[tuple[Longs, Floats]]:
    orders = block_orders(spreading.temporal[AT["G"]] > 1)
    return [(orders, np.array(spreading.temporal, dtype=np.float64)[orders])]


def _best(tried: Sequence[_Tried], near: float) -> tuple[_Tried, int]:
    """Of the mappings that take no more than `near` times the least cycles the one with the least traffic;
    among equals the fastest, then the one with the least energy.
    """
    fastest = min(float(each.latency.min()) for each in tried)
    ranked = []
    for each in tried:
        rows = np.flatnonzero(each.latency <= fastest * near)
        if len(rows):
            # Sums of other orders differ in their last bits, which decides nothing.
            keys = (
                each.costs.memory_pj[rows],
                _rounded(each.latency[rows]),
                _rounded(each.traffic_bits[rows]),
            )
            row = int(rows[np.lexsort(keys)[0]])
            key = (
                float(_rounded(each.traffic_bits[row])),
                float(_rounded(each.latency[row])),
                float(each.costs.memory_pj[row]),
            )
            ranked.append((key, each, row))
    _, best, row = min(ranked, key=lambda entry: entry[0])
    return best, row


def _rounded(values: Any) -> Any:
    """To ten digits."""
    scale = 10.0 ** (10 - np.ceil(np.log10(np.maximum(values, 1e-300))))
    return np.rint(values * scale) / scale


def _try_more_loops(tried: list[_Tried], nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]) -> None:
    """Loops in more pieces, which fit small memories better, where there is something left to gain."""
    whole = full(hierarchy, 1)
    once, latency = _least_top_cycles(nest, hierarchy), float(tried[0].latency.min())
    ideal = int(least_cycles(np.array([nest.sizes], dtype=np.int64), hierarchy, whole)[0])
    near = tried[0].latency <= latency * _NEAR
    again = (
        once > 0
        and float(tried[0].traffic_bits[near].min()) > once * hierarchy.memories[-1].ports[0].bits * _NEAR
    )
    if again or latency > max(ideal, once) * _NEAR:
        tried.append(_Tried.of(nest, hierarchy, "physical", operands, whole, _most_orders))


def _try_parts(tried: list[_Tried], nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]) -> None:
    """Fewer units, where neither the array nor the bytes over the topmost port are the limit already."""
    fastest = float(tried[0].latency.min())
    sizes = np.array(nest.sizes, dtype=np.int64)
    ideal = int(least_cycles(sizes[None, :], hierarchy, full(hierarchy, 1))[0])
    if fastest <= max(ideal, _least_top_cycles(nest, hierarchy)) * _NEAR:
        return
    bounds, every = ordered_parts(sizes, hierarchy)
    found: list[tuple[float, int]] = []
    start = 0
    while start < len(every) and bounds[start] < fastest:
        some = every[start : start + _PARTS_AT_ONCE]
        few = _Tried.of(nest, hierarchy, "physical", operands, some, _few_orders)
        tried.append(few)
        by_part = few.latency.reshape(len(some), -1).min(axis=1)
        found += [(cycles, start + index) for index, cycles in enumerate(by_part.tolist())]
        fastest = min(fastest, float(by_part.min()))
        start += _PARTS_AT_ONCE
    for cycles, index in sorted(found)[:_PARTS_SEARCHED]:
        if cycles < float("inf"):
            part = every[index][None, :]
            tried.append(_Tried.of(nest, hierarchy, "physical", operands, part, _all_orders))


def _least_top_cycles(nest: Nest, hierarchy: Hierarchy) -> float:
    """Cycles that the port of the topmost memory takes for every element once, if all share one."""
    top = hierarchy.memories[-1]
    if len(top.ports) != 1 or set(top.operands) != set(OPERANDS):
        return 0.0
    b, g, k, c, oy, ox, fy, fx = nest.sizes
    high, wide = input_map(nest)
    weights, inputs, outputs = nest.bits
    bits = g * k * c * fy * fx * weights + b * g * c * high * wide * inputs + b * g * k * oy * ox * outputs
    return bits / top.ports[0].bits


def _picked(costs: Costs, row: int, batch: Batch, hierarchy: Hierarchy, nest: Nest) -> MappedLayer:
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
