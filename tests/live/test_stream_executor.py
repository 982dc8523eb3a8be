"""The executor protocol on a device of another kind: streams to which blocks are enqueued ahead, as on a GPU.

The device here is a thread per stream that waits for as long as a block takes. What the driver, the engine
and policies know of it is the protocol alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from time import sleep
from typing import Any, NamedTuple

import pytest

from headway.core.device import Core, Device
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.messages import Event, Failed, Finish, Reply
from headway.core.protocols import Clock
from headway.core.request import Request
from headway.core.run import How, Run
from headway.cost.contention import OverlapLoss
from headway.live.clock import WallClock
from headway.live.driver import LiveDriver
from headway.live.executors.lanes import safe_point
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.testing import Listed, toy_lane_table, toy_lanes

AHEAD = 2
BUFFER_BYTES = 1000
SECONDS = {"short": (1e-3,), "long": (20e-3,) * 12}  # long enough to be met by what arrives, on any machine
LIMIT_S = 60.0


class Launch(NamedTuple):
    """A captured graph on its way through a stream; `done` is the event recorded behind it."""

    seconds: float
    done: Callable[[float], None]


class Stream:
    """Runs what was enqueued, in order, whatever the host does meanwhile."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._queue: SimpleQueue[Launch | None] = SimpleQueue()
        self._now = now
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def enqueue(self, launch: Launch | None) -> None:
        self._queue.put(launch)

    def _work(self) -> None:
        while (launch := self._queue.get()) is not None:
            sleep(launch.seconds)
            launch.done(self._now())


