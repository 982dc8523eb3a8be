"""All ways to distribute the loops of an order over memories, and the best of them.

Given which loops lie in the memories that operands share, every memory of one operand takes as many loops as
fit: more loops in a memory never let more data pass any port, nor do they take more room elsewhere. So only
the shared memories are a choice, and all choices are looked at together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.subsets import OperandSets, PortKey

Number = TypeVar("Number", np.float64, np.bool_)


@dataclass(frozen=True)
class Chains:
    """Orders of the loops of one nest [order, position], and the sets of the first of them [order, cut].

    `kept[operand]` [order, cut] are the sets with the loops above the cut that leave the operand as it is.
    """

    orders: Longs
    sets: Longs
    kept: dict[str, Longs]

    def __len__(self) -> int:
        return len(self.orders)

    def some(self, rows: Longs) -> Chains:
        """Only these orders."""
        return Chains(
            self.orders[rows], self.sets[rows], {name: each[rows] for name, each in self.kept.items()}
        )


@dataclass(frozen=True)
class Choices:
    """What each choice costs an operand: arrays [order, choice].

    `cuts` are [order, choice, level] without the topmost, `rooms` the bits in memories that operands share.
    """

    cuts: Longs
    possible: Bools
    port_cycles: dict[PortKey, Floats]
    rooms: dict[int, Floats]
    top_bits: Floats
    pj: Floats


def shared_memories(hierarchy: Hierarchy, operands: Sequence[str]) -> frozenset[int]:
    """Positions of the memories of limited size that hold several of the operands."""
    return frozenset(
        position
        for position, memory in enumerate(hierarchy.memories)
        if memory.bits < float("inf") and len(set(memory.operands) & set(operands)) > 1
    )


def choices(operand: OperandSets, chains: Chains, hierarchy: Hierarchy, shared: frozenset[int]) -> Choices:
    """All distributions of an operand's loops worth trying, for each order."""
    loops = chains.orders.shape[1]
    count, at = len(chains), np.arange(loops + 1)
    free = [level for level in operand.levels[:-1] if level in shared]
    fixed = np.array(list(combinations_with_replacement(range(loops + 1), len(free))), dtype=np.int64)
    tried = len(fixed)
    rooms: dict[int, Floats] = {}
    possible = np.ones((count, tried), dtype=bool)
    # Of each level [order, choice, cut]: the cut it takes if it has no more loops than `cut`; -1: none fits.
    taken: list[Longs] = []
    below = np.zeros((1, 1, loops + 1), dtype=np.int64)
    for level, position in enumerate(operand.levels[:-1]):
        memory = hierarchy.memories[position]
        if position in shared:
            own = fixed[:, free.index(position)]
            at_own = np.broadcast_to(below, (count, tried, loops + 1))
            at_own = np.take_along_axis(at_own, np.broadcast_to(own[None, :, None], (count, tried, 1)), 2)
            need = _room(operand, level, chains, own[None, :, None], at_own)[:, :, 0]
            possible &= at_own[:, :, 0] >= 0
            rooms[position] = need
            below = np.where(at[None, None, :] >= own[None, :, None], own[None, :, None], -1)
        else:
            need = _room(operand, level, chains, at[None, None, :], below)
            fits = (need <= memory.bits) & (below >= 0)
            below = np.maximum.accumulate(np.where(fits, at, -1), axis=2)
        taken.append(below)
    cuts = np.zeros((count, tried, len(taken)), dtype=np.int64)
    cut = np.full((count, tried), loops, dtype=np.int64)
    for level in range(len(taken) - 1, -1, -1):
        within = np.broadcast_to(taken[level], (count, tried, loops + 1))
        cut = np.take_along_axis(within, np.maximum(cut, 0)[:, :, None], 2)[:, :, 0]
        possible &= cut >= 0
        cuts[:, :, level] = np.maximum(cut, 0)
    top = operand.levels[-1]
    if (room := hierarchy.memories[top].bits) < float("inf"):
        lower = cuts[:, :, -1:] if taken else np.zeros((count, tried, 1), dtype=np.int64)
        need = _room(operand, len(taken), chains, np.full((1, 1, 1), loops), lower)[:, :, 0]
        if top in shared:
            rooms[top] = need
        else:
            possible &= need <= room
    return _costed(operand, chains, cuts, possible, rooms)


