"""Parts of an array to run a nest on: with a narrow port, fewer units can be faster than all of them.

An array of F units along a loop can do what any smaller one does, since it may leave units idle. The parts
of a larger array are therefore all those of a smaller one and more, so that the best of them is never slower.
"""

from __future__ import annotations

from math import prod

import numpy as np

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Bools, Longs
from headway.cost.nest import AT

MOST_PARTS = 4096  # of one nest; beyond that only those with round numbers of iterations are tried


def loops_of(hierarchy: Hierarchy) -> tuple[tuple[str, int], ...]:
    """The unrolled loops with their factors, axis after axis."""
    return tuple(loop for axis in hierarchy.axes for loop in axis)


def folded(sizes: Longs, columns: Longs) -> Longs:
    """Matrix products on arrays that unroll output columns: rows become rows and columns of a map.

    `columns` [n] are the unrolled output columns (1 if none are). Sizes are [n, dim]. As few columns are
    used as leave as many rows, so that little of the map is empty.
    """
    alone, rows = is_product(sizes), sizes[:, AT["OY"]]
    high = -(-rows // np.minimum(columns, rows))
    changed = sizes.copy()
    changed[:, AT["OY"]] = np.where(alone, high, rows)
    changed[:, AT["OX"]] = np.where(alone, -(-rows // high), sizes[:, AT["OX"]])
    return changed


def is_product(sizes: Longs) -> Bools:
    """Which nests [n, dim] have rows only: no columns, and no window."""
    alone: Bools = (sizes[:, AT["OX"]] == 1) & (sizes[:, AT["FX"]] == 1) & (sizes[:, AT["FY"]] == 1)
    return alone


def columns_of(hierarchy: Hierarchy, factors: Longs) -> Longs:
    """Output columns that are unrolled by factors [n, loop]."""
    wide = np.ones(len(factors), dtype=np.int64)
    for position, (name, _) in enumerate(loops_of(hierarchy)):
        if name == "OX":
            wide = wide * factors[:, position]
    return wide


def least_cycles(sizes: Longs, hierarchy: Hierarchy, factors: Longs) -> Longs:
    """What the units cannot do at once [n]: the least cycles of nests [n, dim], which are not folded yet."""
    shaped = folded(sizes, columns_of(hierarchy, factors))
    units = np.ones_like(shaped)
    for position, (name, _) in enumerate(loops_of(hierarchy)):
        units[:, AT[name]] *= factors[:, position]
    least: Longs = np.prod(-(-shaped // units), axis=1)
    return least


def next_least_cycles(sizes: Longs, hierarchy: Hierarchy) -> Longs:
    """The least of `least_cycles` [n] over all parts of the array on which a nest lies otherwise.

    Where several axes, or both of a map's, share a loop, as many cycles can be had with other units.
    """
    names = [name for name, _ in loops_of(hierarchy)]
    whole = full(hierarchy, len(sizes))
    bounds = []
    for position, name in enumerate(names):
        length = np.where(is_product(sizes) & (name == "OX"), sizes[:, AT["OY"]], sizes[:, AT[name]])
        fewer = whole.copy()
        iterations = -(-length // np.minimum(whole[:, position], length))
        fewer[:, position] = np.maximum(1, -(-length // iterations) - 1)
        one_step = least_cycles(sizes, hierarchy, fewer)
        bounds.append(np.where(length > iterations, one_step, np.iinfo(np.int64).max))
    following = np.min(np.stack(bounds), axis=0)
    ambiguous = is_product(sizes) if "OX" in names else np.zeros(len(sizes), dtype=bool)
    ambiguous |= len(set(names)) < len(names)
    least: Longs = np.where(ambiguous, least_cycles(sizes, hierarchy, whole), following)
    return least


def parts(sizes: tuple[int, ...], hierarchy: Hierarchy) -> Longs:
    """[part, loop]: factors of every part of the array on which a nest takes another number of iterations.

    Of the factors that leave a loop equally many iterations the least stands for all.
    """
    loops = loops_of(hierarchy)
    rows_only = bool(is_product(np.array([sizes]))[0])
    lengths = [sizes[AT["OY"]] if rows_only and name == "OX" else sizes[AT[name]] for name, _ in loops]
    ladders = [_factors(length, factor) for length, (_, factor) in zip(lengths, loops, strict=True)]
    if prod(map(len, ladders)) > MOST_PARTS:
        ladders = [_round(ladder, length) for ladder, length in zip(ladders, lengths, strict=True)]
    grid = np.meshgrid(*(np.array(ladder, dtype=np.int64) for ladder in ladders), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(loops))


def _factors(length: int, most: int) -> tuple[int, ...]:
    """The least factor up to `most` for each number of iterations that it can leave."""
    found = []
    factor = min(most, length)
    while factor >= 1:
        iterations = -(-length // factor)
        found.append(-(-length // iterations))
        factor = found[-1] - 1
    return tuple(found)


def _round(ladder: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The first, and those that leave a power of two or three halves of one."""
    return tuple(
        factor for index, factor in enumerate(ladder) if index == 0 or _is_round(-(-length // factor))
    )


def _is_round(count: int) -> bool:
    odd = count // (count & -count)
    return odd in (1, 3)


def ordered_parts(sizes: Longs, hierarchy: Hierarchy) -> tuple[Longs, Longs]:
    """Parts of the array for a nest [dim] and the least cycles on each, ascending; more units first."""
    factors = parts(tuple(sizes.tolist()), hierarchy)
    bounds = least_cycles(np.tile(sizes, (len(factors), 1)), hierarchy, factors)
    order = np.lexsort((-np.prod(factors, axis=1), bounds))
    return bounds[order], factors[order]


def full(hierarchy: Hierarchy, count: int) -> Longs:
    """[n, loop]: the factors of the whole array, for so many nests."""
    return np.tile(np.array([factor for _, factor in loops_of(hierarchy)], dtype=np.int64), (count, 1))
