"""What an operand costs wherever the border of a memory lies, for every set of loops that lie below it.

A border between two memories has some loops below it, in whatever order. What crosses it depends on that set
alone, so that a table over all sets (2^7 of seven loops) serves all orders of these loops. Arrays over sets
are [set]: bit i is whether loop i lies below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.nest import AT, DIMS, IRRELEVANT, among, touched
from headway.cost.placed import Placed
from headway.cost.ways import Passing, PortKey, Way

_RELEVANT = {"W": ("G", "K", "C", "FY", "FX"), "O": ("B", "G", "K", "OY", "OX"), "I": ("B", "G", "C")}
"""Of an input those that are no part of a window."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Data of an operand that cross a border: cycles of ports, bits at the topmost memory, pJ. All [set].

    `flows` are the cycles of each move, and the instances of the memory that it belongs to.
    """

    port_cycles: dict[PortKey, Floats]
    top_bits: Floats
    pj: Floats
    flows: tuple[tuple[Passing, Floats, float], ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What lies in one instance of a memory: elements [set], and room for them and the next ones.

    All of the operand needs no room for more. `always_partial` are sums of several units, added up above.
    """

    elements: Floats
    with_next: Floats
    always_partial: bool


@dataclass(frozen=True, slots=True)
class OperandSets:
    """One operand of a nest on a part of an array: `crossings` by border, the lowest first; `held` by level.

    `value_bits` are those of an element, `partial_bits` of a sum that is not complete; `complete` [set] tells
    whether no reduction is left above.
    """

    name: str
    levels: tuple[int, ...]
    crossings: tuple[Crossing, ...]
    held: tuple[Held, ...]
    value_bits: float
    partial_bits: float
    complete: Bools


class LoopSets:
    """All sets of some loops (dim, size): iterations by dimension, and how often a set runs again.

    `extent[dim]` is [set] for the dimensions that have loops.
    """

    def __init__(self, loops: Sequence[tuple[int, int]]) -> None:
        self.count = 1 << len(loops)
        self.extent: dict[int, Floats] = {}
        for (dim, size), inside in zip(loops, _members(len(loops)), strict=True):
            factor = np.where(inside, float(size), 1.0)
            self.extent[dim] = self.extent[dim] * factor if dim in self.extent else factor
        self.cycles = self.iterations(range(DIMS))
        self.periods: Floats = self.cycles[-1] / self.cycles

    def iterations(self, dims: Sequence[int]) -> Floats:
        """[set]: the product of the loops over these dimensions."""
        product: Floats = np.ones(self.count)
        for dim in dims:
            if dim in self.extent:
                product = product * self.extent[dim]
        return product

    def of(self, dim: int) -> Floats | float:
        """[set]: iterations of a dimension."""
        return self.extent.get(dim, 1.0)


@lru_cache(maxsize=16)
def _members(loops: int) -> Bools:
    """[loop, set]: whether each loop is in each set."""
    found: Bools = (np.arange(1 << loops) >> np.arange(loops)[:, None]) & 1 > 0
    return found


def operand_sets(placed: Placed, row: int, way: Way, sets: LoopSets) -> OperandSets:
    """Tables of an operand for a part of the array, the row of `placed`.

    The arithmetic is that of `evaluate` (by hardware) and of `allocated`.
    """
    name, reduction = way.name, list(way.reduction)
    below, unique = placed.below[name][:, row], placed.unique[name][:, row].tolist()
    units = np.multiply.reduce(below, axis=1).tolist()
    higher = np.multiply.reduce(below[-1, reduction] / below[:, reduction], axis=1).tolist()
    value, partial = placed.bits_of(name)
    counts = _elements(placed, row, name, below, sets)
    left = complete = np.ones(sets.count, dtype=bool)
    if name == "O":
        done = sets.iterations(reduction)
        left = done[-1] / done
        complete = left <= 1
        again = np.where(complete, sets.periods, sets.periods * (left - 1) / left)
    crossings = []
    for border, passings in enumerate(way.borders):
        bits = counts[border] * value
        if name == "O":
            incomplete = left * higher[border + 1] > 1
            bits = counts[border] * np.where(incomplete, partial, value)
            back = np.where(incomplete, again, 0.0)
        boost = unique[border] / unique[border + 1]
        cycles: dict[PortKey, Floats] = {}
        flows: list[tuple[Passing, Floats, float]] = []
        pj: Floats | float = 0.0
        top_bits: Floats | float = 0.0
        for each in passings:
            passed = np.maximum(bits * boost if each.above else bits, each.grain_bits) / each.port_bits
            busy: Floats = passed * (back if each.back else sets.periods)
            cycles[each.key] = cycles[each.key] + busy if each.key in cycles else busy
            instances = units[-1] / units[each.flow.level + 1]
            flows.append((each, busy, instances))
            pj = pj + busy * (instances * each.access_pj)
            if each.flow.level == way.top:
                top_bits = top_bits + busy * (instances * each.port_bits)
        moved = top_bits + np.zeros(sets.count)
        crossings.append(Crossing(cycles, moved, pj + np.zeros(sets.count), tuple(flows)))
    held = []
    for level in range(len(way.levels)):
        count = counts[level + 1]
        with_next = np.where(count >= count[-1], count, 2 * count)
        held.append(Held(count, with_next, higher[level + 1] > 1 + 1e-12))
    return OperandSets(name, way.levels, tuple(crossings), tuple(held), value, partial, complete)


def _elements(placed: Placed, row: int, name: str, below: Floats, sets: LoopSets) -> list[Floats]:
    """[index][set]: elements that the loops of each set touch, with what is unrolled below each level."""
    dims = [AT[dim] for dim in _RELEVANT[name]]
    product = sets.iterations(dims)
    beside = np.multiply.reduce(below[:, dims], axis=1).tolist()
    found: list[Floats] = []
    known: dict[tuple[float, ...], Floats] = {}
    for index, spatial in enumerate(below.tolist()):
        key = (beside[index], *spatial[AT["OY"] :]) if name == "I" else (beside[index],)
        if key not in known:
            count = product * beside[index]
            if name == "I":
                strides, limits = placed.strides, placed.limits[row].tolist()
                for axis, (out, tap) in enumerate((("OY", "FY"), ("OX", "FX"))):
                    rows, taps = (sets.of(AT[loop]) * spatial[AT[loop]] for loop in (out, tap))
                    count = count * np.minimum(
                        limits[axis], _touched(rows, taps, strides[axis], strides[2 + axis])
                    )
            known[key] = count
        found.append(known[key])
    return found


def _touched(outputs: Floats | float, taps: Floats | float, stride: int, dilation: int) -> Floats | float:
    """As `touched`, which is the outputs themselves where there is one tap."""
    if isinstance(taps, float) and taps == 1.0:
        return outputs
    return touched(outputs, taps, stride, dilation, whole=False)


def irrelevant_loops(name: str, dims: Longs) -> Bools:
    """[loop]: those that leave the operand as it is."""
    found: Bools = among([AT[dim] for dim in IRRELEVANT[name]])[dims]
    return found
