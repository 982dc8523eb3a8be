"""What decisions take: charged in virtual time from what is counted, or measured by a given clock."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class DecisionCharge:
    """How long a decision takes in virtual time, in seconds: a function of what it looks at."""

    fixed_s: float = 0.0
    per_ready_s: float = 0.0
    per_idle_core_s: float = 0.0

    def seconds(self, ready: int, idle_cores: int) -> float:
        """Of one decision among that many waiting requests and idle cores."""
        return self.fixed_s + self.per_ready_s * ready + self.per_idle_core_s * idle_cores


class DecisionTimes:
    """How long each call of `decide` took, its answer collected, in seconds of the given clock.

    `clock` is, for instance, `time.perf_counter`. Recording costs about 0.5 us a decision (two readings of a
    clock and a little), hardly any of which is in what is recorded.
    """

    __slots__ = ("clock", "seconds")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = array("d")

    def microseconds(self) -> dict[str, float | int | None]:
        """The number of decisions, and their median, 99th percentile (nearest rank) and maximum in
        microseconds; None of no decisions."""
        ascending = sorted(self.seconds)
        count = len(ascending)

        def quantile(share: float) -> float | None:
            return ascending[max(0, ceil(share * count) - 1)] * 1e6 if count else None

        return {"count": count, "p50": quantile(0.5), "p99": quantile(0.99), "max": quantile(1.0)}
