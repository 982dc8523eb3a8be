"""Counts by fixed bounds, which monitoring adds up over servers and time; by tenant and model together."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headway.serve.figures import Ending

SECONDS: Final = (
    *(1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
)
"""Bounds of times of requests: from a tenth of a millisecond to almost a minute, three to a decade."""

RATIOS: Final = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Bounds of what took place through what was predicted."""

DECISION_SECONDS: Final = (
    *(5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4),
    *(1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1),
)
"""Bounds of what a decision of the policy takes."""

MOST_SERIES: Final = 256
"""Pairs of a tenant and a model of which histograms are kept; the one that was quiet for longest goes."""


class Histogram:
    """How many values did not exceed each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound and how many values did not exceed it; the last bound is infinite."""
        return zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True)

    def copy(self) -> Histogram:
        """The same counts, which change no more."""
        twin = Histogram(self.bounds)
        twin.counts, twin.total = self.counts.copy(), self.total
        return twin


def _of_seconds() -> Histogram:
    return Histogram(SECONDS)


def _of_ratios() -> Histogram:
    return Histogram(RATIOS)


@dataclass(slots=True)
class Series:
    """Of one tenant's requests to one version of a model, since the start.

    `endings` counts all requests, `promised` those that had a deadline. `total_s` (arrival to result),
    `queue_s` and `compute_s` are of requests with a result, `ratio` of runs: what they took through what was
    predicted when they began.
    """

    endings: Counter[Ending] = field(default_factory=Counter)
    promised: Counter[Ending] = field(default_factory=Counter)
    total_s: Histogram = field(default_factory=_of_seconds)
    queue_s: Histogram = field(default_factory=_of_seconds)
    compute_s: Histogram = field(default_factory=_of_seconds)
    ratio: Histogram = field(default_factory=_of_ratios)

    def copy(self) -> Series:
        """The same, which changes no more."""
        return Series(
            Counter(self.endings),
            Counter(self.promised),
            self.total_s.copy(),
            self.queue_s.copy(),
            self.compute_s.copy(),
            self.ratio.copy(),
        )


class Pairs(OrderedDict[tuple[str, str], Series]):
    """By tenant and model, at most MOST_SERIES; `forgotten` counts those that went."""

    forgotten = 0

    def of(self, tenant: str, model: str) -> Series:
        """Of that pair, from nothing if there was none."""
        pair = (tenant, model)
        found = self.get(pair)
        if found is None:
            found = self[pair] = Series()
            if len(self) > MOST_SERIES:
                self.popitem(last=False)
                self.forgotten += 1
        else:
            self.move_to_end(pair)
        return found
