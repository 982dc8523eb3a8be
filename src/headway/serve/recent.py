"""Sums over the last minute and since the start, in a few buckets of some seconds each."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.serve.figures import Ending

WINDOW_S: Final = 60.0
"""What "lately" means everywhere here."""

BUCKET_S: Final = 2.0
STEPS_PER_OCTAVE: Final = 8


def step_of(value: float) -> int:
    """The eighth of an octave that a number is nearest to; 0 and less count as a billionth."""
    return round(STEPS_PER_OCTAVE * math.log2(max(value, 1e-9)))


class Spread:
    """How positive numbers are spread, to within 5 % of each: counts by eighths of an octave."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Count a number."""
        self.counts[step_of(value)] += 1

    def quantile(self, share: float) -> float | None:
        """The least number that this share, in (0, 1], does not exceed; None without any."""
        total = self.counts.total()
        left = share * total
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 1e-9:
                return float(2.0 ** (step / STEPS_PER_OCTAVE))
        return None


@dataclass
class Sums:
    """Of one tenant or model, over some time.

    `endings` counts all requests, `promised` those that had a deadline. `total_s` is the spread of the time
    from arrival to result, `ratio` that of a run's time through what was predicted when it began. `busy_s`
    are lane-seconds.
    """

    endings: Counter[Ending] = field(default_factory=Counter)
    promised: Counter[Ending] = field(default_factory=Counter)
    total_s: Spread = field(default_factory=Spread)
    ratio: Spread = field(default_factory=Spread)
    busy_s: float = 0.0

    def merge(self, other: Sums) -> None:
        """Add another's."""
        for mine, more in self._pairs_with(other):
            if more:
                for name, count in more.items():
                    mine[name] += count
        self.busy_s += other.busy_s

    def take_away(self, other: Sums) -> None:
        """Undo a merge."""
        for mine, more in self._pairs_with(other):
            for name, count in more.items():
                mine[name] -= count
                if not mine[name]:
                    del mine[name]
        self.busy_s = max(0.0, self.busy_s - other.busy_s)

    def _pairs_with(self, other: Sums) -> tuple[tuple[Counter[Any], Counter[Any]], ...]:
        return (
            (self.endings, other.endings),
            (self.promised, other.promised),
            (self.total_s.counts, other.total_s.counts),
            (self.ratio.counts, other.ratio.counts),
        )


class Recent:
    """Sums over the last `WINDOW_S`, in buckets of `BUCKET_S`, and since the start.

    The latest bucket is still added to; `_closed` is the sum of the others, `_past` that of what is too old.
    """

    __slots__ = ("_buckets", "_closed", "_past")

    def __init__(self) -> None:
        self._past, self._closed = Sums(), Sums()
        self._buckets: deque[tuple[int, Sums]] = deque()

    def at(self, now: float) -> Sums:
        """The bucket of that time, to be added to; that of the latest time so far if this one is earlier."""
        index = int(now // BUCKET_S)
        buckets = self._buckets
        if not buckets or buckets[-1][0] < index:
            self._expire(index)
            if buckets:
                self._closed.merge(buckets[-1][1])
            buckets.append((index, Sums()))
        return buckets[-1][1]

    def lately(self, now: float) -> Sums:
        """The sum over the window that ends then."""
        self._expire(int(now // BUCKET_S))
        sums = Sums()
        sums.merge(self._closed)
        if self._buckets:
            sums.merge(self._buckets[-1][1])
        return sums

    def whole(self) -> Sums:
        """The sum since the start."""
        sums = Sums()
        for part in (self._past, self._closed, *(bucket for _, bucket in list(self._buckets)[-1:])):
            sums.merge(part)
        return sums

    def _expire(self, index: int) -> None:
        buckets = self._buckets
        while buckets and buckets[0][0] <= index - WINDOW_S / BUCKET_S:
            _, sums = buckets.popleft()
            self._past.merge(sums)
            if buckets:  # the latest is not among the closed ones
                self._closed.take_away(sums)
