"""One segment: a trace is sent to one system, each request at its time, whatever became of those before."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from noise import CpuWatch
from shared import undisturbed
from systems import System
from tenants import Arrival
from ways import Outcome

_LEAD_S = 0.1
_DRAIN_S = 15.0


@dataclass(frozen=True)
class Record:
    """A request's way. Seconds are from when it should have been sent, not from when it was."""

    tenant: str
    arrival_s: float
    latency_s: float
    outcome: str


@dataclass(frozen=True)
class Segment:
    """What became of a trace, and what the machine did meanwhile."""

    system: str
    utilisation: float
    round: int
    sla: float | None
    duration_s: float
    records: tuple[Record, ...]
    foreign: float
    ours: float
    probe_s: float
    worst_lag_s: float
    generator_s: float
    error: str

    def as_mapping(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


async def play(
    system: System, arrivals: Sequence[Arrival], sla: float | None, roots: Sequence[int]
) -> dict[str, Any]:
    """Send a trace's requests and wait for their answers, for at most 15 s each.

    Returns the fields of a Segment that are known then. `generator_s` is this process's processor time.
    """
    loop = asyncio.get_running_loop()
    records: list[Record] = []
    lags_s: list[float] = []
    asked: set[asyncio.Task[None]] = set()
    error = ""
    origin_s = 0.0

    async def send(arrival: Arrival) -> None:
        nonlocal error
        due_s = origin_s + arrival.arrival_s
        lag_s = time.perf_counter() - due_s
        lags_s.append(lag_s)
        left_s = arrival.deadline_s - arrival.arrival_s - lag_s
        outcome, words = Outcome.FAILED, ""
        try:
            answer = await asyncio.wait_for(system.ask(arrival.tenant, left_s, sla), _DRAIN_S)
            outcome, words = answer.outcome, answer.words
        except (OSError, TimeoutError) as broken:
            words = repr(broken)
        if outcome is Outcome.FAILED:
            error = error or words
        records.append(Record(arrival.tenant, arrival.arrival_s, time.perf_counter() - due_s, outcome.value))

    def begin(arrival: Arrival) -> None:
        task = loop.create_task(send(arrival))
        asked.add(task)
        task.add_done_callback(asked.discard)

    def tick() -> None:
        # The event loop's own timers keep whole milliseconds only.
        for arrival in arrivals:
            wait_s = origin_s + arrival.arrival_s - time.perf_counter()
            if wait_s > 0.0:
                time.sleep(wait_s)
            loop.call_soon_threadsafe(begin, arrival)

    with undisturbed():
        watch = CpuWatch(roots)
        cpu_s = time.process_time()
        origin_s = time.perf_counter() + _LEAD_S
        ticking = threading.Thread(target=tick)
        ticking.start()
        await asyncio.to_thread(ticking.join)
        await asyncio.sleep(0)
        while asked:
            await asyncio.wait(list(asked))
        generator_s = time.process_time() - cpu_s
        shares = watch.shares()
    return {
        "records": tuple(sorted(records, key=lambda record: record.arrival_s)),
        "foreign": shares.foreign,
        "ours": shares.ours,
        "worst_lag_s": max(lags_s, default=0.0),
        "generator_s": generator_s,
        "error": error,
    }
