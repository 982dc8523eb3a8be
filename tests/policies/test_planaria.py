"""Planaria's allocations, worked by hand."""

from core_scene import ends, scene, starts
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_scene import scene as lanes

from headway.policies.planaria import Task, allocation
from headway.testing import ToyTable, toy_device, toy_request

TABLES = {"m": ToyTable(toy_device(4), [(1e-3, 0.0)])}


def task(id, fewest, *, slack, left=1.0, every=1.0, priority=0):
    request = toy_request(id, "m", TABLES, arrival_s=0.0, deadline_s=1.0, priority=priority)
    return Task(request, fewest, slack, left, every)


def test_all_fit_and_what_is_spare_goes_by_priority_over_time_left():
    # 1 + 2 of 4. The spare one by 1 / 4 and 1 / 2: thirds 0.33 and 0.67, rounded 0 and 1.
    assert allocation([task(0, 1, slack=5, left=4.0), task(1, 2, slack=5, left=2.0)], 4) == {0: 1, 1: 3}


def test_what_rounding_leaves_goes_to_the_highest_priority():
    # Two spare among three with equal shares of 2 / 3, rounded 1, 1 and 0 are left: by priority.
    tasks = [task(0, 1, slack=5), task(1, 1, slack=5), task(2, 1, slack=5)]
    assert allocation(tasks, 5) == {0: 2, 1: 2, 2: 1}
    # One spare among three: 0.33, none by rounding (0.25, 0.25, 0.5 rounds to 0): the last has priority 1.
    tasks[2] = task(2, 1, slack=5, priority=1)
    assert allocation(tasks, 4) == {0: 1, 1: 1, 2: 2}


def test_if_they_do_not_fit_the_highest_scores_get_theirs_and_the_last_what_is_left():
    # Scores 1 / (2 * 3) = 0.17, 1 / (1 * 2) = 0.5: the second gets 2, the first the other 2 of its 3.
    assert allocation([task(0, 3, slack=2), task(1, 2, slack=1)], 4) == {0: 2, 1: 2}
    # One that cannot be met gets none, and what is spare goes to the other.
    assert allocation([task(0, 3, slack=2), task(1, None, slack=1)], 4) == {0: 4, 1: 0}


def test_if_none_can_be_met_the_cores_are_divided_by_score():
    # 1 / 1 and 1 / 3: shares 3 and 1 of 4.
    assert allocation([task(0, None, slack=0, every=1.0), task(1, None, slack=0, every=3.0)], 4) == {
        0: 3,
        1: 1,
    }


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(1, 8)), st.floats(0, 5), st.floats(0, 5), st.integers(0, 3)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_allocation_gives_more_than_there_is_or_leaves_any(tasks):
    given_cores = allocation(
        [
            task(at, n, slack=slack, left=left, every=left, priority=p)
            for at, (n, slack, left, p) in enumerate(tasks)
        ],
        8,
    )
    assert sum(given_cores.values()) == 8
    assert min(given_cores.values()) >= 0


MODELS = {"four": [4.0] * 4, "one": [4.0]}


def test_alone_it_gets_everything_and_shares_from_its_next_layer_on():
    # Alone: 1 ms per layer on four cores. At 0.5 another one comes, 4 ms long, due in 3: it needs 2 cores,
    # the first (3.5 of its 16 ms are to come, due at 99) 1; the spare one goes by 1 / 14.x against 1 / 2 to
    # the second.
    log = scene("planaria", [("four", 0, 99), ("one", 0.5, 3.0)], MODELS, cores=4)
    runs = starts(log)
    assert runs[0] == (0, 0.0, "0+1+2+3", 0, 4)
    assert sorted(run[:2] for run in runs[1:3]) == [(0, 1.0), (1, 1.0)]
    cores = {run[0]: len(run[2].split("+")) for run in runs[1:3]}
    assert cores == {0: 1, 1: 3}
    # It ends at 1 + 4 / 3; the first, whose layer on one core ends at 5, then gets all four for the last two.
    assert ends(log)[1] == round(1 + 4 / 3, 6)
    assert ends(log)[0] == 7.0


def test_one_that_cannot_be_met_is_suspended_for_those_that_can():
    # At 1.5 the first (due at 3) cannot be met any more: 6 ms on four cores take longer. The other one can.
    log = scene("planaria", [("four", 0, 3), ("one", 0.5, 4.0)], MODELS, cores=4)
    assert ends(log)[1] < ends(log)[0]


def test_a_request_runs_on_the_next_lower_width_that_was_measured():
    models = {"wide": {1: [8, 8], 4: [2, 2]}, "narrow": {1: [3, 3]}}
    requests = [("wide", 0, 100), ("narrow", 0.5, 100), ("wide", 1, 3)]  # the last is late even on all lanes
    log = lanes("planaria", requests, models, lanes=4)
    assert sorted(row.request for row in log.of("reply")) == [0, 1, 2]
    widths = {(row.request, 1 + row.cores.count("+")) for row in log.of("start")}
    assert widths <= {(0, 1), (0, 4), (1, 1), (2, 1), (2, 4)}
    assert (0, 4) in widths
