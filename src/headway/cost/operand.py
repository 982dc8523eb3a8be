"""One operand of a batch of mappings: its data at each memory level, and its transfers between them."""

from __future__ import annotations

import numpy as np

from headway.core.hierarchy import Hierarchy, Move, Port
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.nest import AT, DIMS, IRRELEVANT, Batch, among, elements
from headway.cost.ports import Activity

_UNRELATED_RELEVANT = {"W": "GKC", "I": "BGC", "O": "BGK"}  # relevant, and part of no row window


class OperandData:
    """One operand of a batch: data and cycles below each of its memory levels. Arrays are [n].

    Index 0 of the lists is the array itself, index m + 1 one instance of memory level m.
    """

    def __init__(self, name: str, batch: Batch, levels: tuple[int, ...], copied: bool) -> None:
        self.name = name
        self.copied = copied  # whether numbers are rounded as the peer does
        self.batch = batch
        self.levels = levels
        self.exact: list[Floats] = []  # elements in one instance, with the average of unrolled units
        self.cycles: list[Floats] = []
        self.partial: list[Bools] = []  # whether sums are still incomplete there
        self.exact_boost: list[Floats] = []  # instances fed with different data by one of the level above
        self.units: list[Floats] = []  # instances in use
        self.exact_unique: list[Floats] = []
        self.above: list[Floats] = []  # irrelevant temporal iterations above
        # By the peer's rules only: whole units, the loops that its windows go by, and what can be written
        # while it is used.
        self.data: list[Floats] = []
        self.boost: list[Floats] = []
        self.unique: list[Floats] = []
        self.top_relevant: list[Floats] = []
        self.top_irrelevant: list[Floats] = []
        self.double: list[Bools] = []
        self.value_bits = batch.bits[:, "WIO".index(name)]
        self.partial_bits = self.value_bits

    @classmethod
    def of(cls, batch: Batch, hierarchy: Hierarchy, name: str, copied: bool, extent: Floats) -> OperandData:
        """Everything that the moves of the operand follow from; `extent` are the batch's `extents`."""
        part = cls(name, batch, hierarchy.levels[name], copied)
        if name == "O":
            part.partial_bits = np.full(len(batch), float(hierarchy.partial_bits))
        irrelevant = among([AT[dim] for dim in IRRELEVANT[name]])[batch.loops] | (batch.sizes == 1)
        relevant = among([AT[dim] for dim in _relevant(name)])[batch.loops] | (batch.sizes == 1)
        bottom = np.zeros(len(batch), dtype=np.int64)
        # An input that the innermost loops leave as it is stays in the array and is not read again.
        cuts = [bottom if name == "O" else _merged(irrelevant, bottom)]
        width = batch.loops.shape[1]
        for level in range(len(part.levels) - 1):
            cuts.append(np.maximum(_merged(irrelevant, batch.cuts[name][:, level]), cuts[-1]))
        cuts.append(np.full(len(batch), width, dtype=np.int64))
        rows = np.arange(len(batch))
        cumulative, reused = _products(batch.sizes), _products(np.where(irrelevant, batch.sizes, 1.0))
        part.cycles = [cumulative[rows, cut] for cut in cuts]
        part.above = [reused[:, -1] / reused[rows, cut] for cut in cuts]
        windows = zip((bottom, bottom, *cuts[1:]), (bottom, *cuts[1:]), strict=False) if copied else ()
        for below, cut in windows:
            part.top_relevant.append(_run(batch.sizes, relevant, below, cut))
            part.top_irrelevant.append(_run(batch.sizes, irrelevant, below, cut))
        part._lay_out(hierarchy, cuts, extent, rows)
        return part

    def _lay_out(self, hierarchy: Hierarchy, cuts: list[Longs], extent: Floats, rows: Longs) -> None:
        """Data per instance, instances, and how many of them get different data, at every level."""
        batch, name, copied = self.batch, self.name, self.copied
        served: list[list[int]] = [[]]
        seen: set[int] = set()
        groups: list[list[int]] = []
        for position in self.levels:
            new = [axis for axis in hierarchy.memories[position].axes if axis not in seen]
            seen.update(new)
            groups.append(new)
        groups.append([axis for axis in range(len(hierarchy.axes)) if axis not in seen])
        for group in groups:
            served.append(served[-1] + group)
        below: list[tuple[Floats, Floats]] = []  # spatial extents served by levels below, whole and exact
        for inside in served:
            pair = tuple(
                np.prod(values[:, inside, :], axis=1) if inside else np.ones((1, DIMS))
                for values in (batch.whole, batch.exact)
            )
            below.append((pair[0], pair[1]))
        ir = [AT[dim] for dim in IRRELEVANT[name]]
        units = np.prod(below[-1][1], axis=1)
        in_all_units = _unrounded(name, below[-1][1], batch, copied)
        for index, cut in enumerate(cuts):
            temporal = extent[rows, cut]
            exact = below[index][1]
            self.exact.append(elements(name, temporal * exact, batch, copied))
            self.exact_unique.append(in_all_units / _unrounded(name, exact, batch, copied))
            instances = units / np.prod(exact, axis=1)
            self.units.append(np.rint(instances) if copied else instances)
            if name == "O":  # sums between a level and the next are added up on the way
                higher = np.prod(below[-1][1][:, ir] / below[index + 1][1][:, ir], axis=1)
                self.partial.append(np.asarray(self.above[index] * higher > 1))
            else:
                self.partial.append(np.zeros(len(batch), dtype=bool))
        for index in range(len(cuts) - 1):
            boost = self.exact_unique[index] / self.exact_unique[index + 1]
            self.exact_boost.append(np.rint(boost) if copied else boost)
        if copied:
            self._round_to_whole_units([whole for whole, _ in below], cuts, extent, rows)

    def _round_to_whole_units(
        self, below: list[Floats], cuts: list[Longs], extent: Floats, rows: Longs
    ) -> None:
        """The peer's count for latency: data per instance, and instances that get different data."""
        name, batch = self.name, self.batch
        different = elements(name, below[-1], batch)
        for index, cut in enumerate(cuts):
            self.data.append(elements(name, extent[rows, cut] * below[index], batch))
            self.unique.append(different / elements(name, below[index], batch))
        for index in range(len(cuts) - 1):
            self.boost.append(np.rint(self.unique[index] / self.unique[index + 1]))

    def width(self, index: int) -> Floats:
        """Bits of an element as it lies at that index."""
        return np.where(self.partial[index], self.partial_bits, self.value_bits)

    def effective_bits(self, index: int) -> Floats:
        """Bits of an instance that must stay while the next are written: without its top relevant loops."""
        return np.floor(self.exact[index] * self.width(index) / self.top_relevant[index])

    def moves(self, level: int) -> list[tuple[Move, bool, bool]]:
        """Moves at a level: which, whether across the border below, whether of partial sums on their way."""
        top = level == len(self.levels) - 1
        if self.name != "O":
            return [(Move.FEED, True, False)] + ([] if top else [(Move.FILL, False, False)])
        down = [(Move.STORE, True, False), (Move.FEED, True, True)]
        return down + ([] if top else [(Move.DRAIN, False, False), (Move.FILL, False, True)])

    def amount(self, level: int, below: bool, exact: bool = False) -> Floats:
        """Elements per period: of one instance, or of all instances below that get different data."""
        if not below:
            return (self.exact if exact else self.data)[level + 1]
        boost = (self.exact_boost if exact else self.boost)[level]
        return (self.exact if exact else self.data)[level] * boost

    def element_bits(self, level: int, below: bool) -> Floats:
        """Bits per element of a transfer across the border below or above the level."""
        return self.width(level if below else level + 1)

    def count(self, level: int, below: bool, partial: bool, total: Floats) -> Floats:
        """Periods of a transfer; none for partial sums where sums are complete.

        The peer also reads back the zeros that the first sums start from.
        """
        index = level if below else level + 1
        periods = np.floor(total / self.cycles[index])
        if not partial:
            return periods
        if not self.copied:
            again = self.above[index]
            periods = np.where(again > 1, periods * (again - 1) / again, periods)
        return np.where(self.partial[index], periods, 0.0)

    def windowed(self, level: int, below: bool, partial: bool, port: Port, total: Floats) -> Activity:
        """A transfer as the peer sees it: whole cycles, and a window in every period.

        The window is the period where the data below the transfer can be written while they are used, else
        what their topmost irrelevant loops leave of it.
        """
        index = level if below else level + 1
        count = self.count(level, below, partial, total)
        bits = self.amount(level, below) * self.element_bits(level, below)
        period = self.cycles[index]
        window = np.floor(period / self.top_irrelevant[index])
        # The peer rounds the average bits per cycle down before it scales them up to the instances fed.
        average = self.data[index] * self.width(index) / period * (self.boost[level] if below else 1.0)
        return Activity(
            real=np.ceil(bits / port.bits),
            allowed=np.where(self.double[index], period, window),
            period=period,
            repeats=count,
            average_bits=np.floor(average),
            least_bits=self.data[1] * self.width(1),
        )

    def streamed(self, level: int, below: bool, partial: bool, port: Port, total: Floats) -> Activity:
        """A transfer that can go on at any time; what the array takes in one cycle must have passed first."""
        index = level if below else level + 1
        bits = self.amount(level, below, exact=True) * self.element_bits(level, below)
        real = np.maximum(bits, port.grain_bits) / port.bits
        period = self.cycles[index]
        count = self.count(level, below, partial, total)
        least = self.width(0) * self.exact_unique[0] / self.exact_unique[level + 1]
        return Activity(real, period, period, count, np.zeros(len(period)), least)

    def words(self, level: int, below: bool, partial: bool, port: Port, total: Floats) -> Floats:
        """Accesses of the port's full width, in all instances of the level."""
        bits = self.amount(level, below, exact=True) * self.element_bits(level, below)
        count = self.count(level, below, partial, total)
        if not self.copied:
            return np.maximum(bits, port.grain_bits) / port.bits * count * self.units[level + 1]
        share = np.ceil(bits / port.grain_bits) * (port.grain_bits / port.bits)
        return np.floor(share * count * self.units[level + 1] + 1e-6)


