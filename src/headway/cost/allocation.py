"""All ways to distribute the loops of an order over memories, and the best of them.

Given which loops lie in the memories that operands share, every memory of one operand takes as many loops as
fit: more loops in a memory never let more data pass any port, nor do they take more room elsewhere. So only
the shared memories are a choice, and all choices are looked at together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.ordered import Chains
from headway.cost.subsets import OperandSets
from headway.cost.ways import PortKey

Number = TypeVar("Number", np.float64, np.bool_)


@dataclass(frozen=True)
class Choices:
    """What each choice costs an operand: arrays [order, choice].

    The first axis is 1 where all orders have the same. `cuts` are those of each level without the topmost,
    `rooms` the bits in memories that operands share.
    """

    cuts: tuple[Longs, ...]
    possible: Bools
    port_cycles: dict[PortKey, Floats]
    rooms: dict[int, Floats]
    top_bits: Floats
    pj: Floats

    def cuts_of(self, order: int, choice: int) -> list[int]:
        """The cut of each level in one choice for one order."""
        return [int(np.broadcast_to(cut, self.possible.shape)[order, choice]) for cut in self.cuts]


def choices(operand: OperandSets, chains: Chains, hierarchy: Hierarchy, shared: frozenset[int]) -> Choices:
    """All distributions of an operand's loops worth trying, for each order."""
    loops = chains.orders.shape[1]
    count, top = len(chains), len(operand.levels) - 1
    fixed = _fixed_cuts(loops, sum(position in shared for position in operand.levels[:-1]))
    rooms: dict[int, Floats] = {}
    possible: Bools = np.ones((1, len(fixed)), dtype=bool)
    cuts: list[Longs] = []  # of the levels up to the last shared one: [order or 1, choice or 1]
    waiting: list[Longs] = []  # of those since then: the cut of each that has no more loops than `cut`
    below = np.zeros((1, 1, 1), dtype=np.int64)  # [order or 1, choice or 1, cut or 1]; -1: none fits
    for level, position in enumerate(operand.levels[:-1]):
        room = hierarchy.memories[position].bits
        if position in shared:
            own = fixed[:, len(rooms)]
            within = _resolved(waiting, own)
            lower = within[-1] if within else (cuts[-1] if cuts else np.zeros((1, 1), dtype=np.int64))
            possible = possible & (lower >= 0)
            rooms[position] = _room(operand, level, chains, chains.sets[:, own], own, lower, lower)
            cuts += [*(np.maximum(cut, 0) for cut in within), own[None, :]]
            waiting, below = [], own[None, :, None]
        else:
            at = np.arange(loops + 1)
            if waiting or not cuts:
                least = np.maximum(below, 0)
            else:
                least, below = below, np.where(at >= below, below, -1)
            need = _room(operand, level, chains, chains.sets[:, None, :], at, below, least)
            fits = (need <= room) & (below >= 0)
            below = np.maximum.accumulate(np.where(fits, at, -1), axis=2)
            waiting.append(below)
    within = _resolved(waiting, np.full(1, loops))
    for cut in within:
        possible = possible & (cut >= 0)
    cuts += [np.maximum(cut, 0) for cut in within]
    position = operand.levels[top]
    if (room := hierarchy.memories[position].bits) < float("inf"):
        lower = cuts[-1] if cuts else np.zeros((1, 1), dtype=np.int64)
        need = _room(operand, top, chains, chains.sets[:, -1:], np.full(1, loops), lower, lower)
        if position in shared:
            rooms[position] = need
        else:
            possible = possible & (need <= room)
    return _costed(operand, chains, cuts, np.broadcast_to(possible, (count, len(fixed))), rooms)


@lru_cache(maxsize=64)
def _fixed_cuts(loops: int, levels: int) -> Longs:
    """[choice, level]: all cuts of levels that lie above each other."""
    return np.array(list(combinations_with_replacement(range(loops + 1), levels)), dtype=np.int64)


def _resolved(waiting: Sequence[Longs], cut: Longs) -> list[Longs]:
    """Cuts [order or 1, choice] of neighbouring levels, the lowest first, if the next one has `cut` [choice].

    `waiting` are [order, choice or 1, cut]: which each takes if it has no more loops than `cut`.
    """
    found: list[Longs] = []
    for taken in reversed(waiting):
        if found:
            above = np.maximum(found[-1], 0)
            rows = np.arange(len(taken))[:, None]
            choice: Longs | int = np.arange(taken.shape[1]) if taken.shape[1] > 1 else 0
            found.append(np.where(found[-1] >= 0, taken[rows, choice, above], -1))
        elif taken.shape[1] == 1:
            found.append(taken[:, 0, cut])
        else:
            found.append(taken[:, np.arange(taken.shape[1]), cut])
    return found[::-1]