class InFlight:
    """A run as the host sees it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.next_block = run.blocks.start  # to be enqueued
        self.pending: deque[int] = deque()
        self.stopping = False
        self.start_s = run.started_s


class StreamExecutor:
    """One stream for each core. Blocks are graphs captured for a batch, AHEAD of them enqueued at a time.

    What is enqueued cannot be taken back: a run that is asked to stop ends behind it.
    """

    lends_threads = True  # that of the thread which waits for events

    def __init__(self, seconds: Mapping[str, Sequence[float]], streams: int, memory_bytes: int) -> None:
        self._seconds = seconds
        self._streams = streams
        self.free_bytes = self.least_free_bytes = memory_bytes
        self.graphs: set[tuple[str, int, int]] = set()
        self.longest_after_stop = 0
        self._buffers: dict[int, int] = {}
        self._in_flight: dict[int, InFlight] = {}
        self._lock = threading.Lock()
        self._completions: SimpleQueue[tuple[int, int, float] | None] = SimpleQueue()
        self._made: list[Stream] = []

    @property
    def held(self) -> int:
        return len(self._buffers)

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        self._post = post
        self._made = [Stream(clock.now) for _ in range(self._streams)]
        self._completer = threading.Thread(target=self._complete, name="completions", daemon=True)
        self._completer.start()

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        if len(cores) > 1:
            raise HeadwayError("a run uses one stream; accepted: one core")
        self.graphs |= {(model, block, batch) for block in range(len(self._seconds[model]))}

    def start(self, run: Run) -> None:
        request = run.request
        if (request.model, run.blocks.start, len(run.requests)) not in self.graphs:
            self._post(Failed(run.id, f"{request.model}: no graph was captured"))
            return
        if request.id not in self._buffers:
            if self.free_bytes < BUFFER_BYTES:
                self._post(Failed(run.id, f"request {request.id}: the device's memory is full"))
                return
            self._buffers[request.id] = BUFFER_BYTES
            self.free_bytes -= BUFFER_BYTES
            self.least_free_bytes = min(self.least_free_bytes, self.free_bytes)
        with self._lock:
            flight = self._in_flight[run.id] = InFlight(run)
            self._enqueue(flight)

    def stop(self, run: Run, how: How) -> None:
        with self._lock:
            flight = self._in_flight.get(run.id)
            if flight is not None:
                flight.stopping = True
                self.longest_after_stop = max(self.longest_after_stop, len(flight.pending))

    def release(self, request: Request) -> None:
        self.free_bytes += self._buffers.pop(request.id, 0)

    def close(self) -> None:
        for stream in self._made:
            stream.enqueue(None)
        for stream in self._made:
            stream.thread.join(LIMIT_S)
        self._completions.put(None)
        self._completer.join(LIMIT_S)

    def _enqueue(self, flight: InFlight) -> None:
        run = flight.run
        while len(flight.pending) < AHEAD and flight.next_block < run.blocks.stop and not flight.stopping:
            block = flight.next_block
            self._made[run.cores[0].index].enqueue(
                Launch(
                    self._seconds[run.request.model][block],
                    lambda at_s, block=block: self._completions.put((run.id, block, at_s)),  # type: ignore[misc]
                )
            )
            flight.pending.append(block)
            flight.next_block += 1

    def _complete(self) -> None:
        while (completion := self._completions.get()) is not None:
            self._post(self._event(*completion))

    def _event(self, run_id: int, block: int, end_s: float) -> Event:
        with self._lock:
            flight = self._in_flight[run_id]
            run, start_s = flight.run, flight.start_s
            assert flight.pending.popleft() == block
            flight.start_s = end_s
            self._enqueue(flight)
            last = block + 1 == run.blocks.stop
            stopped = not last and flight.stopping and not flight.pending
            if last or stopped:
                del self._in_flight[run_id]
        point = safe_point(run, block, start_s, end_s, stopped=stopped)
        return Finish(run_id, point) if last else point


class Gpu:
    """Two streams, an engine over them, and what came of a run."""

    def __init__(self, policy: str, *, memory_bytes: int = 1 << 20) -> None:
        self.device: Device = toy_lanes(2)
        tables: dict[str, Any] = {
            model: toy_lane_table(self.device, {1: times}, name=model) for model, times in SECONDS.items()
        }
        rule, self.log = OverlapLoss(0.1), MemoryLog({})
        estimator = AnalyticEstimator(self.device, tables, rule)
        self.engine = Engine(self.device, make(policy), estimator, rule, self.log, forgiving=True)
        self.executor = StreamExecutor(SECONDS, 2, memory_bytes)
        self.replies: list[Reply] = []

    def run(self, requests: Iterable[Request], *, prepare: Iterable[str] = SECONDS) -> None:
        for model in prepare:
            for core in self.device.cores:
                self.executor.prepare(model, (core,))
        driver = LiveDriver(
            self.engine, Listed(requests), self.executor, WallClock(), on_reply=self.replies.append
        )
        guard = threading.Timer(LIMIT_S, lambda: [driver.interrupt() for _ in range(2)])
        guard.daemon = True
        guard.start()
        report = driver.run()
        guard.cancel()
        self.executor.close()
        assert not report.interrupted, "the run hung"
        assert report.last_faults == ()

    @property
    def outcomes(self) -> dict[int, str]:
        return {reply.request.id: reply.outcome.value for reply in self.replies}


def request(id: int, model: str, *, at: float = 0.0, within: float = 10.0) -> Request:
    return Request(id, model, id, model, at, at + within, len(SECONDS[model]), sum(SECONDS[model]))


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "edf", "laxity", "split", "edf:planned"])
def test_policies_serve_streams(policy: str) -> None:
    gpu = Gpu(policy)
    gpu.run([request(id, "long" if id % 4 == 0 else "short", at=1e-3 * id) for id in range(24)])
    assert gpu.outcomes == dict.fromkeys(range(24), "done")
    assert check_conservation(gpu.log.table()) == []
    assert gpu.executor.held == 0
    assert gpu.executor.free_bytes == 1 << 20
    assert gpu.executor.least_free_bytes < 1 << 20


def test_a_preempted_run_stops_behind_what_was_enqueued_and_goes_on_later() -> None:
    gpu = Gpu("edf:planned")
    long = [request(id, "long", within=20.0) for id in range(2)]
    gpu.run([*long, *(request(id, "short", at=0.1, within=5.0) for id in range(2, 5))])
    assert gpu.outcomes == dict.fromkeys(range(5), "done")
    assert 1 <= gpu.executor.longest_after_stop <= AHEAD
    rows = gpu.log.table().table.to_pylist()
    stopped = [row for row in rows if row["event"] == "stop"]
    assert stopped
    starts = [row for row in rows if row["event"] == "start" and row["request"] == stopped[0]["request"]]
    assert [row["first_block"] for row in starts[1:2]] == [
        max(
            row["end_block"] for row in rows if row["event"] == "progress" and row["run"] == stopped[0]["run"]
        )
    ]
    assert check_conservation(gpu.log.table()) == []


def test_memory_that_is_full_fails_the_request_and_nothing_else() -> None:
    gpu = Gpu("fcfs", memory_bytes=BUFFER_BYTES)
    gpu.run([request(0, "long"), request(1, "short"), request(2, "short", at=1.0)])
    assert gpu.outcomes == {0: "done", 1: "failed", 2: "done"}
    assert gpu.executor.free_bytes == BUFFER_BYTES


def test_a_model_without_graphs_fails_with_its_cause() -> None:
    gpu = Gpu("fcfs")
    gpu.run([request(0, "short"), request(1, "long")], prepare=["short"])
    assert gpu.outcomes == {0: "done", 1: "failed"}
    assert "no graph was captured" in {reply.request.id: reply.reason for reply in gpu.replies}[1]
