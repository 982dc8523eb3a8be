"""A run's end handled on the thread that ran it: who decides, and what may happen meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from headway.core.device import Core
from headway.core.messages import Arrive, Decision, Dispatch, Event, Finish, Reply, Wake
from headway.core.protocols import Clock, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.live.clock import WallClock
from headway.live.executors.lanes import safe_point
from headway.live.executors.null import Idling, NullExecutor
from headway.policies import Policy
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog

World = Any  # the class in conftest.py

BLOCKS = {"none": (0.0,), "short": (1e-3,), "long": (2e-3,) * 4}
LIMIT_S = 60.0


@pytest.fixture
def live(make_world: Any) -> World:
    """Two lanes."""
    return make_world(2, BLOCKS)


def executor_for(world: World, **options: Any) -> NullExecutor:
    return NullExecutor(world.blocks, [[index] for index in range(len(world.device.cores))], **options)


def run_within(world: World, policy: str | Policy, requests: Any, executor: Any, **options: Any) -> Any:
    """The report of a run that is ended if it hangs."""
    driver = world.driver(policy, requests, executor, WallClock(), **options)
    guard = threading.Timer(LIMIT_S, lambda: [driver.interrupt() for _ in range(2)])
    guard.daemon = True
    guard.start()
    try:
        report = driver.run()
    finally:
        guard.cancel()
        executor.close()
    assert not report.interrupted, "the run hung"
    return report


def consistent(world: World) -> bool:
    log = MemoryLog({})
    for row in world.rows:
        log.add(row)
    return check_conservation(log.table()) == []


class Greedy(Policy):
    """First come first served, noting on which threads it is asked."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def decide(self, view: View) -> Iterable[Decision]:
        self.threads.append(threading.current_thread().name)
        for core, request in zip(view.idle, view.ready, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,))


def test_a_lanes_thread_decides_at_the_end_of_its_run_and_goes_on_with_the_next(live: World) -> None:
    policy = Greedy()
    run_within(live, policy, [live.request(id) for id in range(12)], executor_for(live))
    here = threading.current_thread().name
    assert policy.threads[0] == here  # arrivals are the driver's
    assert {"headway lane 0", "headway lane 1"} & set(policy.threads[1:])
    assert set(live.outcomes.values()) == {"done"}


def test_without_lent_threads_the_drivers_own_decides(live: World) -> None:
    class Keeps(NullExecutor):
        lends_threads = False

    policy = Greedy()
    run_within(live, policy, [live.request(id) for id in range(6)], Keeps(live.blocks, [[0], [1]]))
    assert set(policy.threads) == {threading.current_thread().name}
    assert set(live.outcomes.values()) == {"done"}


