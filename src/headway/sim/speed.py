"""A machine whose speed varies: stretches of time in which all that runs takes longer, then not any more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import inf
from typing import Final, NamedTuple

import numpy as np

PIECE_S: Final = 1.0
"""Recorded stretches are repeated in pieces of that length: what lies closer together keeps its order."""


HOLDS_S: Final = 0.02
"""For how long after its end a run tells how fast the machine is, if no other follows: stalls that were seen
lasted several times as long."""


class Stretch(NamedTuple):
    """So many seconds in which runs take `factor` times as long as usual."""

    duration_s: float
    factor: float


class BareRun(NamedTuple):
    """A run of something that always does the same: when it began, what it took, and what it usually takes,
    in seconds. Runs on one lane follow each other."""

    start_s: float
    duration_s: float
    expected_s: float
    lane: int = 0


class Speed:
    """How far work gets in time, over stretches that follow each other from time 0 on.

    Work is counted in seconds at the usual speed. Where the stretches end, the speed is the usual one.
    """

    def __init__(self, stretches: Iterator[Stretch]) -> None:
        self._coming = stretches
        self._at_s, self._done_s, self._factors = [0.0], [0.0], [1.0]  # where each stretch begins
        self._ahead = True
        self._extend()

    def work_s(self, from_s: float, to_s: float) -> float:
        """The work that is done between two times."""
        return self._done_by(to_s) - self._done_by(from_s)

    def end_s(self, from_s: float, work_s: float) -> float:
        """When so much work is done that begins at `from_s`."""
        done_s = self._done_by(from_s) + work_s
        while self._ahead and self._done_s[-1] <= done_s:
            self._extend()
        at = bisect_right(self._done_s, done_s) - 1
        return max(from_s, self._at_s[at] + (done_s - self._done_s[at]) * self._factors[at])

    def _done_by(self, time_s: float) -> float:
        while self._ahead and self._at_s[-1] <= time_s:
            self._extend()
        at = bisect_right(self._at_s, time_s) - 1
        return self._done_s[at] + (time_s - self._at_s[at]) / self._factors[at]

    def _extend(self) -> None:
        """Take one more stretch. The last beginning known is that of the one to come."""
        found = next(self._coming, None)
        if found is None:
            self._ahead = False
            self._factors[-1] = 1.0
            return
        self._factors[-1] = found.factor
        self._at_s.append(self._at_s[-1] + found.duration_s)
        self._done_s.append(self._done_s[-1] + found.duration_s / found.factor)
        self._factors.append(1.0)


def alternating(
    factor: float, lasts_s: float, every_s: float, draws: np.random.Generator
) -> Iterator[Stretch]:
    """Usual and slow stretches in turn, without end: slow ones begin every `every_s` and last `lasts_s` in
    the mean, both lengths drawn from exponential distributions. `every_s` is more than `lasts_s`."""
    while True:
        yield Stretch(draws.exponential(every_s - lasts_s), 1.0)
        yield Stretch(draws.exponential(lasts_s), factor)


def repeated(recorded: Sequence[Stretch], draws: np.random.Generator) -> Iterator[Stretch]:
    """Recorded stretches without end: pieces of PIECE_S that begin anywhere in the record, one after another.

    That is the circular block bootstrap (Politis and Romano 1992). Without a record, or with an empty one,
    nothing comes.
    """
    begins_s = np.cumsum([0.0, *(stretch.duration_s for stretch in recorded)])
    while begins_s[-1] > 0.0:
        within_s = float(draws.uniform(0.0, begins_s[-1]))
        at = min(int(np.searchsorted(begins_s, within_s, side="right")) - 1, len(recorded) - 1)
        left_s = PIECE_S
        rest_s = float(begins_s[at + 1]) - within_s
        while left_s > 0.0:
            piece_s = min(left_s, rest_s)
            if piece_s > 0.0:
                yield Stretch(piece_s, recorded[at].factor)
            left_s -= rest_s
            at = (at + 1) % len(recorded)
            rest_s = recorded[at].duration_s


def stretches_of(runs: Iterable[BareRun]) -> list[Stretch]:
    """How the speed varied by runs of something, in order of time.

    A run tells the speed of its lane until the next one there begins, for HOLDS_S after its end at most, or
    slow times, in which runs last longer, would count too much. Beyond that nothing is known, and left out.
    Where there are several lanes the speed is the mean of theirs, which is what a run usually takes over what
    it took. Neighbours of the same speed are one stretch.
    """
    edges: list[tuple[float, int, float]] = []
    by_lane: dict[int, list[BareRun]] = {}
    for run in runs:
        if run.duration_s > 0.0 and run.expected_s > 0.0:
            by_lane.setdefault(run.lane, []).append(run)
    for of_lane in by_lane.values():
        of_lane.sort()
        for run, following in zip_longest(of_lane, of_lane[1:]):
            holds_until_s = run.start_s + run.duration_s + HOLDS_S
            until_s = holds_until_s if following is None else min(holds_until_s, following.start_s)
            speed = run.expected_s / run.duration_s
            edges += [(run.start_s, 1, speed), (until_s, -1, -speed)]
    found: list[Stretch] = []
    known, speeds, before_s = 0, 0.0, -inf
    for at_s, change, speed in sorted(edges):
        if known and at_s > before_s:
            factor = known / speeds
            if found and abs(found[-1].factor - factor) < 1e-9 * factor:
                found[-1] = Stretch(found[-1].duration_s + at_s - before_s, found[-1].factor)
            else:
                found.append(Stretch(at_s - before_s, factor))
        known += change
        speeds = speeds + speed if known else 0.0
        before_s = at_s
    return found
