"""What an operand costs wherever the border of a memory lies, for every set of loops that lie below it.

A border between two memories has some loops below it, in whatever order. What crosses it depends on that set
alone, so that a table over all sets (2^7 of seven loops) serves all orders of these loops. Arrays over sets
are [set]: bit i is whether loop i lies below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.hierarchy import Hierarchy, Move, Port
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.nest import AT, DIMS, IRRELEVANT, Batch, among, elements

PortKey = tuple[int, int]
"""Position of a memory, and of one of its ports."""


@dataclass(frozen=True)
class Crossing:
    """Data of an operand that cross a border: cycles of ports, bits at the topmost memory, pJ. All [set]."""

    port_cycles: dict[PortKey, Floats]
    top_bits: Floats
    pj: Floats


@dataclass(frozen=True)
class Held:
    """What lies in one instance of a memory: elements [set], and whether that is all of the operand."""

    elements: Floats
    whole: Bools
    always_partial: bool  # sums of several units are added up above


@dataclass(frozen=True)
class OperandSets:
    """One operand of a nest on a part of an array: `crossings` by border, the lowest first; `held` by level.

    Border i lies below level i. `value_bits` are those of an element, `partial_bits` of a sum that is not
    complete; `complete` [set] tells whether no reduction is left above.
    """

    name: str
    levels: tuple[int, ...]
    crossings: tuple[Crossing, ...]
    held: tuple[Held, ...]
    value_bits: float
    partial_bits: float
    complete: Bools
    pass_bits: tuple[float, ...]  # by level: what one pass of the array takes from, or gives to, an instance


def extents_of_sets(loops: Sequence[tuple[int, int]]) -> Floats:
    """[set, dim]: iterations of each dimension in each set of the loops (dim, size)."""
    extent = np.ones((1, DIMS))
    for dim, size in loops:
        more = extent.copy()
        more[:, dim] *= size
        extent = np.concatenate((extent, more))
    return extent


def operand_sets(batch: Batch, hierarchy: Hierarchy, name: str, extent: Floats) -> OperandSets:
    """Tables of an operand; the batch has one row: a nest on one part of the array.

    The arithmetic is that of `evaluate` (by hardware) and of `allocated`.
    """
    levels = hierarchy.levels[name]
    spatial = batch.exact[0]
    below: list[Floats] = [np.ones(DIMS)]
    seen: set[int] = set()
    for position in levels:
        seen |= set(hierarchy.memories[position].axes)
        below.append(np.prod(spatial[sorted(seen)], axis=0) if seen else np.ones(DIMS))
    below.append(np.prod(spatial, axis=0) if len(spatial) else np.ones(DIMS))
    reduction = [AT[dim] for dim in IRRELEVANT[name]]
    value = float(batch.bits[0, "WIO".index(name)])
    partial = float(hierarchy.partial_bits) if name == "O" else value
    left = np.prod(extent[-1:, reduction] / extent[:, reduction], axis=1)
    cycles = np.prod(extent, axis=1)
    unique = [_elements(name, below[-1][None], batch) / _elements(name, each[None], batch) for each in below]
    counts_below: list[Floats] = []  # elements with what is unrolled below, as `below`
    for index, each in enumerate(below[:-1]):
        same = index and np.array_equal(each, below[index - 1])
        counts_below.append(counts_below[-1] if same else _elements(name, extent * each, batch))
    crossings, pass_bits = [], []
    for border in range(len(levels)):
        higher = np.prod(below[-1][reduction] / below[border + 1][reduction])
        incomplete = (left * higher > 1) if name == "O" else np.zeros(len(extent), dtype=bool)
        width = np.where(incomplete, partial, value)
        if not border:
            one_pass = float(width[0] * unique[0][0])
        pass_bits.append(one_pass / float(unique[border + 1][0]))
        bits = counts_below[border] * width
        periods = np.floor(cycles[-1] / cycles)
        again = np.where(left > 1, periods * (left - 1) / left, periods)
        counts = (periods, np.where(incomplete, again, 0.0))
        crossings.append(
            _crossing(
                hierarchy, name, levels, border, bits, unique[border] / unique[border + 1], counts, below
            )
        )
    held = []
    for level in range(len(levels)):
        count = counts_below[level + 1]
        outside = np.any(below[-1][reduction] / below[level + 1][reduction] > 1 + 1e-12)
        held.append(Held(count, count >= count[-1], bool(outside)))
    return OperandSets(
        name, levels, tuple(crossings), tuple(held), value, partial, left <= 1, tuple(pass_bits)
    )


def _elements(name: str, extent: Floats, batch: Batch) -> Floats:
    return elements(name, extent, batch, whole=False)


def _crossing(
    hierarchy: Hierarchy,
    name: str,
    levels: tuple[int, ...],
    border: int,
    bits: Floats,
    boost: Floats,
    counts: tuple[Floats, Floats],
    below: list[Floats],
) -> Crossing:
    """Both sides of a border: the memory above it, and the one below if there is one."""
    up, down = (Move.STORE, Move.FEED), (Move.DRAIN, Move.FILL)
    moves = [(border, move, bits * boost) for move in (up if name == "O" else up[1:])]
    if border:
        moves += [(border - 1, move, bits) for move in (down if name == "O" else down[1:])]
    cycles: dict[PortKey, Floats] = {}
    top, pj = np.zeros(len(bits)), np.zeros(len(bits))
    for level, move, passing in moves:
        memory = hierarchy.memories[levels[level]]
        port: Port = memory.port_of(name, move)
        back = name == "O" and move in (Move.FEED, Move.FILL)
        busy = np.maximum(passing, port.grain_bits) / port.bits * counts[1 if back else 0]
        key = (levels[level], memory.ports.index(port))
        cycles[key] = cycles[key] + busy if key in cycles else busy
        words = busy * (np.prod(below[-1]) / np.prod(below[level + 1]))
        pj = pj + words * (memory.write_pj if move in (Move.FILL, Move.STORE) else memory.read_pj)
        if level == len(levels) - 1:
            top = top + words * port.bits
    return Crossing(cycles, top, pj)


def irrelevant_loops(name: str, dims: Longs) -> Bools:
    """[loop]: those that leave the operand as it is."""
    found: Bools = among([AT[dim] for dim in IRRELEVANT[name]])[dims]
    return found