@pytest.mark.parametrize("idling", list(Idling))
def test_ends_on_both_lanes_at_once_and_arrivals_meanwhile(live: World, idling: Idling) -> None:
    requests = [live.request(id, "none" if id % 5 else "short", at=3e-4 * (id // 4)) for id in range(400)]
    report = run_within(live, "fcfs", requests, executor_for(live, idling=idling))
    assert report.requests == 400
    assert set(live.outcomes.values()) == {"done"}
    assert consistent(live)


class WakesLate(Greedy):
    """Asks to be woken long after everything is over."""

    def decide(self, view: View) -> Iterable[Decision]:
        yield from super().decide(view)
        yield Wake(view.now + 1e4)


def test_a_run_does_not_wait_for_a_wake_that_nobody_needs_any_more(live: World) -> None:
    run_within(live, WakesLate(), [live.request(id) for id in range(4)], executor_for(live))
    assert set(live.outcomes.values()) == {"done"}


class Slow(Policy):
    """Takes its time, so that runs end while it decides."""

    def decide(self, view: View) -> Iterable[Decision]:
        threading.Event().wait(2e-3)
        for core, request in zip(view.idle, view.ready, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,))


def test_runs_that_end_while_somebody_decides_are_heard_of(live: World) -> None:
    requests = [live.request(id, "none", at=1e-3 * id) for id in range(40)]
    run_within(live, Slow(), requests, executor_for(live))
    assert set(live.outcomes.values()) == {"done"}
    assert consistent(live)


class FailsOnLanes(Policy):
    """Works on the driver's thread, and raises on all others."""

    def __init__(self) -> None:
        self.own = threading.current_thread()

    def decide(self, view: View) -> Iterable[Decision]:
        if threading.current_thread() is not self.own:
            raise ZeroDivisionError("a bug")
        for core, request in zip(view.idle, view.ready, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,))


def test_a_policy_that_fails_on_a_lanes_thread_is_stood_in_for(live: World) -> None:
    report = run_within(live, FailsOnLanes(), [live.request(id) for id in range(8)], executor_for(live))
    assert set(live.outcomes.values()) == {"done"}
    assert report.faults > 0
    assert "ZeroDivisionError: a bug" in report.last_faults[-1][1]


def test_a_defect_on_a_lanes_thread_ends_the_run_with_its_cause(live: World) -> None:
    def on_reply(reply: Reply) -> None:
        raise RuntimeError("who takes replies has a defect")

    executor = executor_for(live)
    requests = [live.request(0), live.request(1, at=LIMIT_S)]
    driver = live.driver("fcfs", requests, executor, WallClock(), on_reply=on_reply)
    with pytest.raises(RuntimeError, match="who takes replies"):
        driver.run()
    executor.close()


def test_what_ends_after_a_defect_is_not_decided_on(live: World) -> None:
    policy = Greedy()
    executor = executor_for(live)

    def on_reply(reply: Reply) -> None:
        raise RuntimeError("a defect")

    requests = [live.request(0), live.request(1, "long"), *(live.request(id) for id in range(2, 6))]
    driver = live.driver(policy, requests, executor, WallClock(), on_reply=on_reply)
    with pytest.raises(RuntimeError, match="a defect"):
        driver.run()
    asked = len(policy.threads)
    executor.close()  # which ends the long one
    assert len(policy.threads) == asked


class Loop:
    """Every reply causes the next request a moment later, so that lanes' threads set the driver's timer."""

    def __init__(self, world: World, length: int) -> None:
        self.world = world
        self.length = length

    def first(self) -> Iterator[Arrive]:
        yield Arrive(self.world.request(0))
        yield Arrive(self.world.request(10_000, at=0.4, within=2.0))  # what the driver waits for meanwhile

    def after(self, reply: Reply, now: float) -> Iterator[Arrive]:
        following = reply.request.id + 1
        if following < self.length:
            yield Arrive(self.world.request(following, at=now + 1e-3))


def test_a_lanes_thread_wakes_the_driver_for_what_is_due_earlier(live: World) -> None:
    run_within(live, "fcfs", Loop(live, 20), executor_for(live))
    ends = {row.request: row.time_s for row in live.rows.of("reply")}
    assert len(ends) == 21
    assert ends[19] < ends[10_000]


class Late(Policy):
    """Asks to be woken a little later before it starts anything."""

    def __init__(self) -> None:
        self.not_before: dict[int, float] = {}

    def decide(self, view: View) -> Iterable[Decision]:
        for request in view.ready:
            at_s = self.not_before.setdefault(request.id, view.now + 2e-3)
            if view.now < at_s:
                yield Wake(at_s)
            elif view.idle:
                yield Dispatch((request,), range(request.blocks), (view.idle[0],))
                return


def test_timers_that_are_set_on_a_lanes_thread_are_kept(live: World) -> None:
    run_within(live, Late(), [live.request(id) for id in range(10)], executor_for(live))
    assert set(live.outcomes.values()) == {"done"}


def test_closing_while_runs_end_hangs_nobody(live: World) -> None:
    for _ in range(20):
        executor = executor_for(live)
        requests = [live.request(id, "none") for id in range(6)]
        driver = live.driver("fcfs", requests, executor, WallClock())
        thread = threading.Thread(target=driver.run)
        thread.start()
        driver.interrupt()
        driver.interrupt()
        thread.join(LIMIT_S)
        executor.close()
        assert not thread.is_alive()
    assert "headway lane 0" not in {thread.name for thread in threading.enumerate()}


def test_an_interrupt_while_lanes_decide_ends_the_run(live: World) -> None:
    taken: list[Request] = []
    executor = executor_for(live)
    requests = [live.request(id, "none", at=1e-3 * id) for id in range(1000)]

    def on_reply(reply: Reply) -> None:
        taken.append(reply.request)
        if len(taken) == 50:
            driver.interrupt()

    driver = live.driver("fcfs", requests, executor, WallClock(), on_reply=on_reply)
    report = driver.run()
    executor.close()
    assert report.interrupted
    assert report.requests < 1000
    assert consistent(live)


class HeldRuns:
    """An executor whose runs end when the test says so, on whatever thread that is."""

    lends_threads = True

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        self.post, self.clock = post, clock

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        pass

    def start(self, run: Run) -> None:
        self.runs.append(run)

    def stop(self, run: Run, how: How) -> None:
        pass

    def release(self, request: Request) -> None:
        pass

    def close(self) -> None:
        pass

    def end(self, run: Run) -> None:
        """Its only block ends now."""
        self.post(Finish(run.id, safe_point(run, 0, run.started_s, self.clock.now())))


class EndsWhileAsked(WallClock):
    """While a step asks for the time, the first run ends; the second one ends a moment after it began."""

    def __init__(self, executor: HeldRuns) -> None:
        super().__init__()
        self.executor = executor
        self.stepping: Callable[[], bool] = lambda: False
        self.ended = 0

    def now(self) -> float:
        at_s = super().now()
        runs = self.executor.runs
        if self.ended == 0 and runs and at_s > 5e-3 and self.stepping():
            self.ended = 1
            self.executor.end(runs[0])
        return at_s

    def wait(self, until_s: float | None) -> list[Event]:
        if self.ended == 1 and len(self.executor.runs) == 2:
            self.ended = 2
            self.executor.end(self.executor.runs[1])
        return super().wait(until_s)


def test_nothing_is_applied_before_it_happened(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor = HeldRuns()
    clock = EndsWhileAsked(executor)
    driver = world.driver("fcfs", [world.request(0), world.request(1, at=10e-3)], executor, clock)
    clock.stepping = driver._turns._turn.locked
    driver.run()
    assert world.outcomes == {0: "done", 1: "done"}
    assert clock.ended == 2
    assert consistent(world)