def _room(
    operand: OperandSets, level: int, chains: Chains, here: Longs, cut: Longs, below: Longs, least: Longs
) -> Floats:
    """Bits in a memory that has the loops up to `cut`, the sets `here`, above one with those up to `below`.

    Twice what is used, for the next data, but for what is all of the operand or no more than lies below.
    `least` is `below` where there is one. All are [order, choice] or [order, choice, cut], or 1 instead.
    """
    held = operand.held[level]
    room: Floats = np.where(cut <= below, held.elements[here], held.with_next[here])
    if operand.partial_bits == operand.value_bits:
        return room * operand.value_bits
    if held.always_partial:
        return room * operand.partial_bits
    complete = operand.complete[chains.sets_below(least)]
    return np.asarray(room * np.where(complete, operand.value_bits, operand.partial_bits))


def _costed(
    operand: OperandSets, chains: Chains, cuts: Sequence[Longs], possible: Bools, rooms: dict[int, Floats]
) -> Choices:
    kept = chains.kept[operand.name]
    rows = np.arange(len(chains))[:, None]
    cycles: dict[PortKey, Floats] = {}
    bits: Floats | float = 0.0
    pj: Floats | float = 0.0
    for border, crossing in enumerate(operand.crossings):
        if border:
            cut = cuts[border - 1]
            below = kept[:, cut[0]] if len(cut) == 1 else kept[rows, cut]
        else:  # an input that the innermost loops leave as it is stays in the array
            below = np.zeros((1, 1), dtype=np.int64) if operand.name == "O" else kept[:, :1]
        for key, busy in crossing.port_cycles.items():
            cycles[key] = cycles[key] + busy[below] if key in cycles else busy[below]
        if border == len(operand.crossings) - 1:
            bits = bits + crossing.top_bits[below]
        pj = pj + crossing.pj[below]
    return Choices(tuple(cuts), possible, cycles, rooms, np.asarray(bits), np.asarray(pj))


@dataclass(frozen=True)
class Combined:
    """All choices of all operands together: arrays [order, choice of the first, of the second, ...]."""

    port_cycles: Floats
    top_bits: Floats
    pj: Floats
    fits: Bools


def combined(parts: Sequence[Choices], hierarchy: Hierarchy) -> Combined:
    """The busiest port, bits at the topmost memory and pJ of every combination, and whether it fits."""
    count = len(parts[0].possible)

    def along(values: npt.NDArray[Number], index: int) -> npt.NDArray[Number]:
        shape = [len(values)] + [1] * len(parts)
        shape[index + 1] = values.shape[1]
        return values.reshape(shape)

    def total(tables: Sequence[tuple[int, Floats]]) -> Floats:
        found = along(tables[0][1], tables[0][0])
        for index, values in tables[1:]:
            found = found + along(values, index)
        return found

    busiest: Floats = np.zeros([count] + [1] * len(parts))
    fits: Bools = np.ones([count] + [1] * len(parts), dtype=bool)
    alone: list[Floats | None] = [None] * len(parts)
    for key in {key for part in parts for key in part.port_cycles}:
        users = [
            (index, part.port_cycles[key]) for index, part in enumerate(parts) if key in part.port_cycles
        ]
        if len(users) == 1:
            ((index, values),) = users
            other = alone[index]
            alone[index] = values if other is None else np.maximum(other, values)
        else:
            busiest = np.maximum(busiest, total(users))
    for index, own in enumerate(alone):
        if own is not None:
            busiest = np.maximum(busiest, along(own, index))
    for position in {position for part in parts for position in part.rooms}:
        holders = [
            (index, part.rooms[position]) for index, part in enumerate(parts) if position in part.rooms
        ]
        fits = fits & (total(holders) <= hierarchy.memories[position].bits)
    for index, part in enumerate(parts):
        fits = fits & along(part.possible, index)
    return Combined(
        busiest,
        total([(index, part.top_bits) for index, part in enumerate(parts)]),
        total([(index, part.pj) for index, part in enumerate(parts)]),
        fits,
    )


def without_seams(
    loops: Sequence[tuple[int, int]], cuts: dict[str, list[int]]
) -> tuple[list[tuple[int, int]], dict[str, list[int]]]:
    """The same mapping with loops over one dimension joined where no memory lies between them."""
    borders = {cut for each in cuts.values() for cut in each}
    joined: list[tuple[int, int]] = []
    position = [0]  # in the joined loops, of each border of the old ones
    for index, (dim, size) in enumerate(loops):
        if joined and joined[-1][0] == dim and index not in borders:
            joined[-1] = (dim, joined[-1][1] * size)
        else:
            joined.append((dim, size))
        position.append(len(joined))
    return joined, {name: [position[cut] for cut in each] for name, each in cuts.items()}
