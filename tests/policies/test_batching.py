"""Which requests the policies on lanes run together, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cost import OverlapLoss
from headway.policies import make
from headway.testing import Rows, play, toy_lane_table, toy_lanes, toy_request

MS = 1e-3
POLICIES = ["edf:planned", "headway"]


def scene(
    policy: str,
    requests: list[tuple],
    *,
    factors: dict[int, float] | None = None,
    lanes: int = 1,
    **fields: float,
) -> Rows:
    """The log of requests (model, arrival, relative deadline, in ms, further fields) on lanes where "a" takes
    10 ms and "b" 4 ms; a batch takes `factors` times as long."""
    device = toy_lanes(lanes)
    batches = {2: 1.2, 4: 1.6} if factors is None else factors
    tables = {
        name: toy_lane_table(device, {1: row}, batches=batches, name=name)
        for name, row in (("a", [5 * MS, 5 * MS]), ("b", [4 * MS]))
    }
    made = [
        toy_request(
            at,
            model,
            tables,
            arrival_s=arrival * MS,
            deadline_s=(arrival + due) * MS,
            **{"most_batch": 4, **fields, **(more[0] if more else {})},
        )
        for at, (model, arrival, due, *more) in enumerate(requests)
    ]
    return play(make(policy), device, tables, made, contention=OverlapLoss(0.0))


def batches(log: Rows) -> list[list[int]]:
    """The requests of each run, in the order of the runs' beginnings."""
    runs: dict[int, list[int]] = {}
    for row in log.of("start"):
        runs.setdefault(row.run, []).append(row.request)
    return list(runs.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_who_waits_for_the_same_model_is_taken_along(policy: str) -> None:
    log = scene(policy, [("a", 0, 100)] * 4)
    assert batches(log) == [[0, 1, 2, 3]]
    assert [row.time_s for row in log.of("reply")] == pytest.approx([16 * MS] * 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_batched_who_does_not_allow_it(policy: str) -> None:
    assert batches(scene(policy, [("a", 0, 100)] * 2, most_batch=1)) == [[0], [1]]
    assert batches(scene(policy, [("a", 0, 100)] * 3, most_batch=2)) == [[0, 1], [2]]


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_batched_where_that_saves_no_work(policy: str) -> None:
    assert batches(scene(policy, [("a", 0, 100)] * 2, factors={2: 1.98})) == [[0], [1]]
    assert batches(scene(policy, [("a", 0, 100)] * 2, factors={})) == [[0], [1]]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_grows_only_while_the_most_urgent_is_in_time(policy: str) -> None:
    # Alone in 10 ms, with one more in 12, with two more in 14.
    log = scene(policy, [("a", 0, 13), ("a", 0, 100), ("a", 0, 100)])
    assert batches(log)[0] == [0, 1]
    assert {row.outcome for row in log.of("reply")} == {"done"}
    assert batches(scene(policy, [("a", 0, 11), ("a", 0, 100)])) == [[0], [1]]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_does_not_make_another_model_late(policy: str) -> None:
    # Behind one run "b" ends at 14 ms, behind a batch of two at 16.
    log = scene(policy, [("a", 0, 12.5), ("b", 0, 15), ("a", 0, 100)])
    assert batches(log) == [[0], [1], [2]]
    relaxed = scene(policy, [("a", 0, 12.5), ("b", 0, 17), ("a", 0, 100)])
    assert batches(relaxed) == [[0, 2], [1]]


@pytest.mark.parametrize("policy", POLICIES)
def test_strict_requests_and_best_effort_are_not_mixed(policy: str) -> None:
    log = scene(policy, [("a", 0, 100), ("a", 0, 100, {"strict": False})])
    assert batches(log) == [[0], [1]]


@pytest.mark.parametrize("policy", POLICIES)
def test_lanes_share_who_waits(policy: str) -> None:
    log = scene(policy, [("a", 0, 100)] * 6, lanes=2)
    assert sorted(len(members) for members in batches(log)) == [3, 3]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_waits_for_others_as_long_as_it_allows(policy: str) -> None:
    log = scene(policy, [("a", 0, 100), ("a", 3, 100)], batch_delay_s=5 * MS)
    assert batches(log) == [[0, 1]]
    assert log.of("start")[0].time_s == pytest.approx(5 * MS)
    full = scene(policy, [("a", 0, 100)] * 4, batch_delay_s=5 * MS)
    assert full.of("start")[0].time_s == 0.0


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_waits_for_others_whose_deadline_is_near_or_who_keeps_someone_waiting(policy: str) -> None:
    near = scene(policy, [("a", 0, 12), ("a", 3, 100)], batch_delay_s=5 * MS)
    assert near.of("start")[0].time_s == 0.0
    waiting = scene(policy, [("a", 0, 50), ("b", 0, 100)], batch_delay_s=5 * MS)
    assert waiting.of("start")[0].time_s == 0.0


@pytest.mark.parametrize("policy", POLICIES)
def test_batching_saves_requests_under_a_load_that_is_too_high_without(policy: str) -> None:
    requests = [("a", 7 * at, 60) for at in range(40)]  # 1.4 times what one lane can do one by one

    def done(most_batch: int) -> int:
        log = scene(policy, requests, most_batch=most_batch)
        due = {row.request: row.deadline_s for row in log.of("arrive")}
        return sum(
            row.outcome == "done" and row.time_s <= due[row.request] + 1e-12 for row in log.of("reply")
        )

    assert done(1) < 34
    assert done(4) == 40


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(0, 40), st.floats(12, 80)), min_size=1, max_size=20
    ),
    lanes=st.integers(1, 3),
    delay=st.sampled_from([0.0, 3 * MS]),
)
def test_everyone_is_answered_and_nobody_runs_in_two_runs_at_once(
    policy: str, arrivals: list[tuple], lanes: int, delay: float
) -> None:
    log = scene(policy, arrivals, lanes=lanes, batch_delay_s=delay)
    assert sorted(row.request for row in log.of("reply")) == list(range(len(arrivals)))
    running: set[int] = set()
    for row in log:
        if row.event == "start":
            assert row.request not in running
            running.add(row.request)
        elif row.event in ("stop", "finish"):
            running.remove(row.request)
