"""Headway's decisions on accelerators, worked by hand on toy tables (1 GB/s)."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from core_scene import MS, ends, order, scene, starts
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.core.protocols import Capability
from headway.policies import Policy, make
from headway.policies.dropping import Dropping
from headway.policies.headway_admission import OVERLAP, STRETCH, Load, left_out
from headway.policies.headway_cores import OnCores
from headway.testing import play, toy_device, toy_lane_table, toy_lanes
from headway.wiring import simulated


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


@pytest.mark.parametrize("swapped", [False, True])
def test_the_memory_counts_like_the_cores_and_the_lesser_of_them_in_part(swapped):
    # 5 s of one resource and 2 s of the other: 5 + 0.3 x 2 = 5.6.
    def both(id, due_s, cores_s, memory_s):
        return load(id, due_s, *((memory_s, cores_s) if swapped else (cores_s, memory_s)))

    assert OVERLAP == 0.3
    assert left_out([both(0, 3, 1, 2), both(1, 5.61, 1, 3)], now=0.0) == set()
    assert left_out([both(0, 3, 1, 2), both(1, 5.59, 1, 3)], now=0.0) == {1}


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


def test_one_that_was_left_out_comes_back_as_soon_as_there_is_room():
    # All take 16 ms, stretched 16 x 1.2 = 19.2 > 19: the long one is left out. When the first short one is
    # done, 2 + 14 x 1.2 = 18.8 fits, and the long one has the earliest deadline.
    assert STRETCH == 1.2
    log = scene("headway", [("long", 0, 18), *[("short", 0, 19)] * 3], MODELS)
    assert list(dict.fromkeys(order(log))) == [1, 0, 2, 3]
    assert ends(log) == pytest.approx({1: 2, 0: 12, 2: 14, 3: 16})


def test_one_that_is_left_out_to_the_last_is_served_after_the_others():
    # As above, but due by 18.3: 18.8 is too late, so is 4 + 12 x 1.2 = 18.4 after the second short one. By
    # itself, 6 + 10 x 1.2 = 18, it fits.
    log = scene("headway", [("long", 0, 18.2), *[("short", 0, 18.3)] * 3], MODELS)
    assert list(dict.fromkeys(order(log))) == [1, 2, 3, 0]
    assert ends(log)[0] == pytest.approx(16)


def test_a_late_request_starts_on_an_idle_core():
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


@pytest.mark.parametrize("name", ["headway:barrier", "headway:no-margin", "headway:barrier:drop"])
def test_accelerators_refuse_what_is_about_lanes_before_a_run_begins(name):
    prepared = SimpleNamespace(
        device=toy_device(1), scenario=None
    )  # asked for more, it raises AttributeError
    with pytest.raises(HeadwayError, match=r"needs lanes: 'toy' is an accelerator; accepted: .*'headway'"):
        simulated.simulate(prepared, name)


class ForAccelerators(Policy):
    needs_accelerator = True


@pytest.mark.parametrize("dropping", [False, True])
def test_lanes_refuse_what_needs_an_accelerator_before_a_run_begins(dropping):
    lanes = toy_lanes(1)
    tables = {"m": toy_lane_table(lanes, {1: [1 * MS]})}
    refused = Dropping(ForAccelerators()) if dropping else ForAccelerators()
    with pytest.raises(HeadwayError, match="needs an accelerator: 'toy-lanes' has lanes; accepted: "):
        play(refused, lanes, tables, [])


@pytest.mark.parametrize("drop", ["", ":drop"])
def test_on_an_accelerator_it_may_use_what_its_half_there_uses_and_nothing_else(drop):
    policy = make("headway" + drop)
    scene(policy, [("short", 0, 19)], MODELS)
    assert policy.needs == OnCores.needs
    assert Capability.SPLIT not in policy.needs
