"""Deadlines, refusals and cancellation of a served engine, to the microsecond, in virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_world import ServedWorld

from headway.serve.answers import Answered
from headway.serve.figures import Ending, ending_of
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceResult
from headway.serve.visits import Visits

STRICT = {"name": "a", "sla": {"deadline": "5 ms"}}


def test_an_inference_is_answered_when_its_last_block_ends() -> None:
    world = ServedWorld([STRICT])
    world.infer(0.0, "one")
    world.play()
    assert world.told("one") == (pytest.approx(1e-3), "done")
    answer = world.answers[0][2]
    assert isinstance(answer, InferenceResult)
    assert (answer.model, answer.version, list(answer.outputs)) == ("short", "1", ["y"])
    assert answer.compute_s == pytest.approx(1e-3)
    assert answer.queue_s == pytest.approx(0.0)


def test_what_will_be_late_is_refused_at_once_with_its_predicted_finish() -> None:
    world = ServedWorld([STRICT])
    for number in range(7):
        world.infer(0.0, f"{number}")
    world.play()
    told = [world.told(f"{number}") for number in range(7)]
    assert [how for _, how in told] == ["done"] * 5 + ["LIMITED"] * 2
    assert told[5][0] == 0.0
    refusal = world.refusal("5")
    assert refusal.predicted_finish_s == pytest.approx(6e-3)
    assert refusal.retry_after_s == pytest.approx(1e-3)
    assert "6.0 ms" in refusal.message
    assert "5.0 ms" in refusal.message
    assert world.refusal("6").predicted_finish_s == pytest.approx(6e-3)  # what is refused is not ahead of it


def test_what_runs_counts_for_what_is_left_of_it() -> None:
    world = ServedWorld(
        [{"name": "a", "slas": {"long": {"deadline": "9 ms"}, "short": {"deadline": "9 ms"}}}]
    )
    world.infer(0.0, "long", "long")
    world.infer(6e-3, "short")
    world.infer(6.5e-3, "late", "long")
    world.play()
    assert world.told("short") == (pytest.approx(9e-3), "done")
    assert world.refusal("late").predicted_finish_s == pytest.approx(9e-3 + 8e-3 - 6.5e-3)


def test_where_runs_are_faster_than_believed_predictions_follow() -> None:
    world = ServedWorld([{"name": "a"}], {"m": (8e-3,)}, believed={"m": (10e-3,)})
    for number in range(3):
        world.infer(0.02 * number, f"before {number}", "m")
    world.infer(0.1, "in time", "m", timeout_s=9e-3)
    world.infer(0.2, "late", "m", timeout_s=7e-3)
    world.infer(1.5, "after silence", "m", timeout_s=7e-3)
    world.play()
    assert world.how("in time", "late", "after silence") == ["done", "LIMITED", "LATE"]
    assert world.refusal("late").predicted_finish_s == pytest.approx(8e-3)


def test_a_profile_that_is_far_too_slow_refuses_a_tenant_for_seconds_not_for_ever() -> None:
    """Believed 40 ms, in truth 8: with a time of 9 ms no halving alone lets anything through."""
    world = ServedWorld([{"name": "a"}], {"m": (8e-3,)}, believed={"m": (40e-3,)})
    for number in range(6):
        world.infer(0.5 + number, f"{number}", "m", timeout_s=9e-3)
    world.play()
    assert world.how(*(f"{number}" for number in range(6))) == ["LIMITED"] * 3 + ["done"] * 3


def test_without_admission_a_request_expires_at_its_deadline_by_a_timer() -> None:
    tenants = [{"name": "a", "slas": {"short": {"deadline": "1500 us"}, "long": {"deadline": "1 s"}}}]
    world = ServedWorld(tenants, policy="fcfs", admission="policy")
    world.infer(0.0, "long", "long")
    world.infer(1e-4, "queued")
    world.play()
    assert world.told("queued") == (pytest.approx(1.6e-3), "LATE")
    assert world.told("long") == (pytest.approx(8e-3), "done")


def test_a_client_that_brings_a_time_is_answered_then_and_its_work_ends_at_the_next_block() -> None:
    world = ServedWorld([{"name": "a"}], admission="policy")
    world.infer(0.0, "impatient", "long", timeout_s=3e-3)
    world.infer(1e-3, "next")
    world.play()
    assert world.told("impatient") == (pytest.approx(3e-3), "LATE")
    assert world.told("next") == (pytest.approx(5e-3), "done")  # the second block ends at 4 ms


def test_the_tightest_of_sla_and_time_is_the_deadline() -> None:
    world = ServedWorld([STRICT])
    for name, timeout_s in (("sla", 1.0), ("time", 5e-4)):
        world.infer(0.0, name, "long", timeout_s=timeout_s)
    world.play()
    assert world.refusal("sla").message.endswith("has 5.0 ms")
    assert world.refusal("time").message.endswith("has 0.5 ms")


def test_a_clients_priority_counts_down_from_its_tenants() -> None:
    world = ServedWorld([{"name": "a", "priority": 3}])
    for name, priority in (("none", None), ("top", -1), ("below", -3), ("bottom", -(10**30))):
        world.infer(0.0, name, "long", priority=priority)
    seen: list[int] = []
    world.at(1e-3, lambda: seen.extend(each.request.priority for each in world.service.under_way()))
    world.play()
    assert seen == [3, 3, 1, -1_000_000]


def test_time_lost_on_the_way_counts() -> None:
    world = ServedWorld([STRICT])
    world.infer(0.0, "stale", timeout_s=1e-3, arrived_s=-1e6)
    world.play()
    assert world.told("stale") == (0.0, "LATE")


def test_a_cancelled_request_ends_at_its_block_and_is_told_at_once() -> None:
    world = ServedWorld([{"name": "a"}])
    world.infer(0.0, "gone", "long")
    world.infer(0.0, "next")
    world.at(1e-3, lambda: world.tickets["gone"].cancel())
    world.at(5e-3, lambda: world.tickets["gone"].cancel())
    world.play()
    assert world.told("gone") == (pytest.approx(1e-3), "CANCELLED")
    assert world.told("next") == (pytest.approx(3e-3), "done")


def test_a_waiting_request_that_is_cancelled_never_runs() -> None:
    world = ServedWorld([{"name": "a"}])
    world.infer(0.0, "first", "long")
    world.infer(0.0, "waiting")
    world.at(1e-3, lambda: world.tickets["waiting"].cancel())
    world.play()
    assert world.told("waiting")[1] == "CANCELLED"
    assert {row.request for row in world.rows if row.event == "start"} == {0}


def test_best_effort_waits_behind_its_sla_and_is_never_refused() -> None:
    tenants = [{"name": "batch", "class": "best-effort", "sla": {"deadline": "1 ms"}}]
    world = ServedWorld(tenants)
    for number in range(4):
        world.infer(0.0, f"{number}")
    world.play()
    assert [world.told(f"{number}")[1] for number in range(4)] == ["done"] * 4


def test_a_failed_block_is_the_servers_fault_and_tells_no_path() -> None:
    world = ServedWorld([{"name": "a"}], fails=[(0, 2)])
    world.infer(0.0, "broken", "long")
    world.infer(0.0, "next")
    world.play()
    assert world.told("broken") == (pytest.approx(6e-3), "INTERNAL")
    assert world.told("next")[1] == "done"


@pytest.mark.parametrize(
    ("fields", "cause", "words"),
    [
        ({"model": "nothing"}, "NOT_FOUND", "'nothing'"),
        ({"version": "7"}, "NOT_FOUND", "version 7"),
        ({"inputs": {}}, "INVALID", "'x' is missing"),
        ({"inputs": {"x": np.zeros(2, np.float32), "w": np.zeros(1)}}, "INVALID", "'w'"),
        ({"inputs": {"x": np.zeros(3, np.float32)}}, "INVALID", "[3]"),
        ({"inputs": {"x": np.zeros(2, np.int64)}}, "INVALID", "int64"),
        ({"outputs": ("z",)}, "INVALID", "'z'"),
    ],
)
def test_requests_that_fit_no_model_are_refused(fields: dict[str, Any], cause: str, words: str) -> None:
    world = ServedWorld([{"name": "a"}])
    world.infer(0.0, "wrong", **fields)
    world.play()
    assert world.told("wrong") == (0.0, cause)
    assert words in world.refusal("wrong").message
    assert world.service.statistics("short")[0].fail.count == 0


def test_what_front_ends_refuse_is_told_where_tenant_and_model_are_known() -> None:
    world = ServedWorld([{"name": "a", "models": ["short"]}])
    told: list[Answered] = []
    world.service.watch(told.append)
    visit = Visits().begin("http", "", "", 0.0, 0, infer=True)
    refusal = Refusal(Cause.INVALID, "no JSON")
    for model, version in (("short", ""), ("short", "7"), ("nothing", ""), ("long", "")):
        world.service.refused(model, version, None, refusal, visit)
    assert [(each.tenant, each.model, each.version, each.refusal) for each in told] == [
        ("a", "short", "1", refusal)
    ]
    assert visit.tenant == "a"
    assert ending_of(told[0]) is Ending.INVALID


def test_statistics_count_what_was_answered() -> None:
    world = ServedWorld([STRICT])
    for number in range(7):
        world.infer(0.0, f"{number}")
    world.play()
    (short,) = world.service.statistics("short", "1")
    assert (short.success.count, short.fail.count, short.inference_count) == (5, 2, 5)
    assert short.compute_infer.ns == pytest.approx(5e6, rel=1e-6)
    assert short.queue.ns == pytest.approx(1e7, rel=1e-6)  # 0 + 1 + 2 + 3 + 4 ms
    assert dict(short.batches) == {1: short.compute_infer}


def test_whoever_watches_hears_of_every_answer() -> None:
    world = ServedWorld([STRICT])
    heard: list[Any] = []
    world.service.watch(heard.append)
    for number in range(6):
        world.infer(0.0, f"{number}")
    world.play()
    assert [each.in_time for each in heard] == [False, *[True] * 5]
    assert heard[0].predicted_s == pytest.approx(6e-3)
    assert {each.tenant for each in heard} == {"a"}


def test_whoever_watches_hears_of_what_the_door_refused() -> None:
    world = ServedWorld([{"name": "a", "queue": {"requests": 1}}])
    heard: list[Any] = []
    world.service.watch(heard.append)
    world.infer(0.0, "one")
    world.infer(0.0, "two")
    world.play()
    assert [each.refusal is None for each in heard] == [False, True]
    assert (heard[0].tenant, heard[0].model, heard[0].refusal.cause.name) == ("a", "short", "LIMITED")


def test_a_policy_that_fails_costs_decisions_not_requests() -> None:
    world = ServedWorld([STRICT])

    def broken(view: Any) -> Any:
        raise ValueError("a defect")

    world.admission.inner.decide = broken
    world.infer(0.0, "one")
    world.play()
    assert world.told("one")[1] == "done"


@settings(max_examples=25, deadline=None)
@given(
    lanes=st.integers(1, 3),
    jobs=st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from(["short", "long"]), st.integers(1, 30)),
        min_size=1,
        max_size=25,
    ),
)
def test_everybody_is_answered_once_and_nobody_admitted_early_is_refused_before(
    lanes: int, jobs: list[tuple[int, str, int]]
) -> None:
    world = ServedWorld([{"name": "a"}], lanes=lanes)
    for number, (at_ms, model, within_ms) in enumerate(jobs):
        world.infer(at_ms * 1e-3, f"{number}", model, timeout_s=within_ms * 1e-3)
    world.play()
    names = sorted(name for _, name, _ in world.answers)
    assert names == sorted(f"{number}" for number in range(len(jobs)))
    for number, (at_ms, _, within_ms) in enumerate(jobs):
        told_s, how = world.told(f"{number}")
        if how == "LIMITED":
            refusal = world.refusal(f"{number}")
            assert told_s == pytest.approx(at_ms * 1e-3)
            assert refusal.predicted_finish_s > within_ms * 1e-3
        else:
            assert told_s <= (at_ms + within_ms) * 1e-3 + 1e-9, "an answer comes at the deadline at last"
    assert not world.service._under_way
    assert all(door.requests == 0 and door.bytes == 0 for door in world.service.tenants.doors)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 12)), min_size=1, max_size=15))
def test_on_one_lane_the_predicted_finish_is_the_work_with_earlier_deadlines(
    jobs: list[tuple[int, int]],
) -> None:
    """Compared with what the log says was left of each request at that time."""
    world = ServedWorld([{"name": "a"}])
    jobs.sort(key=lambda job: job[0])  # requests are numbered as they come
    for number, (at_ms, within_ms) in enumerate(jobs):
        world.infer(at_ms * 1e-3, f"{number}", "short", timeout_s=within_ms * 1e-3)
    world.play()
    start_s = {row.request: row.time_s for row in world.rows if row.event == "start"}
    for number, (at_ms, within_ms) in enumerate(jobs):
        if world.told(f"{number}")[1] != "LIMITED":
            continue
        now, deadline_s = at_ms * 1e-3, (at_ms + within_ms) * 1e-3
        ahead_s = 0.0
        for other, (other_ms, other_within_ms) in enumerate(jobs):
            if other_ms > at_ms or other not in start_s:
                continue
            runs = start_s[other] < now - 1e-9
            earlier = ((other_ms + other_within_ms) * 1e-3, other_ms, other) < (deadline_s, at_ms, number)
            if runs:  # a block is never broken off
                ahead_s += max(0.0, start_s[other] + 1e-3 - now)
            elif earlier:
                ahead_s += 1e-3
        assert world.refusal(f"{number}").predicted_finish_s == pytest.approx(ahead_s + 1e-3, abs=1e-8)
