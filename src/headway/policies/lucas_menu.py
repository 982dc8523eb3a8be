"""What Lucas may choose from, priced ahead: the runs of each model, what they cost at a bandwidth, and the
least time they leave.

Notation of the reconstruction (docs/lucas.md): T is what a run takes, A its core-time, and Ref what the
same blocks would take now plainly, each on its best core with outputs kept in SRAM. All of it depends on
the bandwidth that the run would get, which is therefore rounded to one of `LEVELS_PER_OCTAVE` levels
between two powers of two; then nothing has to be computed twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from weakref import ref

import numpy as np

from headway.core.block import Mode, Option
from headway.core.protocols import CostTable
from headway.policies.lucas_runs import Allowed, Runs, multis, saves, singles

GAMMA = 1.5
"""Area guard: a run on one core may take this many times the plain core-time."""

LEVELS_PER_OCTAVE = 4
"""Bandwidths that prices are kept for, between two powers of two: within 9 % of the true one."""

_LEAST_S = 1e-15  # for layers that take no time at all


class Priced(NamedTuple):
    """A run, and what choosing it costs at some bandwidth, in seconds.

    `excess_s` is how much later than by the fastest sequence of runs on one core the request is done if it
    goes on afterwards by the fastest sequence on a core of this kind. `traffic_s` is what its traffic and its
    cores hold up (bytes at full bandwidth x cores / 2), likewise beside that sequence. `step_s` is how long
    it may take to the next safe point, `seconds` what it takes, and `per_ref` that per second of Ref.
    """

    excess_s: float
    traffic_s: float
    step_s: float
    seconds: float
    per_ref: float
    option: Option


class Group(NamedTuple):
    """Pipelines that need the same cores: how many of each kind, together `width`. `saving` are those that
    are worth it for the bytes they save, `hurrying` all that are worth it if time is short."""

    needed: tuple[tuple[int, int], ...]
    width: int
    saving: tuple[Priced, ...]
    hurrying: tuple[Priced, ...]


class Offers(NamedTuple):
    """Runs on one core that are worth considering: `guarded` within the area guard, `free` without it."""

    guarded: tuple[Priced, ...]
    free: tuple[Priced, ...]


class Menu:
    """The runs of one model on one device, by the block they start at. Filled as it is asked."""

    def __init__(self, table: CostTable, bandwidth_bytes_s: float, allowed: Allowed) -> None:
        self.blocks = table.blocks
        self.serial_s = table.serial_s
        self._table = ref(table)  # menus are kept for as long as their tables are, and no longer
        self._bandwidth = bandwidth_bytes_s
        self._allowed = allowed
        self._singles = Runs([singles(table, block, allowed) for block in range(table.blocks)])
        self.remaining_s = self._least((self._singles,))
        """By block, optimistic seconds of work left: the fastest sequence of runs on one core each."""
        self._multis: Runs | None = None
        self._fastest_s: list[float] = []
        self._prices: dict[int, Prices] = {}
        self._on_kind_s: dict[int, list[float]] = {}

    def singles(self, block: int) -> Sequence[Option]:
        """Every run on one core that starts there."""
        return self._singles.of_block(block)

    def fastest_s(self, block: int) -> float:
        """Optimistic seconds of work left if several cores may be taken at once."""
        if not self._allowed.pipeline:
            return self.remaining_s[block]
        if not self._fastest_s:
            self._fastest_s = self._least((self._singles, self._several()))
        return self._fastest_s[block]

    def multis(self, block: int) -> Sequence[Option]:
        """Every run on several cores that starts there."""
        return self._several().of_block(block)

    @property
    def table(self) -> CostTable:
        """The table that it was read out of."""
        table = self._table()
        assert table is not None, "whoever asks has the table"
        return table

    def on_kind_s(self, block: int, kind: int) -> float:
        """Seconds of layer-by-layer work left if all of it ran on one kind of core."""
        sums = self._on_kind_s.get(kind)
        if sums is None:
            costs = [row[kind] for row in reversed(self.serial_s)]
            sums = self._on_kind_s[kind] = [*np.cumsum(costs)[::-1].tolist(), 0.0]
        return sums[block]

    def prices(self, level: int) -> Prices:
        """Everything at the bandwidth of a level."""
        known = self._prices.get(level)
        if known is None:
            share = at_level(level, self._bandwidth)
            known = self._prices[level] = Prices(self, self._singles, share, self._bandwidth)
        return known

    def _several(self) -> Runs:
        if self._multis is None:
            blocks = range(self.blocks)
            self._multis = Runs(
                [
                    multis(self.table, block, self._allowed) if self._allowed.pipeline else ()
                    for block in blocks
                ]
            )
        return self._multis

    def _least(self, runs: Sequence[Runs]) -> list[float]:
        """By block the least seconds to the end, by dynamic programming over all runs."""
        least = [0.0] * (self.blocks + 1)
        seconds = [each.seconds(self._bandwidth).tolist() for each in runs]
        for block in reversed(range(self.blocks)):
            ways = [
                some[at] + least[each.options[at].end]
                for each, some in zip(runs, seconds, strict=True)
                for at in range(each.begin[block], each.begin[block + 1])
            ]
            least[block] = min(ways)
        return least


class Prices:
    """What the runs of a menu cost if each gets `share` bytes per second."""

    def __init__(self, menu: Menu, runs: Runs, share: float, bandwidth_bytes_s: float) -> None:
        table = menu.table
        serial = [[(o.fixed_s, o.compute_s, o.dram_bytes) for o in row] for row in table.serial]
        fixed, compute, dram = np.moveaxis(np.array(serial), 2, 0)
        kept = np.array(table.kept_bytes)
        cold = (fixed + np.maximum(compute, dram / share)).min(axis=1)
        warm = (fixed + np.maximum(compute, (dram - kept) / share)).min(axis=1)
        self.share = share
        self._menu = menu
        self._singles = runs
        self._bandwidth = bandwidth_bytes_s
        self._cold_s: list[float] = cold.tolist()
        self._warm_sum_s: list[float] = [0.0, *np.cumsum(warm).tolist()]
        self._rest = [self._fastest(kind) for kind in range(len(table.kinds))]
        self._offers: dict[tuple[int, int], Offers] = {}
        self._kept: dict[tuple[int, int, float], tuple[Priced, ...]] = {}
        self._groups: dict[int, tuple[Group, ...]] = {}

    def _fastest(self, kind: int) -> _Rest:
        """The fastest sequence of runs on one core of a kind, by dynamic programming.

        A request that changes kinds layer by layer looks fast on paper, but waits for a core at every change.
        """
        runs, blocks = self._singles, self._menu.blocks
        options, seconds = runs.options, runs.seconds(self.share).tolist()
        rest_s, traffic_s = [0.0] * (blocks + 1), [0.0] * (blocks + 1)
        for block in reversed(range(blocks)):
            rest_s[block], at = min(
                [
                    (seconds[at] + rest_s[options[at].end], at)
                    for at in range(runs.begin[block], runs.begin[block + 1])
                    if options[at].kinds[0] == kind
                ]
            )
            option = options[at]
            traffic_s[block] = option.dram_bytes / self._bandwidth / 2.0 + traffic_s[option.end]
        return _Rest(rest_s, traffic_s)

    def ref_s(self, first: int, end: int) -> float:
        """Ref: seconds that blocks first to end would take now plainly."""
        sums = self._warm_sum_s
        return max(_LEAST_S, self._cold_s[first] + sums[end] - sums[first + 1])

    def priced(self, option: Option, resumed: float = 0.0, extra_bytes: float = 0.0) -> Priced:
        """A run of which a share is done already, and which moves some bytes more or less than usual."""
        left, width = 1.0 - resumed, len(option.kinds)
        seconds = option.fixed_s + max(
            option.compute_s * left, (option.dram_bytes * left + extra_bytes) / self.share
        )
        first, end = option.first, option.end
        rest = min([self._rest[kind] for kind in option.kinds], key=lambda rest: rest.seconds[end])
        best = min(self._rest, key=lambda rest: rest.seconds[first])
        traffic_s = option.dram_bytes / self._bandwidth * width / 2.0
        return Priced(
            round(seconds + rest.seconds[end] - best.seconds[first], 15),
            traffic_s + rest.traffic_s[end] - best.traffic_s[first],
            seconds / option.steps + option.drain_s,
            seconds,
            seconds / self.ref_s(first, end),
            option,
        )

    def offers(self, block: int, kind: int) -> Offers:
        """Runs on one core of a kind, without those that another one beats whatever is scarce."""
        known = self._offers.get((block, kind))
        if known is None:
            runs = self._of([o for o in self._singles.of_block(block) if o.kinds[0] == kind])
            guarded = _undominated([run for run in runs if run.per_ref <= GAMMA])
            known = self._offers[block, kind] = Offers(guarded, _undominated(runs))
        return known

    def kept(self, block: int, kind: int, extra_bytes: float) -> tuple[Priced, ...]:
        """Layer-by-layer runs on a core of a kind that holds their input, which adds (saves, if negative) so
        many bytes."""
        known = self._kept.get((block, kind, extra_bytes))
        if known is None:
            runs = [
                self.priced(option, 0.0, extra_bytes)
                for option in self._singles.of_block(block)
                if option.mode is Mode.SERIAL and option.kinds[0] == kind
            ]
            known = self._kept[block, kind, extra_bytes] = _undominated(runs)
        return known

    def groups(self, block: int) -> tuple[Group, ...]:
        """Pipelines by the cores they need, without those that another one of the same cores beats."""
        known = self._groups.get(block)
        if known is None:
            by_cores: dict[tuple[int, ...], list[Option]] = {}
            for option in self._menu.multis(block):
                by_cores.setdefault(tuple(sorted(option.kinds)), []).append(option)
            found = []
            for kinds, options in sorted(by_cores.items(), key=lambda item: (len(item[0]), item[0])):
                runs = self._of(options)
                saving = _undominated([run for run in runs if saves(run.option)])
                needed = tuple(sorted(Counter(kinds).items()))
                found.append(Group(needed, len(kinds), saving, _undominated(runs)))
            known = self._groups[block] = tuple(found)
        return known

    def _of(self, options: Sequence[Option]) -> list[Priced]:
        return [self.priced(option) for option in sorted(options, key=lambda option: option.end)]


class _Rest(NamedTuple):
    """By block, the seconds of a sequence of runs from there to the end, and those that its traffic takes at
    full bandwidth, halved as in Priced."""

    seconds: list[float]
    traffic_s: list[float]


def at_level(level: int, bandwidth_bytes_s: float) -> float:
    """The bandwidth of a level; level 0 is all of it."""
    return bandwidth_bytes_s * math.exp2(-level / LEVELS_PER_OCTAVE)


def level_of(share_bytes_s: float, bandwidth_bytes_s: float) -> int:
    """The level nearest to a share of the bandwidth."""
    if share_bytes_s >= bandwidth_bytes_s:
        return 0
    return round(LEVELS_PER_OCTAVE * math.log2(bandwidth_bytes_s / share_bytes_s))


def _undominated(runs: Sequence[Priced]) -> tuple[Priced, ...]:
    """The runs that no other one beats or equals in every part of the price, the shortest first."""
    kept: list[Priced] = []
    for run in sorted(runs, key=lambda each: (each.excess_s, each.option.end)):
        if not any(
            other.traffic_s <= run.traffic_s and other.step_s <= run.step_s and other.seconds <= run.seconds
            for other in kept
        ):
            kept.append(run)
    kept.sort(key=lambda each: each.option.end)
    return tuple(kept)