def _room(operand: OperandSets, level: int, chains: Chains, cut: Longs, below: Longs) -> Floats:
    """[order, choice, cut]: bits in a memory, given the cut of the memory below.

    Twice what is used, for the next data, but for what is all of the operand or no more than lies below.
    """
    held = operand.held[level]
    rows = np.arange(len(chains))[:, None, None]
    here = chains.sets[rows, cut]
    room: Floats = held.elements[here] * np.where(held.whole[here] | (cut <= below), 1.0, 2.0)
    if operand.partial_bits == operand.value_bits:
        return np.asarray(room * operand.value_bits)
    complete = operand.complete[chains.sets[rows, np.maximum(below, 0)]] & ~held.always_partial
    return np.asarray(room * np.where(complete, operand.value_bits, operand.partial_bits))


def _costed(
    operand: OperandSets, chains: Chains, cuts: Longs, possible: Bools, rooms: dict[int, Floats]
) -> Choices:
    count, tried, _ = cuts.shape
    kept = chains.kept[operand.name]
    rows = np.arange(count)[:, None]
    cycles: dict[PortKey, Floats] = {}
    bits, pj = np.zeros((count, tried)), np.zeros((count, tried))
    for border, crossing in enumerate(operand.crossings):
        if border:
            below = kept[rows, cuts[:, :, border - 1]]
        else:  # an input that the innermost loops leave as it is stays in the array
            below = np.zeros((count, 1), dtype=np.int64) if operand.name == "O" else kept[:, :1]
        for key, busy in crossing.port_cycles.items():
            cycles[key] = cycles[key] + busy[below] if key in cycles else busy[below]
        bits = bits + crossing.top_bits[below]
        pj = pj + crossing.pj[below]
    return Choices(cuts, possible, cycles, rooms, bits, pj)


@dataclass(frozen=True)
class Bounds:
    """What each order costs at least [order]: busiest port's cycles, bits at the topmost memory, pJ."""

    port_cycles: Floats
    top_bits: Floats
    pj: Floats


def bounds(operands: Sequence[OperandSets], chains: Chains, hierarchy: Hierarchy) -> Bounds:
    """Each operand alone in every memory, with no room for the next data."""
    count, loops = chains.orders.shape
    rows = np.arange(count)
    cycles: dict[PortKey, Floats] = {}
    bits, pj = np.zeros(count), np.zeros(count)
    for operand in operands:
        most = np.full(count, loops, dtype=np.int64)
        narrow = min(operand.value_bits, operand.partial_bits)
        for border in range(len(operand.levels) - 1, -1, -1):
            if border == 0:
                most = np.zeros(count, dtype=np.int64)
            else:
                room = hierarchy.memories[operand.levels[border - 1]].bits
                fits = operand.held[border - 1].elements * narrow <= room
                if not fits.all():
                    # Sets grow along an order, and so does what is held: what fits comes first.
                    most = np.minimum(most, np.maximum(0, fits[chains.sets].sum(axis=1) - 1))
            below = (
                chains.kept[operand.name][rows, most]
                if border or operand.name != "O"
                else np.zeros(1, dtype=np.int64)
            )
            crossing = operand.crossings[border]
            for key, busy in crossing.port_cycles.items():
                cycles[key] = cycles[key] + busy[below] if key in cycles else busy[below] + np.zeros(count)
            bits = bits + crossing.top_bits[below]
            pj = pj + crossing.pj[below]
    return Bounds(np.max(np.stack(list(cycles.values())), axis=0), bits, pj)


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
        shape = [values.shape[0]] + [1] * len(parts)
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
