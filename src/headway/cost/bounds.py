"""What an order of loops costs at least, wherever its loops lie: each operand alone in every memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.ordered import Chains
from headway.cost.subsets import OperandSets
from headway.cost.ways import PortKey


@dataclass(frozen=True)
class Bounds:
    """What each order costs at least [order]: busiest port's cycles, bits at the topmost memory, pJ."""

    port_cycles: Floats
    top_bits: Floats
    pj: Floats


def bounds(operands: Sequence[OperandSets], chains: Chains, hierarchy: Hierarchy) -> Bounds:
    """Each operand alone in every memory."""
    count = len(chains)
    cycles: dict[PortKey, Floats] = {}
    bits, pj = np.zeros(count), np.zeros(count)
    for operand in operands:
        most = _most(operand, chains, hierarchy)
        kept = chains.kept[operand.name]
        for border, crossing in enumerate(operand.crossings):
            if border:
                below = _at(kept, most[border - 1])
            else:
                below = np.zeros(1, dtype=np.int64) if operand.name == "O" else kept[:, 0]
            for key, busy in crossing.port_cycles.items():
                cycles[key] = cycles[key] + busy[below] if key in cycles else busy[below]
            if border == len(operand.crossings) - 1:
                bits = bits + crossing.top_bits[below]
            pj = pj + crossing.pj[below]
    busiest = np.zeros(count)
    for each in cycles.values():
        busiest = np.maximum(busiest, each)
    return Bounds(busiest, bits, pj)


def _most(operand: OperandSets, chains: Chains, hierarchy: Hierarchy) -> list[Longs | int]:
    """[level][order]: the most loops that an operand can have in each memory but the topmost, alone in it.

    What has no loops of its own in a memory needs no room for the next data.
    """
    loops = chains.orders.shape[1]
    most: list[Longs | int] = []
    lower: Longs | int = 0
    for level, position in enumerate(operand.levels[:-1]):
        held, room = operand.held[level], hierarchy.memories[position].bits
        width: Floats | float = operand.value_bits
        if operand.partial_bits != operand.value_bits:
            complete = operand.complete & (not held.always_partial)
            width = np.where(complete, operand.value_bits, operand.partial_bits)
        with_next = held.with_next * width <= room
        if with_next.all():
            lower = loops
        else:
            last = _last(with_next, chains)
            if level:
                alone = held.elements * width <= room
                last = np.maximum(last, np.minimum(lower, _last(alone, chains)))
            lower = last
        most.append(lower)
    for level in range(len(most) - 2, -1, -1):
        most[level] = np.minimum(most[level], most[level + 1])
    return most


def _last(fits: Bools, chains: Chains) -> Longs:
    """[order]: the last cut below which a set lies that fits; 0 if none does."""
    fitting = fits[chains.sets[:, ::-1]]
    fitting[:, -1] = True
    return np.asarray(chains.orders.shape[1] - np.argmax(fitting, axis=1))


def _at(sets: Longs, cut: Longs | int) -> Longs:
    """The sets [order, cut] at a cut each, or at one of all."""
    cut = np.asarray(cut)
    if cut.ndim:
        return np.asarray(sets[np.arange(len(sets)), cut])
    at = sets[:, int(cut)]
    return at[:1] if int(cut) == sets.shape[1] - 1 else at  # all loops lie below in any order
