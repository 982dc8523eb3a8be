"""Headway's decisions on accelerators, worked by hand on toy tables (1 GB/s)."""

from itertools import combinations

import pytest
from core_scene import MS, ends, order, scene, starts
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.checks import PolicyError
from headway.policies import make
from headway.policies.headway_admission import OVERLAP, STRETCH, Load, left_out
from headway.testing import play, toy_lane_table, toy_lanes, toy_request


def load(id, due_s, cores_s, memory_s=0.0, *, weight=1.0, best_effort=False):
    size = float("inf") if best_effort else max(cores_s, memory_s) / weight
    return Load(best_effort, due_s * STRETCH, id, cores_s, memory_s, size)


def test_the_largest_is_left_out_where_one_would_be_late():
    # 4 + 3 is over by 8, and 2 more by 9; without the 4 all others are in time.
    assert left_out([load(0, 5, 4), load(1, 8, 3), load(2, 8.5, 2)], now=0.0) == {0}


def test_nobody_is_left_out_where_all_fit():
    assert left_out([load(0, 5, 4), load(1, 8, 3), load(2, 9, 2)], now=0.0) == set()


def test_time_that_is_past_counts():
    assert left_out([load(0, 5, 4), load(1, 8, 3), load(2, 9, 2)], now=0.5 * STRETCH) == {0}


def test_a_weight_keeps_the_large_one():
    # 4 per weight of 4 is less than 3.
    assert left_out([load(0, 5, 4, weight=4), load(1, 6.5, 3)], now=0.0) == {1}


def test_best_effort_is_left_out_first():
    assert left_out([load(0, 5, 4), load(1, 4.5, 0.6, best_effort=True)], now=0.0) == {1}


def test_the_memory_counts_like_the_cores_and_the_lesser_of_them_by_half():
    loads = [load(0, 3, 1, 2), load(1, 7, 1, 3)]  # 5 s of memory, and half of 2 s of the cores
    assert 2 * OVERLAP + 5 == 6
    assert left_out(loads, now=0.0) == set()
    assert left_out([loads[0], load(1, 5.9, 1, 3)], now=0.0) == {1}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 25)), min_size=1, max_size=7))
def test_on_one_resource_no_choice_has_fewer_left_out(jobs):
    plan = sorted(load(at, due, work) for at, (work, due) in enumerate(jobs))

    def in_time(some):
        done_s = 0.0
        for each in some:
            done_s += each.cores_s
            if done_s > each.deadline_s / STRETCH + 1e-9:
                return False
        return True

    out = left_out(plan, now=0.0)
    assert in_time([each for each in plan if each.id not in out])
    most = max(n for n in range(len(plan) + 1) if any(map(in_time, combinations(plan, n))))
    assert len(plan) - len(out) == most


OVERLOADED = [("long", 0, 12), ("short", 0, 13), ("short", 0, 13.5), ("short", 0, 14)]
MODELS = {"long": [1] * 10, "short": [2]}


def test_the_long_request_waits_where_it_would_make_several_late():
    # 10 ms due in 12, and three of 2 ms due in 13 to 14. In order of deadline two are in time, the long one
    # and the first short one; without the long one three are.
    in_time = {}
    for policy in ("headway", "headway:no-admission"):
        log = scene(policy, OVERLOADED, MODELS)
        in_time[policy] = [at for at, (_, _, due) in enumerate(OVERLOADED) if ends(log)[at] <= due]
    assert in_time == {"headway": [1, 2, 3], "headway:no-admission": [0, 1]}


def test_one_that_was_left_out_is_served_when_there_is_room():
    # Left out beside the short ones (16 x 1.6 > 19), it is in time after them all the same.
    requests = [("long", 0, 18), ("short", 0, 19), ("short", 0, 19), ("short", 0, 19)]
    log = scene("headway", requests, MODELS)
    assert order(log)[:3] == [1, 2, 3]
    assert ends(log)[0] == pytest.approx(16)


def test_a_late_request_does_not_start_while_the_memory_is_busy_for_another():
    # Request 0 asks for four times the bandwidth until 16 ms; request 1 is late from the start.
    models = {"wide": [(1, 4e6)] * 4, "late": [1]}
    requests = [("wide", 0, 100), ("late", 1, 0.5)]
    gated, free = (starts(scene(name, requests, models, cores=2)) for name in ("headway", "headway:no-gate"))
    begin_ms = {request: at for request, at, *_ in reversed(gated)}
    assert begin_ms[1] > 1
    assert (1, 1.0, "1", 0, 1) in free


def test_it_starts_on_an_idle_core_while_there_is_bandwidth():
    log = scene("headway", [("narrow", 0, 100), ("late", 1, 0.5)], {"narrow": [9], "late": [1]}, cores=2)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 1.0, "1", 0, 1)]


def test_a_late_run_yields_at_its_next_band_to_one_that_can_be_saved():
    # Request 0 is late and fills the idle core in ten bands of 1 ms; request 1 has time, but why wait?
    models = {"late": ([10], {"steps": 10}), "short": [2]}
    requests = [("late", 0, 0.5), ("short", 1.5, 40)]
    assert ends(scene("headway", requests, models)) == {1: 4.0, 0: 12.0}
    assert ends(scene("headway:no-yielding", requests, models)) == {0: 10.0, 1: 12.0}


def test_a_late_run_that_is_almost_done_does_not_yield():
    models = {"late": ([10], {"steps": 10}), "short": [2]}
    log = scene("headway", [("late", 0, 0.5), ("short", 7.5, 40)], models)
    assert log.of("stop") == []
    assert ends(log) == {0: 10.0, 1: 12.0}


def test_late_requests_are_served_in_the_end_the_shortest_first():
    log = scene("headway", [("long", 0, 1), ("short", 0, 1), ("short", 0, 1)], MODELS)
    assert order(log)[:3] == [1, 2, 0]
    assert len(log.of("reply")) == 3


def test_it_never_drops_by_itself_but_under_the_common_rule():
    outcomes = {
        name: {row.request: row.outcome for row in scene(name, OVERLOADED, MODELS).of("reply")}
        for name in ("headway", "headway:drop")
    }
    assert outcomes["headway"] == dict.fromkeys(range(4), "done")
    assert outcomes["headway:drop"] == {0: "dropped", 1: "done", 2: "done", 3: "done"}


def test_lanes_are_refused_with_the_policy_that_serves_them():
    lanes = toy_lanes(1)
    tables = {"m": toy_lane_table(lanes, {1: [1 * MS]})}
    request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)
    with pytest.raises(PolicyError, match=r"has lanes; accepted: .*'edf:planned'"):
        play(make("headway"), lanes, tables, [request])