def _relevant(name: str) -> tuple[str, ...]:
    # Rows and columns of a weight or an output are relevant as such; those of an input only together with
    # the filter's, so a loop over them neither fixes nor multiplies its data.
    windows = {"W": ("FY", "FX"), "I": (), "O": ("OY", "OX")}
    return (*_UNRELATED_RELEVANT[name], *windows[name])


def _products(sizes: Floats) -> Floats:
    """[n, position]: iterations of the first loops."""
    return np.cumprod(np.concatenate((np.ones((len(sizes), 1)), sizes), axis=1), axis=1, dtype=np.float64)


def _unrounded(name: str, extent: Floats, batch: Batch, copied: bool) -> Floats:
    if not copied:
        return elements(name, extent, batch, whole=False)
    if name == "I":
        maps = elements(name, np.where(np.arange(DIMS) < AT["OY"], 1.0, extent), batch)
        return np.asarray(maps * np.prod(extent[:, [AT["B"], AT["G"], AT["C"]]], axis=1))
    dims = [AT[dim] for dim in _relevant(name)]
    return np.asarray(np.prod(extent[:, dims], axis=1))


def _merged(irrelevant: Bools, cut: Longs) -> Longs:
    """Cuts moved up over irrelevant loops: data stay while those run."""
    width = irrelevant.shape[1]
    moved = cut.copy()
    rows = np.arange(len(cut))
    for _ in range(width):
        free = (moved < width) & irrelevant[rows, np.minimum(moved, width - 1)]
        if not free.any():
            break
        moved = moved + free
    return moved


def _run(sizes: Floats, member: Bools, below: Longs, cut: Longs) -> Floats:
    """The product of the loops of a sort that follow each other at the top of [below, cut)."""
    width = sizes.shape[1]
    product = np.ones(len(cut))
    alive = np.ones(len(cut), dtype=bool)
    rows = np.arange(len(cut))
    for step in range(1, width + 1):
        position = cut - step
        alive = alive & (position >= below)
        if not alive.any():
            break
        place = np.maximum(position, 0)
        alive = alive & member[rows, place]
        product = np.where(alive, product * sizes[rows, place], product)
    return product
