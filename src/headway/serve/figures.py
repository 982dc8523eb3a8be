"""What became of requests, how well runs were predicted, how busy lanes were: for whoever shows a server.

Everything is worked out from answers (`headway.serve.answers.Answered`) and rows of the event log, both of
which are made anyway. Sums are kept from the start on, and for the last minute in buckets of some seconds, so
that what is held depends on how many tenants and models there are, not on how much they do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from headway.core.protocols import LogRow, Sink
from headway.serve.answers import Answered
from headway.serve.histograms import Pairs, Series
from headway.serve.recent import WINDOW_S, Recent, Sums, step_of
from headway.serve.refusal import Cause
from headway.serve.requests import NO_SLA_S, WARM_UP

MOST_KNOWN: Final = 2048
"""Tenants, and likewise models, whose figures are kept; the one that was quiet for longest goes."""

MOST_PENDING: Final = 4096
_MOST_RUNS: Final = 1024


class Ending(StrEnum):
    """How a request ended, as seen by its tenant."""

    IN_TIME = "in_time"  # its result was there by its deadline
    LATE = "late"  # its result came after its deadline
    SHED = "shed"  # refused or given up because it would be late
    EXPIRED = "expired"  # its time was over before its result was there
    FAILED = "failed"  # a model or the server failed, or the server was being stopped
    REJECTED = "rejected"  # over the tenant's own rate or queue
    INVALID = "invalid"  # the request was wrong
    CANCELLED = "cancelled"  # the client went away


PROMISED: Final = (Ending.IN_TIME, Ending.LATE, Ending.SHED, Ending.EXPIRED, Ending.FAILED)
"""Those that count for SLA attainment; what a tenant brought about itself does not."""

ANSWERED: Final = (Ending.IN_TIME, Ending.LATE)
"""Those with a result."""


def ending_of(answered: Answered) -> Ending:
    """How that request ended."""
    refusal = answered.refusal
    if refusal is None:
        return Ending.IN_TIME if answered.in_time else Ending.LATE
    if refusal.cause is Cause.LIMITED:
        at_once = answered.deadline_s <= 0.0  # refused at the door, before it had a deadline
        return Ending.REJECTED if at_once else Ending.SHED
    if refusal.cause is Cause.LATE:
        return Ending.EXPIRED
    if refusal.cause is Cause.CANCELLED:
        return Ending.CANCELLED
    return Ending.FAILED if refusal.cause in (Cause.INTERNAL, Cause.UNAVAILABLE) else Ending.INVALID


def attainment_of(sums: Sums) -> float | None:
    """The share of requests with a deadline that were in time; None without any.

    What a tenant brought about itself is left out: over its rate or queue, invalid, cancelled.
    """
    due = sum(sums.promised[ending] for ending in PROMISED)
    return sums.promised[Ending.IN_TIME] / due if due else None


class _Known(OrderedDict[str, Recent]):
    """By name, at most MOST_KNOWN."""

    def of(self, name: str) -> Recent:
        found = self.get(name)
        if found is None:
            found = self[name] = Recent()
            if len(self) > MOST_KNOWN:
                self.popitem(last=False)
        else:
            self.move_to_end(name)
        return found


def model_name(key: str) -> str:
    """NAME/VERSION of the engine's name for a loaded model."""
    return key.partition("@")[0]


