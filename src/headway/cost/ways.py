"""Ways of operands through the memories of a core: what moves across which border, before any nest is known.

Border i lies below level i of an operand; border 0 is that of the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headway.core.hierarchy import Hierarchy, Move
from headway.cost.mapping import Flow
from headway.cost.nest import AT, IRRELEVANT

PortKey = tuple[int, int]
"""Position of a memory, and of one of its ports."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A move across a border: its port and the energy of an access of the port's whole width.

    `above` moves are those of the memory above the border, for all instances below it that get different
    data. `back` are partial sums on their way to the array.
    """

    flow: Flow
    key: PortKey
    port_bits: float
    grain_bits: float
    access_pj: float
    above: bool
    back: bool


@dataclass(frozen=True, slots=True)
class Way:
    """An operand's memories by position, the lowest first, and the moves across each border.

    `served` are the array's axes that lie below, by index: 0 for the array itself (none), i + 1 for level i,
    the last for all axes. `reduction` are the dimensions that leave the operand as it is.
    """

    name: str
    levels: tuple[int, ...]
    served: tuple[tuple[int, ...], ...]
    borders: tuple[tuple[Passing, ...], ...]
    reduction: tuple[int, ...]

    @property
    def top(self) -> int:
        """The level of the topmost memory."""
        return len(self.levels) - 1


@lru_cache(maxsize=64)
def ways_of(hierarchy: Hierarchy, operands: tuple[str, ...]) -> tuple[Way, ...]:
    """The ways of some operands."""
    return tuple(_way(hierarchy, name) for name in operands)


@lru_cache(maxsize=64)
def shared_memories(hierarchy: Hierarchy, operands: tuple[str, ...]) -> frozenset[int]:
    """Positions of the memories of limited size that hold several of the operands."""
    return frozenset(
        position
        for position, memory in enumerate(hierarchy.memories)
        if memory.bits < float("inf") and len(set(memory.operands) & set(operands)) > 1
    )


def _way(hierarchy: Hierarchy, name: str) -> Way:
    levels = hierarchy.levels[name]
    served: list[tuple[int, ...]] = [()]
    for position in levels:
        served.append(tuple(sorted({*served[-1], *hierarchy.memories[position].axes})))
    served.append(tuple(range(len(hierarchy.axes))))
    up, down = (Move.STORE, Move.FEED), (Move.DRAIN, Move.FILL)
    borders = []
    for border in range(len(levels)):
        moves = [(border, move) for move in (up if name == "O" else up[1:])]
        if border:
            moves += [(border - 1, move) for move in (down if name == "O" else down[1:])]
        borders.append(tuple(_passing(hierarchy, name, border, level, move) for level, move in moves))
    reduction = tuple(AT[dim] for dim in IRRELEVANT[name])
    return Way(name, levels, tuple(served), tuple(borders), reduction)


def _passing(hierarchy: Hierarchy, name: str, border: int, level: int, move: Move) -> Passing:
    position = hierarchy.levels[name][level]
    memory = hierarchy.memories[position]
    port = memory.port_of(name, move)
    return Passing(
        Flow(name, level, move),
        (position, memory.ports.index(port)),
        port.bits,
        port.grain_bits,
        memory.write_pj if move in (Move.FILL, Move.STORE) else memory.read_pj,
        above=level == border,
        back=name == "O" and move in (Move.FEED, Move.FILL),
    )
