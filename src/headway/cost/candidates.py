"""Mappings of one layer worth trying: orders of its loops, on all of the array and on parts of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headway.core.hierarchy import OPERANDS, Hierarchy
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.mapping import Costs, Overlap, evaluate
from headway.cost.nest import AT, Batch, Nest, input_map, joined, spreads
from headway.cost.orders import all_orders, allocated, block_orders, loop_factors, without
from headway.cost.placed import Spaces
from headway.cost.subarray import columns_of, folded, full, least_cycles, ordered_parts
from headway.cost.symmetry import is_symmetric

_FACTOR_LIMITS = (4, 6)  # orders of few large loops, and of more small ones
_MANY_FACTORS = 7  # where those leave the array waiting or data to be read again; all 5040 orders
_PARTS_AT_ONCE = 64  # parts of the array tried with few orders before looking which are still of use
_PARTS_SEARCHED = 12  # the best of them, tried with all orders
_PARTS_FOR_TRAFFIC = 256  # those with the fewest cycles, where data are moved more than once
_PARTS_WITH_LEAST = 4  # those of them that move least, tried with all orders
_SURELY = 1 - 1e-9  # what is faster by less than rounding is not

Orders = Callable[[tuple[int, ...], bool], list[tuple[Longs, Floats]]]
"""Orders to try for temporal sizes by dimension, and for rows and columns that are alike: dims and sizes of
the loops [order, position]."""


def candidates(
    nest: Nest, hierarchy: Hierarchy, overlap: Overlap, operands: tuple[str, ...]
) -> list[Candidates]:
    """Groups of mappings, the orders on the whole array first.

    By hardware more are tried where something is left to gain: loops in more pieces, then parts of the array.
    """
    tried = [Candidates.of(nest, hierarchy, overlap, operands, full(hierarchy, 1), _all_orders)]
    if overlap == "physical":
        _try_more_loops(tried, nest, hierarchy, operands)
        _try_parts(tried, nest, hierarchy, operands)
        _try_parts_that_move_less(tried, nest, hierarchy, operands)
    return tried


@dataclass(frozen=True)
class Candidates:
    """Mappings that were evaluated: which fit, their cycles and what they move at the topmost memory [n]."""

    hierarchy: Hierarchy
    overlap: Overlap
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
        orders_of: Orders,
    ) -> Candidates:
        """All orders of the nest on each part [part, loop] of the array.

        By hardware the rows of a matrix product may lie on columns of the array; the peer leaves them idle.
        """
        batch = rows_of_parts(nest, hierarchy, overlap == "physical", operands, parts, orders_of)
        return cls.given(*allocated(batch, hierarchy, twice=overlap == "physical"), hierarchy, overlap)

    @classmethod
    def given(cls, batch: Batch, fits: Bools, hierarchy: Hierarchy, overlap: Overlap) -> Candidates:
        """Mappings with their cuts."""
        costs = evaluate(batch, hierarchy, overlap)
        bits = np.zeros(len(batch))
        for flow, words in costs.words.items():
            levels = hierarchy.levels[flow.operand]
            if flow.level == len(levels) - 1:
                bits += words * hierarchy.memories[levels[-1]].port_of(flow.operand, flow.move).bits
        latency = np.where(fits, costs.latency, np.inf)
        return cls(hierarchy, overlap, batch, fits, costs, latency, bits)

    def with_less_below(self) -> list[Candidates]:
        """The same orders with fewer loops of the weights or inputs in their lowest memory."""
        found = []
        for operand in sorted({"W", "I"} & set(self.batch.operands)):
            cuts = self.batch.cuts[operand]
            for most in range(self.batch.loops.shape[1]) if cuts.shape[1] else ():
                less = cuts.copy()
                less[:, 0] = np.minimum(less[:, 0], most)
                batch = replace(self.batch, cuts={**self.batch.cuts, operand: less})
                found.append(Candidates.given(batch, self.fits, self.hierarchy, self.overlap))
        return found

    @property
    def fastest(self) -> float:
        """The least cycles."""
        return float(self.latency.min())

    @property
    def least_bits(self) -> float:
        """The least that is moved."""
        return float(np.where(self.fits, self.traffic_bits, np.inf).min())


def rows_of_parts(
    nest: Nest,
    hierarchy: Hierarchy,
    may_fold: bool,
    operands: tuple[str, ...],
    parts: Longs,
    orders_of: Orders,
) -> Batch:
    """The rows of `Candidates.of`: all orders on the first part, then on the second."""
    spaces = Spaces.of(nest, hierarchy, parts, may_fold)
    steps = np.array([[nest.stride_y, nest.stride_x, nest.dilation_y, nest.dilation_x]], dtype=np.float64)
    alike = is_symmetric(nest, hierarchy)
    groups = [
        orders_of(
            tuple(each), alike and each[AT["OY"]] == each[AT["OX"]] and each[AT["FY"]] == each[AT["FX"]]
        )
        for each in spaces.temporal.tolist()
    ]
    counts = [sum(len(order) for order, _ in group) for group in groups]
    loops, lengths = joined([pair for group in groups for pair in group])

    def rows(values: Floats) -> Floats:
        return np.repeat(values, counts, axis=0) if len(parts) > 1 else values

    return Batch(
        loops=loops,
        sizes=lengths,
        exact=rows(spaces.exact),
        whole=rows(spaces.whole),
        strides=steps if len(parts) == 1 else np.tile(steps, (len(loops), 1)),
        limits=rows(spaces.limits),
        bits=rows(np.tile(np.array(nest.bits, dtype=np.float64), (len(parts), 1))),
        macs=rows(spaces.macs),
        operands=operands,
        cuts={},
    )


def _all_orders(temporal: tuple[int, ...], symmetric: bool) -> list[tuple[Longs, Floats]]:
    loops = dict.fromkeys(loop_factors(temporal, limit) for limit in _FACTOR_LIMITS)
    return [all_orders(temporal, len(each), symmetric) for each in loops]


def _most_orders(temporal: tuple[int, ...], symmetric: bool) -> list[tuple[Longs, Floats]]:
    return [all_orders(temporal, _MANY_FACTORS, symmetric)]


def _few_orders(temporal: tuple[int, ...], _: bool) -> list[tuple[Longs, Floats]]:
    sizes = np.array(temporal, dtype=np.int64)
    orders = without(block_orders(temporal[AT["G"]] > 1), sizes > 1)
    return [(orders, sizes[orders].astype(np.float64))]


def _one_order(temporal: tuple[int, ...], symmetric: bool) -> list[tuple[Longs, Floats]]:
    (order, sizes), *_ = _few_orders(temporal, symmetric)
    return [(order[:1], sizes[:1])]


def _try_more_loops(
    tried: list[Candidates], nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]
) -> None:
    """Loops in more pieces, which fit small memories better, where there is something left to gain."""
    whole = full(hierarchy, 1)
    once, first = least_top_cycles(nest, hierarchy), tried[0]
    fastest = first.latency <= first.fastest / _SURELY
    bits = once * hierarchy.memories[-1].ports[0].bits
    again = once == 0 or float(first.traffic_bits[fastest].min(initial=np.inf)) * _SURELY > bits
    ideal = int(least_cycles(np.array([nest.sizes], dtype=np.int64), hierarchy, whole)[0])
    ends = first.costs.onload[0] + first.costs.offload[0]
    if again or first.fastest * _SURELY > max(ideal, once) + ends:
        tried.append(Candidates.of(nest, hierarchy, "physical", operands, whole, _most_orders))


def _try_parts(tried: list[Candidates], nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]) -> None:
    """Fewer units, where neither the array nor the bytes over the topmost port are the limit already."""
    fastest = min(each.fastest for each in tried)
    once = least_top_cycles(nest, hierarchy)
    cycles_of_parts, every = ordered_parts(np.array(nest.sizes, dtype=np.int64), hierarchy)
    least: Floats = np.maximum(cycles_of_parts, once)
    of_use = (least < fastest * _SURELY) & ~_like_the_whole(nest, hierarchy, every)
    least, every = least[of_use], every[of_use]
    if len(every):  # what comes before and after the computation is the same in any order
        some = Candidates.of(nest, hierarchy, "physical", operands, every, _one_order)
        least = least + some.costs.onload + some.costs.offload
    order = np.argsort(least, kind="stable")
    least, every = least[order], every[order]
    found: list[tuple[float, float, int]] = []
    for start in range(0, len(every), _PARTS_AT_ONCE):
        parts = every[start : start + _PARTS_AT_ONCE]
        parts = parts[least[start : start + len(parts)] < fastest * _SURELY]
        if not len(parts):
            break
        few = Candidates.of(nest, hierarchy, "physical", operands, parts, _few_orders)
        tried.append(few)
        by_part = few.latency.reshape(len(parts), -1).min(axis=1)
        bounds = least[start : start + len(parts)].tolist()
        found += zip(by_part.tolist(), bounds, range(start, start + len(parts)), strict=True)
        fastest = min(fastest, few.fastest)
    for cycles, bound, index in sorted(found)[:_PARTS_SEARCHED]:
        if cycles < float("inf") and bound < fastest * _SURELY:
            part = every[index][None, :]
            tried.append(Candidates.of(nest, hierarchy, "physical", operands, part, _all_orders))
            fastest = min(fastest, tried[-1].fastest)


def _like_the_whole(nest: Nest, hierarchy: Hierarchy, parts: Longs) -> Bools:
    """[part]: those on which all loops take as many iterations as on the whole array."""
    sizes = np.tile(np.array(nest.sizes, dtype=np.int64), (len(parts), 1))
    whole = full(hierarchy, 1)
    shaped = folded(sizes, columns_of(hierarchy, parts))
    of_whole = folded(sizes[:1], columns_of(hierarchy, whole))
    alike = spreads(shaped, hierarchy, parts)[2] == spreads(of_whole, hierarchy, whole)[2]
    same: Bools = alike.all(axis=1) & (shaped == of_whole).all(axis=1)
    return same


def _try_parts_that_move_less(
    tried: list[Candidates], nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]
) -> None:
    """Fewer units, where the whole array moves data more than once: less has to lie beside each other then.

    Which parts are tried does not depend on how fast anything is.
    """
    once = least_top_cycles(nest, hierarchy) * hierarchy.memories[-1].ports[0].bits
    if once == 0 or tried[0].least_bits * _SURELY <= once:
        return
    whole = Candidates.of(nest, hierarchy, "physical", operands, full(hierarchy, 1), _most_orders)
    if whole.least_bits * _SURELY <= once:
        tried.append(whole)
        return
    _, every = ordered_parts(np.array(nest.sizes, dtype=np.int64), hierarchy)
    some = every[:_PARTS_FOR_TRAFFIC]
    few = Candidates.of(nest, hierarchy, "physical", operands, some, _few_orders)
    tried += [whole, few]
    moved = np.where(few.fits, few.traffic_bits, np.inf).reshape(len(some), -1).min(axis=1)
    for index in np.argsort(moved, kind="stable")[:_PARTS_WITH_LEAST].tolist():
        if np.isfinite(moved[index]):
            part = some[index][None, :]
            tried.append(Candidates.of(nest, hierarchy, "physical", operands, part, _all_orders))


def least_top_cycles(nest: Nest, hierarchy: Hierarchy) -> float:
    """Cycles that the port of the topmost memory takes for every element once, if all share one."""
    top = hierarchy.memories[-1]
    if len(top.ports) != 1 or set(top.operands) != set(OPERANDS):
        return 0.0
    b, g, k, c, oy, ox, fy, fx = nest.sizes
    high, wide = input_map(nest)
    weights, inputs, outputs = nest.bits
    bits = g * k * c * fy * fx * weights + b * g * c * high * wide * inputs + b * g * k * oy * ox * outputs
    return bits / top.ports[0].bits