class Figures:
    """Figures by tenant, by model (NAME/VERSION) and by lane. Hear answers with `answered`, rows with `add`.

    `answered` may be called from any thread, and only notes; whoever brings rows, or looks, does the sums.
    `add` makes it a Sink that passes rows on to `then`; rows are to come one at a time. All times are seconds
    on the engine's clock, `now`.
    """

    def __init__(self, lanes: int, now: Callable[[], float], then: Sink | None = None) -> None:
        self.lanes = lanes
        self._now, self._then = now, then
        self._pending: deque[tuple[float, Answered]] = deque()
        self._lock = threading.Lock()
        self._tenants, self._models = _Known(), _Known()
        self._pairs = Pairs()
        self._lane = [Recent() for _ in range(lanes)]
        self._expected: dict[int, tuple[float, float]] = {}
        self._owners: dict[int, list[str]] = {}  # tenants of each run; several in a batch

    def answered(self, answered: Answered) -> None:
        """Note an answer."""
        self._pending.append((self._now(), answered))
        if len(self._pending) > MOST_PENDING:  # nobody looks, and refusals make no rows
            with self._lock:
                self._settle()

    def add(self, row: LogRow) -> None:
        """Take a row of the log."""
        with self._lock:
            if self._pending:
                self._settle()
            if row.event == "progress":
                self._progressed(row)
            elif row.event == "start":
                self._started(row)
            elif row.event == "finish" or row.event == "stop":
                self._ended(row)
        if self._then is not None:
            self._then.add(row)

    # --- to look at --------------------------------------------------------------------------------

    def tenants(self) -> Mapping[str, tuple[Sums, Sums]]:
        """By tenant what was lately, and what has been since the start."""
        return self._look(self._tenants)

    def models(self) -> Mapping[str, tuple[Sums, Sums]]:
        """The same by NAME/VERSION."""
        return self._look(self._models)

    def pairs(self) -> tuple[Mapping[tuple[str, str], Series], int]:
        """By tenant and NAME/VERSION what has been since the start, and how many pairs were forgotten."""
        with self._lock:
            self._settle()
            return {pair: series.copy() for pair, series in self._pairs.items()}, self._pairs.forgotten

    def utilisation(self) -> list[float]:
        """The share of the last minute, or of the time since the start, that each lane was busy."""
        with self._lock:
            now = self._now()
            span_s = min(WINDOW_S, max(now, 1e-9))
            return [min(1.0, lane.lately(now).busy_s / span_s) for lane in self._lane]

    def busy_s(self) -> list[float]:
        """Seconds that each lane has been busy since the start."""
        with self._lock:
            return [lane.whole().busy_s for lane in self._lane]

    def _look(self, known: _Known) -> Mapping[str, tuple[Sums, Sums]]:
        with self._lock:
            self._settle()
            now = self._now()
            return {name: (recent.lately(now), recent.whole()) for name, recent in known.items()}

    # --- sums --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        pending = self._pending
        for _ in range(len(pending)):
            at_s, answered = pending.popleft()
            ending = ending_of(answered)
            promised = answered.deadline_s < NO_SLA_S
            step = step_of(answered.total_s) if answered.refusal is None else None
            model = f"{answered.model}/{answered.version}"
            for recent in (self._tenants.of(answered.tenant), self._models.of(model)):
                sums = recent.at(at_s)
                sums.endings[ending] += 1
                if promised:
                    sums.promised[ending] += 1
                if step is not None:
                    sums.total_s.counts[step] += 1
            series = self._pairs.of(answered.tenant, model)
            series.endings[ending] += 1
            if promised:
                series.promised[ending] += 1
            if step is not None:
                series.total_s.add(answered.total_s)
                series.queue_s.add(answered.queue_s)
                series.compute_s.add(answered.compute_s)

    def _progressed(self, row: LogRow) -> None:
        if row.start_s is None or row.tenant is None or row.model is None or row.cores is None:
            return
        lanes = lanes_of(row.cores)
        end_s = row.time_s
        seconds = max(0.0, end_s - row.start_s)
        owners = self._owners.get(row.run or 0) or (row.tenant,)
        for owner in owners:
            self._tenants.of(owner).at(end_s).busy_s += seconds * len(lanes) / len(owners)
        self._models.of(model_name(row.model)).at(end_s).busy_s += seconds * len(lanes)
        for lane in lanes:
            self._lane[lane].at(end_s).busy_s += seconds

    def _started(self, row: LogRow) -> None:
        if row.run is not None and row.tenant is not None:
            if len(self._owners) >= _MOST_RUNS:
                self._owners.clear()
            self._owners.setdefault(row.run, []).append(row.tenant)
        if row.run is not None and row.expected_end_s is not None and row.tenant != WARM_UP:
            if len(self._expected) >= _MOST_RUNS:
                self._expected.clear()
            self._expected[row.run] = (row.time_s, row.expected_end_s)

    def _ended(self, row: LogRow) -> None:
        if row.run is None or row.model is None or row.tenant is None:
            return
        self._owners.pop(row.run, None)
        began = self._expected.pop(row.run, None)
        if began is None or row.event != "finish":
            return
        start_s, expected_s = began
        if expected_s > start_s and row.time_s > start_s:
            ratio = (row.time_s - start_s) / (expected_s - start_s)
            step = step_of(ratio)
            self._pairs.of(row.tenant, model_name(row.model)).ratio.add(ratio)
            for recent in (self._tenants.of(row.tenant), self._models.of(model_name(row.model))):
                recent.at(row.time_s).ratio.counts[step] += 1


@cache
def lanes_of(cores: str) -> tuple[int, ...]:
    """Indices of the lanes that a row of the log tells of."""
    return tuple(int(lane) for lane in cores.split("+"))
