"""The live driver in virtual time: the same engine, so the same schedule as the simulator's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headway.core.messages import Arrive, Cancel, Decision, Dispatch, Reply, Wake
from headway.core.protocols import Skip, View
from headway.core.request import Request, State
from headway.core.run import Outcome, Run
from headway.live.clock import VirtualClock
from headway.live.executors.null import VirtualExecutor
from headway.policies import Policy, make
from headway.testing import Rows, play

World = Any  # the class in conftest.py


def logged(rows: Rows) -> list[tuple[object, ...]]:
    """Rows but the end, which the simulator puts after wakes that nobody waits for; times in nanoseconds.

    What a simulated block computes and moves, a null one does not.
    """
    shown = ("time_s", "start_s", "deadline_s", "isolated_s", "expected_end_s")
    return [
        tuple(
            round(value, 9) if name in shown and value is not None else value
            for name, value in row._asdict().items()
            if name not in ("dram_bytes", "energy_pj", "macs")
        )
        for row in rows
        if row.event != "end"
    ]


def some_requests(world: World) -> list[Request]:
    return [
        world.request(0, "long", at=0.0, within=0.020),
        world.request(1, "short", at=0.0015, within=0.004),
        world.request(2, "short", at=0.0015, within=0.003),
        world.request(3, "long", at=0.004, within=0.050),
        world.request(4, "short", at=0.030, within=0.002),
    ]


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "edf", "laxity", "lucas"])
@pytest.mark.parametrize("cores", [1, 2])
def test_the_schedule_is_the_simulators(make_world: Any, policy: str, cores: int) -> None:
    world = make_world(cores)
    world.play(policy, some_requests(world))
    simulated = play(make(policy), world.device, world.tables, some_requests(world))
    assert logged(world.rows) == logged(simulated)


def test_a_report_counts_what_happened(world: World) -> None:
    report = world.play("edf", some_requests(world))
    assert report.requests == 5
    assert report.end_s == pytest.approx(0.031)
    assert (report.rejected, report.faults, report.interrupted) == (0, 0, False)
    assert report.send_lag_at(1.0) == 0.0
    assert world.rows[-1].event == "end"


def test_a_block_that_fails_fails_its_request_only(world: World) -> None:
    requests = [world.request(0, "long"), world.request(1, "long"), world.request(2)]
    world.play("fcfs", requests, fails=[(1, 2)])
    assert world.outcomes == {0: "done", 1: "failed", 2: "done"}
    assert "block 2 of long: told to fail" in world.reasons[1]


def test_what_is_kept_for_a_request_is_released_however_it_ends(world: World) -> None:
    clock = VirtualClock()
    executor = VirtualExecutor(world.blocks, clock, fails=frozenset({(0, 0)}))
    requests = [world.request(0, "long"), world.request(1, "long"), world.request(2, within=1e-4)]
    world.driver("laxity", requests, executor, clock).run()
    assert sorted(executor.released) == [0, 1, 2]
    assert world.outcomes == {0: "failed", 1: "done", 2: "dropped"}


# --- backpressure -----------------------------------------------------------------------------------


def test_a_full_queue_rejects_at_once_and_for_that_tenant_only(world: World) -> None:
    flood = [world.request(i, "long", tenant="flood") for i in range(5)]
    other = [world.request(9, at=1e-3, tenant="other")]
    report = world.play("fcfs", flood + other, queue_limit=2)
    assert world.outcomes == {0: "done", 1: "done", 2: "rejected", 3: "rejected", 4: "rejected", 9: "done"}
    assert report.rejected == 3
    assert "'flood' has 2 requests unanswered" in world.reasons[2]
    replies = {row.request: row.time_s for row in world.rows.of("reply")}
    assert replies[2] == replies[3] == replies[4] == 0.0
    assert {row.request for row in world.rows.of("arrive")} == {0, 1, 2, 3, 4, 9}


def test_an_answered_request_makes_room(world: World) -> None:
    requests = [world.request(0), world.request(1, at=0.5e-3), world.request(2, at=1.5e-3)]
    world.play("fcfs", requests, queue_limit=1)
    assert world.outcomes == {0: "done", 1: "rejected", 2: "done"}


class Chain:
    """Each reply causes another request, until there were so many; after a drop one that is skipped."""

    def __init__(self, world: World, length: int) -> None:
        self.world = world
        self.length = length

    def first(self) -> Iterator[Arrive]:
        yield Arrive(self.world.request(0))

    def after(self, reply: Reply, now: float) -> Iterator[Arrive | Skip]:
        following = reply.request.id + 1
        if following >= self.length:
            return
        request = self.world.request(following, at=now + 1e-3)
        yield Skip(request, "skipped") if following == self.length - 1 else Arrive(request)


def test_closed_loops_react_to_replies(world: World) -> None:
    report = world.play("fcfs", Chain(world, 5))
    assert world.outcomes == dict.fromkeys(range(4), "done")
    skipped = world.rows.of("reply")[-1]
    assert (skipped.request, skipped.outcome, skipped.reason) == (4, "dropped", "skipped")
    assert report.end_s == pytest.approx(0.007)


# --- policies that fail -----------------------------------------------------------------------------


class Raises(Policy):
    """Fails at every decision."""

    def decide(self, view: View) -> Iterable[Decision]:
        raise ZeroDivisionError("a bug")


class DispatchesTwice(Policy):
    """Starts the first request rightly, then again."""

    def decide(self, view: View) -> Iterable[Decision]:
        if view.ready and view.idle:
            request = view.ready[0]
            dispatch = Dispatch((request,), range(request.next_block, request.blocks), (view.idle[0],))
            yield dispatch
            yield dispatch


class NeverActs(Policy):
    """Leaves everything waiting."""

    def decide(self, view: View) -> Iterable[Decision]:
        return ()


class BadKey(Policy):
    """Cannot order requests, and cannot learn."""

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        raise KeyError(request.id)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        raise RuntimeError("cannot learn")

    def decide(self, view: View) -> Iterable[Decision]:
        for core, request in zip(view.idle, view.ready, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,))


@pytest.mark.parametrize(
    ("policy", "cause"),
    [
        (Raises(), "ZeroDivisionError: a bug"),
        (DispatchesTwice(), "not ready"),
        (NeverActs(), "the policy has stalled"),
        (BadKey(), "cannot learn"),
    ],
)
def test_earliest_deadline_stands_in_for_a_policy_that_fails(
    world: World, policy: Policy, cause: str
) -> None:
    requests = [world.request(0, within=0.9), world.request(1, within=0.5), world.request(2, within=0.7)]
    report = world.play(policy, requests)
    assert set(world.outcomes.values()) == {"done"}
    assert report.faults > 0
    assert cause in report.last_faults[-1][1]
    assert any("earliest deadline stood in" in line for line in report.lines())
    if not isinstance(policy, DispatchesTwice):
        assert [reply.request.id for reply in world.replies] == [1, 2, 0]


class WakesItself(Policy):
    """Asks to be woken again and again and never does anything."""

    def decide(self, view: View) -> Iterable[Decision]:
        yield Wake(view.now + 1e-6)


def test_a_policy_that_only_has_itself_woken_has_stalled(world: World) -> None:
    report = world.play(WakesItself(), [world.request(0), world.request(1, within=0.5)])
    assert [reply.request.id for reply in world.replies] == [1, 0]
    assert "did nothing" in report.last_faults[0][1]


def test_earliest_deadline_counts_nothing_while_the_policy_works(world: World) -> None:
    assert world.play("edf", some_requests(world)).last_faults == ()


# --- cancelling and interrupting --------------------------------------------------------------------


def interrupted(world: World, requests: list[Request], times: list[float]) -> VirtualExecutor:
    clock = VirtualClock()
    executor = VirtualExecutor(world.blocks, clock)
    driver = world.driver("fcfs", requests, executor, clock)
    for at in times:
        clock.call_at(at, driver.interrupt)
    report = driver.run()
    assert report.interrupted
    assert world.rows[-1].event == "end"
    return executor


def test_an_interrupt_finishes_what_runs_cancels_what_waits_and_lets_nothing_in(world: World) -> None:
    requests = [world.request(0, "long"), world.request(1), world.request(2, at=0.5)]
    interrupted(world, requests, [3e-3])
    assert world.outcomes == {1: "cancelled", 0: "done"}
    assert world.rows[-1].time_s == pytest.approx(8e-3)


def test_a_second_interrupt_cancels_what_runs(world: World) -> None:
    requests = [world.request(0, "long"), world.request(1)]
    interrupted(world, requests, [2.5e-3, 3e-3])
    assert world.outcomes == {1: "cancelled", 0: "cancelled"}
    assert world.rows[-1].time_s == pytest.approx(3e-3)
    lost = world.rows.of("progress")[-1]
    assert (lost.first_block, lost.share, lost.reason) == (1, 0.0, "lost")


def test_an_interrupt_before_anything_arrives_ends_at_once(world: World) -> None:
    interrupted(world, [world.request(0, at=5.0)], [1e-3])
    assert world.outcomes == {}
    assert world.rows[-1].time_s == pytest.approx(1e-3)


def test_a_client_may_cancel_what_waits_what_runs_and_what_is_over(world: World) -> None:
    clock = VirtualClock()
    requests = [world.request(0), world.request(1, "long"), world.request(2)]
    driver = world.driver("fcfs", requests, VirtualExecutor(world.blocks, clock), clock)
    clock.call_at(2e-3, lambda: [clock.post(Cancel(id)) for id in (0, 1, 2)] and None)
    driver.run()
    assert world.outcomes == {0: "done", 2: "cancelled", 1: "cancelled"}
    assert world.rows[-1].time_s == pytest.approx(3e-3)  # at the end of the block


def test_rejected_requests_have_a_final_state(world: World) -> None:
    world.play("fcfs", [world.request(0), world.request(1)], queue_limit=1)
    rejected = next(reply.request for reply in world.replies if reply.outcome is Outcome.REJECTED)
    assert rejected.state is State.DROPPED
