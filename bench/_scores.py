"""How many requests of three tenants were in time, and how many could have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from headway.core.request import Request
from headway.record.columns import requests_of
from headway.record.log import LogTable
from headway.sim.speed import Speed

TENANTS = ("small", "middle", "large")
BLOCK_S = 2e-3
WARMUP_S = 1.0


def ideal(
    requests: Sequence[Request], seconds: Mapping[str, float], speed: Speed | None = None
) -> dict[int, float]:
    """When each request ends under preemptive earliest deadline with drops on one lane without overhead.

    At the end of each block the waiting request with the earliest deadline that it can still meet goes on.
    Requests that are dropped are left out. On a machine with a `speed` that varies it does not know what is
    to come, and counts on the usual one.
    """
    left_s = {request.id: seconds[request.tenant] for request in requests}
    block_s = {name: alone / ceil(alone / BLOCK_S) for name, alone in seconds.items()}
    coming = iter(requests)
    next_one = next(coming, None)
    waiting: list[Request] = []
    ended_s: dict[int, float] = {}
    now = 0.0
    while waiting or next_one is not None:
        if not waiting and next_one is not None:
            now = max(now, next_one.arrival_s)
        while next_one is not None and next_one.arrival_s <= now:
            waiting.append(next_one)
            next_one = next(coming, None)
        waiting = [request for request in waiting if now + left_s[request.id] <= request.deadline_s + 1e-9]
        if not waiting:
            continue
        first = min(waiting, key=lambda request: (request.deadline_s, request.id))
        step_s = min(left_s[first.id], block_s[first.tenant])
        now = now + step_s if speed is None else speed.end_s(now, step_s)
        left_s[first.id] -= step_s
        if left_s[first.id] < 1e-9:
            ended_s[first.id] = now
            waiting.remove(first)
    return ended_s


@dataclass
class Score:
    """Requests in time and offered, by tenant, over all repeats; and one figure of each repeat."""

    in_time: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TENANTS, 0))
    offered: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TENANTS, 0))
    each_goodput: list[float] = field(default_factory=list)
    scheduler: list[float] = field(default_factory=list)
    per_request_s: list[float] = field(default_factory=list)

    def add(
        self, requests: Sequence[Request], ended_s: Mapping[int, float], sla_s: Mapping[str, float]
    ) -> None:
        """Count one run's requests that ended within their tenant's latency."""
        counted = [request for request in requests if request.arrival_s >= WARMUP_S]
        good = 0
        for request in counted:
            self.offered[request.tenant] += 1
            end_s = ended_s.get(request.id)
            if end_s is not None and end_s - request.arrival_s <= sla_s[request.tenant] + 1e-9:
                self.in_time[request.tenant] += 1
                good += 1
        self.each_goodput.append(good / max(1, len(counted)))

    def include(self, other: Score) -> None:
        """Count what another one has counted, too."""
        for name in TENANTS:
            self.in_time[name] += other.in_time[name]
            self.offered[name] += other.offered[name]
        self.each_goodput += other.each_goodput
        self.scheduler += other.scheduler
        self.per_request_s += other.per_request_s

    def share(self, name: str) -> float:
        """The share of a tenant's requests that were in time; nan without requests."""
        return self.in_time[name] / self.offered[name] if self.offered[name] else float("nan")

    @property
    def goodput(self) -> float:
        """Requests in time, of those offered."""
        return sum(self.in_time.values()) / max(1, sum(self.offered.values()))

    def weighted(self, seconds: Mapping[str, float]) -> float:
        """Work in time, of that offered."""
        done = sum(self.in_time[name] * seconds[name] for name in TENANTS)
        return done / sum(self.offered[name] * seconds[name] for name in TENANTS)

    @property
    def worst(self) -> float:
        """The least share of a tenant."""
        return min(self.share(name) for name in TENANTS)


def ends_of(log: LogTable) -> dict[int, float]:
    """When each completed request of a log ended."""
    requests = requests_of(log)
    done = requests.only(requests.completed)
    return dict(zip(done.id.tolist(), done.end_s.tolist(), strict=True))


def numbers(text: str) -> list[float]:
    """Comma-separated numbers."""
    return [float(part) for part in text.split(",")]
