"""What the log of a live run does not tell: what the driver itself took and how well it kept time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LiveReport:
    """How a live run went, beside its log.

    `driver_cpu_s` is processor time of scheduling, on the driver's thread and on those that it was lent:
    waking, the engine, the policy, handing runs over; `log_cpu_s` is that of the thread that writes the log.
    `send_lag_s` holds for each request how much later than its arrival time it was sent. `last_faults` are
    the last of the policy's exceptions and bad decisions with their times.
    """

    end_s: float
    requests: int
    rejected: int
    decisions: int
    faults: int
    last_faults: tuple[tuple[float, str], ...]
    interrupted: bool
    driver_cpu_s: float
    log_cpu_s: float
    send_lag_s: Sequence[float] = field(repr=False)

    @property
    def scheduler_share(self) -> float:
        """The share of one core that scheduling took."""
        return self._share(self.driver_cpu_s)

    def _share(self, cpu_s: float) -> float:
        return cpu_s / self.end_s if self.end_s > 0.0 else 0.0

    def send_lag_at(self, share: float) -> float:
        """The lag in seconds that this share of requests did not exceed; 0 without requests."""
        ordered = sorted(self.send_lag_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def lines(self) -> list[str]:
        """The report in a few lines of text."""
        lines = [
            f"{self.requests} requests in {self.end_s:.2f} s{', interrupted' if self.interrupted else ''}",
            f"scheduler: {100 * self.scheduler_share:.2f} % of a core"
            f" ({1e6 * self.driver_cpu_s / max(1, self.decisions):.0f} us per decision,"
            f" {self.decisions} decisions); writing the log {100 * self._share(self.log_cpu_s):.2f} %",
            f"sent late by {1e3 * self.send_lag_at(0.5):.2f} ms at the median,"
            f" {1e3 * self.send_lag_at(0.99):.2f} ms at the 99th percentile,"
            f" {1e3 * self.send_lag_at(1.0):.2f} ms at most",
        ]
        if self.rejected:
            lines.append(f"{self.rejected} requests rejected, their tenants' queues being full")
        if self.faults:
            at_s, cause = self.last_faults[-1]
            lines.append(
                f"the policy failed {self.faults} times and earliest deadline stood in;"
                f" last at {at_s:.3f} s: {cause}"
            )
        return lines
