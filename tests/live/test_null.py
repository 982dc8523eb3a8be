"""The live driver with real threads and real time, on blocks that only wait."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from headway.core.errors import HeadwayError
from headway.core.messages import Arrive, Failed, Finish, SafePoint
from headway.core.run import How
from headway.live.clock import WallClock
from headway.live.executors.null import Idling, NullExecutor
from headway.live.processors import CAN_PIN
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog

World = Any  # the class in conftest.py

ENDLESS = 60.0
BLOCKS = {"short": (1e-3,), "long": (2e-3,) * 4, "stuck": (1e-3, ENDLESS, 1e-3)}


@pytest.fixture
def live(make_world: Any) -> World:
    """Two lanes."""
    return make_world(2, BLOCKS)


def executor_for(world: World, **options: Any) -> NullExecutor:
    return NullExecutor(world.blocks, [[index] for index in range(len(world.device.cores))], **options)


def violations(world: World) -> list[str]:
    """What in the log cannot have been, by the rules that hold for simulations too."""
    log = MemoryLog({})
    for row in world.rows:
        log.add(row)
    return check_conservation(log.table())


@pytest.mark.parametrize("policy", ["fcfs", "edf", "laxity", "lucas"])
@pytest.mark.parametrize("idling", list(Idling))
def test_the_log_of_a_live_run_is_consistent(live: World, policy: str, idling: Idling) -> None:
    requests = [
        live.request(id, "long" if id % 3 else "short", at=1e-3 * id, within=0.5 - 0.01 * id)
        for id in range(12)
    ]
    executor = executor_for(live, idling=idling)
    report = live.driver(policy, requests, executor, WallClock()).run()
    executor.close()
    assert violations(live) == []
    assert len(live.replies) == report.requests == 12
    assert executor.held == 0
    assert all(lag_s >= 0.0 for lag_s in report.send_lag_s)
    assert 0.0 < report.driver_cpu_s < report.end_s


def test_no_block_ends_before_its_time_is_over(live: World) -> None:
    executor = executor_for(live)
    live.driver("fcfs", [live.request(0, "long")], executor, WallClock()).run()
    executor.close()
    progress = live.rows.of("progress")
    assert [row.end_block for row in progress] == [1, 2, 3, 4]
    assert all(row.time_s - row.start_s >= 2e-3 for row in progress)


def test_an_executor_serves_one_driver_after_another(live: World) -> None:
    executor = executor_for(live)
    for id in range(3):
        live.driver("fcfs", [live.request(id)], executor, WallClock()).run()
    executor.close()
    assert live.outcomes == dict.fromkeys(range(3), "done")


def test_an_exception_in_a_block_fails_its_request_and_the_lane_goes_on(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor = executor_for(world, fails=frozenset({(1, 2)}))
    requests = [world.request(id, "long", at=1e-4 * id) for id in range(3)]
    world.driver("fcfs", requests, executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "done", 1: "failed", 2: "done"}
    assert world.reasons[1] == "block 2 of long: Broken: told to fail"
    assert violations(world) == []


def test_a_block_that_takes_too_long_is_ended_and_the_lane_goes_on(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor = executor_for(world, timeout_s=0.2)
    requests = [world.request(0, "stuck"), world.request(1, "short", at=1e-4)]
    world.driver("fcfs", requests, executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "failed", 1: "done"}
    assert world.reasons[0] == "block 1 of stuck ran for more than 0.2 s"


def test_a_killed_run_loses_its_block_and_nothing_before(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor, clock = executor_for(world), WallClock()
    engine = world.engine("fcfs")
    executor.connect(clock.post, clock)
    request = world.request(0, "stuck")
    run = engine.handle([Arrive(request)], clock.now())[0].run
    executor.start(run)
    (first,) = clock.wait(None)
    executor.stop(run, How.KILL)
    (last,) = clock.wait(None)
    executor.stop(run, How.KILL)  # too late, which is no error
    executor.close()
    assert isinstance(first, SafePoint)
    assert isinstance(last, SafePoint)
    assert (first.first_block, first.stopped, first.lost, first.share) == (0, False, False, 1.0)
    assert (last.first_block, last.stopped, last.lost, last.share) == (1, True, True, 0.0)
    assert last.start_s == first.end_s


def test_closing_ends_what_runs(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor, clock = executor_for(world), WallClock()
    executor.connect(clock.post, clock)
    executor.start(world.engine("fcfs").handle([Arrive(world.request(0, "stuck"))], clock.now())[0].run)
    clock.wait(None)
    before = {thread.name for thread in threading.enumerate()}
    executor.close()
    assert "headway lane 0" in before
    assert "headway lane 0" not in {thread.name for thread in threading.enumerate()}


def test_a_request_whose_earlier_results_are_gone_fails(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor, clock = executor_for(world), WallClock()
    executor.connect(clock.post, clock)
    request = world.request(0, "long")
    request.next_block = 2
    executor.start(world.engine("fcfs").handle([Arrive(request)], clock.now())[0].run)
    (event,) = clock.wait(None)
    executor.close()
    assert isinstance(event, Failed)
    assert event.cause == "request 0: what its earlier blocks made is lost"


def test_a_finish_carries_its_last_block(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor, clock = executor_for(world), WallClock()
    executor.connect(clock.post, clock)
    run = world.engine("fcfs").handle([Arrive(world.request(0))], clock.now())[0].run
    executor.start(run)
    (event,) = clock.wait(None)
    executor.close()
    assert isinstance(event, Finish)
    assert (event.last.first_block, event.last.end_block, event.last.start_s) == (0, 1, run.started_s)


@pytest.mark.parametrize(
    ("lanes", "told"),
    [
        ([], "has no processors"),
        ([[0], []], "has no processors"),
        ([[0], [0]], "in two lanes"),
        pytest.param(
            [[100_000]],
            "may not use processor 100000",
            marks=pytest.mark.skipif(not CAN_PIN, reason="threads cannot be pinned here"),
        ),
    ],
)
def test_lanes_that_cannot_be_are_refused(lanes: list[list[int]], told: str) -> None:
    with pytest.raises(HeadwayError, match=told):
        NullExecutor(BLOCKS, lanes, pin=True)


@pytest.mark.skipif(not CAN_PIN, reason="threads cannot be pinned here")
def test_each_worker_stays_on_its_lanes_first_processor(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    processors = sorted(os.sched_getaffinity(0))[:2]
    seen: list[set[int]] = []

    class Looks(NullExecutor):
        def _end(self, run: Any) -> None:
            seen.append(os.sched_getaffinity(0))

    executor = Looks(BLOCKS, [processors], pin=True)
    world.driver("fcfs", [world.request(0)], executor, WallClock()).run()
    executor.close()
    assert seen == [{processors[0]}]


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(HeadwayError, match=r"no block times for 'x'; accepted: short, long, stuck"):
        NullExecutor(BLOCKS, [[0]]).prepare("x", ())


# --- SIGINT ------------------------------------------------------------------------------------------


def interrupt_at_replies(world: World, requests: list[Any], ids: set[int]) -> Any:
    """Send this process SIGINT, as Ctrl-C does, when these requests are answered."""

    def on_reply(reply: Any) -> None:
        if reply.request.id in ids:
            os.kill(os.getpid(), signal.SIGINT)

    executor = executor_for(world)
    report = world.driver("fcfs", requests, executor, WallClock(), on_reply=on_reply).run()
    executor.close()
    return report


def test_ctrl_c_drains_reports_and_ends(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    before = signal.getsignal(signal.SIGINT)
    requests = [world.request(0), world.request(1, "long"), world.request(2), world.request(3, at=ENDLESS)]
    report = interrupt_at_replies(world, requests, {0})
    assert report.interrupted
    assert world.outcomes == {0: "done", 1: "done", 2: "cancelled"}
    assert signal.getsignal(signal.SIGINT) is before
    assert violations(world) == []


class Deaf(NullExecutor):
    """Its blocks heed no interruption."""

    def _interrupt(self, active: Any) -> None:
        pass


def test_a_third_ctrl_c_ends_a_run_that_heeds_nothing(make_world: Any) -> None:
    world = make_world(1, {"deaf": (1.5,)})

    def on_reply(reply: Any) -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)

    executor = Deaf(world.blocks, [[0]])
    requests = [world.request(0, "deaf"), world.request(1, "deaf", at=0.01, within=0.0)]
    requests[1].expires_s = 0.02
    with pytest.raises(KeyboardInterrupt):
        world.driver("fcfs", requests, executor, WallClock(), on_reply=on_reply).run()
    executor.close()
    assert world.outcomes == {1: "dropped"}


def test_a_second_ctrl_c_cancels_what_runs(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    requests = [world.request(0), world.request(1, "stuck"), world.request(2)]
    report = interrupt_at_replies(world, requests, {0, 2})
    assert report.interrupted
    assert world.outcomes == {0: "done", 1: "cancelled", 2: "cancelled"}
    assert violations(world) == []
