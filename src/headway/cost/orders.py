"""Candidate temporal mappings: loop orders, and which loops lie in which memory.

Source: loop-order-based memory allocation (Symons et al., AICAS 2021), all orders at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from math import prod

import numpy as np

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.nest import AT, DIMS, IRRELEVANT, Batch, among, extents, touched

MOST_ORDERS = 5040
MIRRORED = np.array([AT[name] for name in ("B", "G", "K", "C", "OX", "OY", "FX", "FY")])
"""[dim]: the loop that takes the place of each if rows and columns are swapped."""
_MOST_CHOICES = 300_000  # combinations of cuts looked at together, to bound memory


def factors_of(size: int) -> tuple[int, ...]:
    """Prime factors, ascending."""
    factors, divisor = [], 2
    while divisor * divisor <= size:
        while size % divisor == 0:
            factors.append(divisor)
            size //= divisor
        divisor += 1
    return (*factors, size) if size > 1 else tuple(factors)


@lru_cache(maxsize=4096)
def loop_factors(temporal: tuple[int, ...], limit: int) -> tuple[tuple[int, int], ...]:
    """Loops (dim, size) that temporal sizes are split into: prime factors, merged until there are `limit`.

    The dimension with the most factors has its two smallest merged; every dimension keeps one loop.
    """
    split = {dim: list(factors_of(size)) for dim, size in enumerate(temporal) if size > 1}
    while sum(map(len, split.values())) > max(limit, len(split)):
        factors = max(split.values(), key=len)
        factors.sort()
        factors[:2] = [factors[0] * factors[1]]
    return tuple((dim, size) for dim, factors in split.items() for size in sorted(factors))


@lru_cache(maxsize=1024)
def _arrangements(repeats: tuple[int, ...]) -> Longs:
    """[order, position]: every distinct order of things, `repeats` equal ones of each sort."""
    found = np.zeros((1, 0), dtype=np.int64)
    left = np.array([repeats], dtype=np.int64)
    for _ in range(sum(repeats)):
        rows, sorts = np.nonzero(left)  # ascending: of equal beginnings the first sort comes first
        found = np.concatenate((found[rows], sorts[:, None]), axis=1)
        left = left[rows]
        left[np.arange(len(rows)), sorts] -= 1
    return found[:MOST_ORDERS]


@lru_cache(maxsize=4096)
def all_orders(temporal: tuple[int, ...], limit: int, symmetric: bool = False) -> tuple[Longs, Floats]:
    """[order, position]: dims and sizes of the loops, innermost first, in every distinct order.

    Where rows and columns are alike (`symmetric`) an order and the one with the two swapped cost the same:
    the first of each pair stands for both.
    """
    loops = loop_factors(temporal, limit)
    if not loops:
        return np.zeros((1, 1), dtype=np.int64), np.ones((1, 1))
    table = np.array(tuple(dict.fromkeys(loops)))
    arranged = arrangements(loops, symmetric)
    return table[arranged, 0], table[arranged, 1].astype(np.float64)


def arrangements(loops: tuple[tuple[int, int], ...], symmetric: bool) -> Longs:
    """[order, position]: which of the distinct loops (dim, size) stand where, in every distinct order.

    `symmetric` as in `all_orders`. Only which sizes are equal matters.
    """
    sorts = tuple(dict.fromkeys(loops))
    arranged = _arrangements(tuple(loops.count(sort) for sort in sorts))
    if symmetric and Counter(loops) == Counter((int(MIRRORED[dim]), size) for dim, size in loops):
        return _first_of_mirrored(arranged, sorts)
    return arranged


def _first_of_mirrored(arranged: Longs, sorts: tuple[tuple[int, int], ...]) -> Longs:
    """Of each order and the one with rows and columns swapped the one that comes first."""
    swapped = np.array([sorts.index((int(MIRRORED[dim]), size)) for dim, size in sorts])[arranged]
    differs = arranged != swapped
    place = np.argmax(differs, axis=1)
    rows = np.arange(len(arranged))
    first: Longs = arranged[arranged[rows, place] <= swapped[rows, place]]
    return first


@lru_cache(maxsize=2)
def block_orders(grouped: bool) -> Longs:
    """[order, position]: orders of all dims in which loops relevant to the same operands stay together.

    Groups lie outermost unless `grouped`. Within a block both directions are there for the reduction.
    """
    reductions = (("FX", "FY", "C"), ("C", "FX", "FY"))
    found = []
    for reduction in reductions:
        blocks = [reduction, ("OX", "OY", "B"), ("K",)] + ([("G",)] if grouped else [])
        for order in permutations(blocks):
            names = [name for block in order for name in block] + ([] if grouped else ["G"])
            found.append([AT[name] for name in names])
    return np.array(found, dtype=np.int64)


def without(orders: Longs, iterated: Bools) -> Longs:
    """Orders [order, position] of all dims without those that have no iterations (`iterated` [dim])."""
    if not iterated.any():
        return orders[:, :1]
    return orders[iterated[orders]].reshape(len(orders), -1)


def allocated(batch: Batch, hierarchy: Hierarchy, twice: bool = False) -> tuple[Batch, Bools]:
    """The batch with cuts, and which rows fit.

    From the lowest memory upwards each takes as many loops of its operands as fit together with the least
    traffic from above; among equals the most loops. `twice` reserves room for the next data beside what is
    used, except where all of an operand is there or no more than one pass of the array.
    """
    count, width = batch.loops.shape
    extent = extents(batch)
    outwards = np.concatenate((np.ones((count, 1)), batch.sizes[:, ::-1]), axis=1)
    remaining: Floats = np.cumprod(outwards, axis=1, dtype=np.float64)[:, ::-1]
    position = {operand: np.zeros(count, dtype=np.int64) for operand in batch.operands}
    served: dict[str, set[int]] = {operand: set() for operand in batch.operands}
    cuts: dict[str, list[Longs]] = {operand: [] for operand in batch.operands}
    fits = np.ones(count, dtype=bool)
    for index, memory in enumerate(hierarchy.memories):
        here = [operand for operand in memory.operands if operand in batch.operands]
        if not here or memory.bits == float("inf"):
            continue
        sizes: list[Floats] = []
        data: list[Floats] = []
        for operand in here:
            bits = _bits(
                batch, hierarchy, operand, index, extent, served[operand], position[operand], not twice
            )
            data.append(bits)  # refilled, whatever room it takes
            if twice:
                least = np.arange(width + 1) <= position[operand][:, None]
                bits = np.where(least | (bits >= bits[:, -1:]), bits, 2 * bits)
            bits = np.where(np.arange(width + 1) < position[operand][:, None], np.inf, bits)
            for above in hierarchy.levels[operand]:
                larger = hierarchy.memories[above].bits
                if above > index and larger < float("inf"):  # what lies here must lie there too
                    there = _bits(
                        batch,
                        hierarchy,
                        operand,
                        above,
                        extent,
                        served[operand],
                        position[operand],
                        not twice,
                    )
                    bits = np.where(there > larger, np.inf, bits)
            if hierarchy.levels[operand][-1] == index:
                bits = np.where(np.arange(width + 1) < width, np.inf, bits)
            sizes.append(bits)
        chosen, held = _least_traffic(here, sizes, data, remaining, memory.bits, index, hierarchy)
        fits &= held
        for operand, cut in zip(here, chosen, strict=True):
            served[operand].update(memory.axes)
            position[operand] = cut
            cuts[operand].append(cut)
    return replace(
        batch,
        cuts={
            operand: np.stack(cuts[operand], axis=1)
            if cuts[operand]
            else np.zeros((count, 0), dtype=np.int64)
            for operand in batch.operands
        },
    ), fits


def _least_traffic(
    operands: Sequence[str],
    sizes: Sequence[Floats],
    data: Sequence[Floats],
    remaining: Floats,
    capacity: float,
    index: int,
    hierarchy: Hierarchy,
) -> tuple[list[Longs], Bools]:
    """For each row the cuts of the operands with the least traffic from above that fit together.

    `sizes` are the bits that operands take in the memory (infinite where a cut is not possible), `data` those
    that pass when they are refilled: [n, cut] of each operand.
    """
    count, places = remaining.shape
    chosen = [np.zeros(count, dtype=np.int64) for _ in operands]
    held = np.zeros(count, dtype=bool)
    top = [hierarchy.levels[operand][-1] == index for operand in operands]
    traffic = [
        np.where(np.isinf(size), np.inf, 0.0 if is_top else remaining * bits)
        for size, bits, is_top in zip(sizes, data, top, strict=True)
    ]
    firsts = [places - 1 if is_top else 0 for is_top in top]
    shape = tuple(places - first for first in firsts)
    step = max(1, _MOST_CHOICES // prod(shape))
    for start in range(0, count, step):
        rows = slice(start, start + step)
        bits, cost = (
            _sums([each[rows, first:] for each, first in zip(values, firsts, strict=True)])
            for values in (sizes, traffic)
        )
        cost = np.where(bits <= capacity, cost, np.inf)
        last = cost.shape[1] - 1 - np.argmin(cost[:, ::-1], axis=1)  # of equals the last has the most loops
        held[rows] = np.isfinite(cost[np.arange(len(cost)), last])
        for operand, cut in enumerate(np.unravel_index(last, shape)):
            chosen[operand][rows] = np.where(held[rows], cut + firsts[operand], 0)
    return chosen, held


def _sums(values: Sequence[Floats]) -> Floats:
    """[n, choice]: the sums of one entry of each [n, cut], for all combinations of cuts."""
    total = values[0]
    for each in values[1:]:
        total = (total[:, :, None] + each[:, None, :]).reshape(len(each), -1)
    return total


def _bits(
    batch: Batch,
    hierarchy: Hierarchy,
    operand: str,
    index: int,
    extent: Floats,
    served: set[int],
    position: Longs,
    whole: bool,
) -> Floats:
    """[n, position]: bits of an instance that holds the first loops, with what is unrolled below."""
    inside = sorted(served | set(hierarchy.memories[index].axes))
    below = np.prod(batch.exact[:, inside, :], axis=1) if inside else np.ones((1, DIMS))
    b, g, k, c, oy, ox, fy, fx = (extent[:, :, dim] * below[:, None, dim] for dim in range(DIMS))
    if operand == "W":
        held = g * k * c * fy * fx
    elif operand == "O":
        held = b * g * k * oy * ox
    else:
        strides, limits = batch.strides[:, None, :], batch.limits[:, None, :]
        high = touched(oy, fy, strides[..., 0], strides[..., 2], whole)
        wide = touched(ox, fx, strides[..., 1], strides[..., 3], whole)
        held = b * g * c * np.minimum(limits[..., 0], high) * np.minimum(limits[..., 1], wide)
    width = batch.bits[:, "WIO".index(operand)]
    if operand == "O":
        width = np.where(_sums_left(batch, hierarchy, inside, position), float(hierarchy.partial_bits), width)
    return np.asarray(held * width[:, None])


def _sums_left(batch: Batch, hierarchy: Hierarchy, inside: list[int], position: Longs) -> Bools:
    """Whether sums are still incomplete when they come to a memory."""
    irrelevant = [AT[dim] for dim in IRRELEVANT["O"]]
    outside = [axis for axis in range(len(hierarchy.axes)) if axis not in inside]
    units = np.prod(batch.exact[:, outside, :], axis=1)[:, irrelevant] if outside else np.ones((1, 1))
    above = np.arange(batch.loops.shape[1]) >= position[:, None]
    loops = among(irrelevant)[batch.loops] & (batch.sizes > 1) & above
    return np.asarray(loops.any(axis=1) | np.any(units > 1, axis=1))
