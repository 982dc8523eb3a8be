"""Headway's decisions on lanes, worked by hand."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_scene import MS, ends, scene, starts

from headway.core.block import Pressure
from headway.core.engine import Engine
from headway.core.protocols import Estimate
from headway.cost.contention import PairOverlap, fluid_loss
from headway.policies import make
from headway.policies.headway_ageing import SHARE, SLICE_S
from headway.policies.headway_lanes import OnLanes
from headway.policies.headway_outlook import SPREAD, Outlook, admitted
from headway.policies.headway_pairs import partner_end
from headway.policies.lane_plan import Job
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.overlap import FluidOverlap
from headway.sim.driver import Simulation
from headway.testing import Listed, Rows, toy_lane_table, toy_lanes, toy_request

# Four blocks: 2 ms each on one lane, 1.2 ms each on two; and models for lanes without wide runs.
MODELS = {"m": {1: [2.0] * 4, 2: [1.2] * 4}, "short": {1: [1.0], 2: [0.6]}}
NARROW = {"m": {1: [2.0] * 4}, "short": {1: [1.0]}, "long": {1: [1.0] * 10}, "two": {1: [2.0]}}
OVERLOADED = [("long", 0, 12), ("two", 0, 13), ("two", 0, 13.5), ("two", 0, 14)]


def test_alone_over_all_lanes_if_that_is_faster():
    assert starts(scene("headway", [("m", 0, 99)], MODELS)) == [(0, 0.0, "0+1", 0, 4)]


def test_side_by_side_if_all_are_in_time_and_work_is_saved():
    log = scene("headway", [("m", 0, 98), ("m", 0, 99)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 4)]


def test_one_after_the_other_where_side_by_side_gains_less_than_a_little():
    # Together 8 + 0.93 * 8 = 15.44 of 16, a gain of 3.5 percent; with 0.9 it is 5 percent.
    requests = [("m", 0, 98), ("m", 0, 99)]
    assert starts(scene("headway", requests, NARROW, w=0.93)) == [(0, 0.0, "0", 0, 4), (1, 8.0, "0", 0, 4)]
    assert starts(scene("headway", requests, NARROW, w=0.9)) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 4)]


def test_alone_for_one_that_would_be_late_in_company():
    # Wide 4.8 of 6 ms, narrow 8; the same on lanes without wide runs: 8 alone, 12 in company.
    log = scene("headway", [("m", 0, 6), ("m", 0, 99)], MODELS)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 4.8, "0+1", 0, 4)]
    log = scene("headway", [("m", 0, 10), ("m", 0, 99)], NARROW, w=0.5)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 8.0, "0", 0, 4)]


def test_a_free_lane_is_given_away_without_a_barrier_unless_asked_for_one():
    requests = [("m", 0, 97), ("short", 0, 98), ("short", 0, 99)]
    assert ends(scene("headway", requests, NARROW)) == {1: 1.0, 2: 2.0, 0: 8.0}
    assert ends(scene("headway:barrier", requests, NARROW)) == {1: 1.0, 0: 8.0, 2: 9.0}


def test_runs_make_way_at_the_end_of_their_block_for_one_that_would_be_late():
    requests = [("m", 0, 98), ("m", 0, 99), ("short", 1, 3)]
    assert ends(scene("headway", requests, NARROW))[2] == 3.0
    log = scene("headway:no-yielding", requests, NARROW)
    assert [row.outcome for row in log.of("reply") if row.request == 2] == ["dropped"]
    assert log.of("stop") == []


def test_the_largest_is_left_out_where_it_would_make_several_late():
    # One lane: in order of deadline 10 + 2 are in time and no more, without the long one all three are.
    def in_time(policy):
        ended = {
            row.request: row.time_s / MS
            for row in scene(policy, OVERLOADED, NARROW, lanes=1).of("reply")
            if row.outcome == "done"
        }
        return [at for at, (_, _, due) in enumerate(OVERLOADED) if ended.get(at, 1e9) <= due]

    assert in_time("headway") == [1, 2, 3]
    assert in_time("headway:no-admission") == [0, 1]


def test_what_cannot_be_in_time_is_dropped_but_not_best_effort():
    best_effort = {"strict": False}
    log = scene("headway", [("m", 0, 99), ("short", 0, 0.5), ("short", 0, 0.5, best_effort)], MODELS)
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "done", 1: "dropped", 2: "done"}


def test_best_effort_comes_after_strict_and_its_tenants_take_turns():
    def of(name, strict=False):
        return {"tenant": name, "strict": strict}

    requests = [
        *[("two", 0, 1, of("a"))] * 3,
        *[("two", 0.5, 1, of("b"))] * 2,
        ("two", 0.5, 99, of("c", strict=True)),
    ]
    log = scene("headway", requests, NARROW, lanes=1)
    # "a" was first, then the strict one. "b" is new, then ahead of "a", then both had as much and "a" waits
    # longer.
    assert [row.request for row in log.of("start")] == [0, 5, 3, 1, 2, 4]


@pytest.mark.parametrize("lanes", [1, 2])
def test_best_effort_behind_strict_requests_gets_a_small_share_of_the_lanes(lanes):
    strict = [("two", 2 * at, 99) for at in range(300) for _ in range(lanes)]  # as much as there is time for
    best_effort = [("long", 1, 1, {"strict": False})] * 5
    log = scene("headway", [*best_effort, *strict], NARROW, lanes=lanes)
    ended = ends(log)
    assert all(row.outcome == "done" for row in log.of("reply"))
    # A twentieth of the lanes' time: the 10 ms of one in every 200 ms of one lane.
    before = 1 + SLICE_S / (SHARE * lanes) / MS
    assert before <= ended[0] <= before + 20
    assert sum(ended[at] < 600 for at in range(5)) == 600 // (before + 10)


def test_a_slice_has_the_blocks_that_fit_into_it():
    models = {"fine": {1: [4.0] * 5}, "coarse": {1: [30.0] * 2}, "two": {1: [2.0]}}
    strict = [("two", 2 * at, 99) for at in range(250)]
    for name, blocks in (("fine", 2), ("coarse", 1)):
        log = scene("headway", [(name, 1, 1, {"strict": False}), *strict], models, lanes=1)
        assert next(row for row in log.of("start") if row.request == 0).end_block == blocks


def of_pressures(models, requests):
    """The log of requests on two lanes whose overlap follows from what blocks press on; models are
    (milliseconds of blocks, compute, memory)."""
    device = toy_lanes(2)
    tables = {
        name: toy_lane_table(
            device,
            {1: [each * MS for each in blocks]},
            pressures={1: [Pressure(name, at, 1, compute, memory, 0.0, 0.0) for at in range(len(blocks))]},
            name=name,
        )
        for name, (blocks, compute, memory) in models.items()
    }
    made = [
        toy_request(at, model, tables, arrival_s=0.0, deadline_s=due * MS)
        for at, (model, due) in enumerate(requests)
    ]
    rows = Rows()
    estimator = LaneEstimator(device, tables, FluidOverlap())
    engine = Engine(device, make("headway"), estimator, estimator.contention, rows)
    truth = PairOverlap(fluid_loss)
    Simulation(engine, Listed(made), device, tables, truth, lambda r: (1.0,) * r.blocks).run()
    return rows


def test_the_partner_is_the_one_that_disturbs_least():
    models = {
        "compute": ([2.0] * 4, 0.8, 0.1),
        "other": ([2.0] * 4, 0.8, 0.1),
        "memory": ([2.0] * 4, 0.1, 0.8),
    }
    # Two that compute lose 0.6, one that computes and one that moves data nothing.
    log = of_pressures(models, [("compute", 97), ("other", 98), ("memory", 99)])
    assert [run[0] for run in starts(log)][:2] == [0, 2]
    assert ends(log)[0] == 8.0
    # All alike: the next one.
    models["memory"] = models["other"]
    log = of_pressures(models, [("compute", 97), ("other", 98), ("memory", 99)])
    assert [run[0] for run in starts(log)][:2] == [0, 1]


class Asked:
    """A view that believes a run beside to end after 10 ms, stretched by half of what overlaps it; upper
    bounds are 2 ms later."""

    def __init__(self):
        self.probes = []

    def estimate(self, candidates, beside):
        answers = []
        for candidate in candidates:
            cut = candidate.blocks.stop
            self.probes.append(cut)
            end_s = (10 + 0.5 * min(10, cut)) * MS
            answers.append(Estimate(0.0, 0.0, "", 0.0, 0.0, 0.0, 0.0, (end_s,), (end_s + 2 * MS,)))
        return answers


@pytest.mark.parametrize(
    ("within", "margins", "end"), [(17, True, 10), (16, True, 8), (14.6, False, 9), (13, True, 2)]
)
def test_a_partner_is_cut_so_that_the_first_is_through_in_time(within, margins, end):
    lanes = toy_lanes(2)
    tables = {"p": toy_lane_table(lanes, {1: [MS] * 10})}
    request = toy_request(0, "p", tables, arrival_s=0.0, deadline_s=1.0)
    view = Asked()
    found = partner_end(request, lanes.cores[1], object(), within * MS + 1e-9, view, margins=margins)
    assert found == end
    assert len(view.probes) <= 5


def test_lateness_lies_evenly_around_the_planned_end():
    outlook = Outlook(lambda one, other: 0.0, alike, margins=True)
    # Planned for 10 s from now.
    first_s, last_s = 11.0 - 10.0 * SPREAD, 11.0 + 10.0 * SPREAD
    assert outlook.lateness(11.0, last_s + 0.01, now=1.0) == 0.0
    assert outlook.lateness(11.0, first_s - 0.01, now=1.0) == 1.0
    assert outlook.lateness(11.0, (first_s + last_s) / 2, now=1.0) == pytest.approx(0.5)
    plain = Outlook(lambda one, other: 0.0, alike, margins=False)
    assert (plain.lateness(11.0, 11.0, now=1.0), plain.lateness(11.0, 10.99, now=1.0)) == (0.0, 1.0)


def job(id, work_s, due_s, weight=1.0):
    tables = {"m": toy_lane_table(toy_lanes(1), {1: [work_s]})}
    request = toy_request(id, "m", tables, arrival_s=0.0, deadline_s=due_s, weight=weight)
    return Job(due_s, id, request, None, 0.0, work_s, work_s, work_s, 1)


def alike(job):
    return 1.0


def test_plans_lose_what_the_requests_are_worth_that_are_late():
    outlook = Outlook(lambda one, other: 0.0, lambda job: job.request.weight, margins=False)
    jobs = [job(0, 4.0, 3.9, weight=2.0), job(1, 4.0, 3.9, weight=3.0), job(2, 4.0, 4.0, weight=5.0)]
    assert outlook.side_by_side(jobs, 3, 0.0, (), 0.0) == 5.0
    assert outlook.in_turn(jobs, 0.1, 0.0) == 10.0


def test_a_plan_side_by_side_stretches_runs_while_they_are_together():
    # 4 and 8 with a loss of one half: the short one ends after 6, the long one after 6 + 4 = 10. If the long
    # one cannot be in time it takes no lane, and the short one is not stretched.
    outlook = Outlook(lambda one, other: 0.5, alike, margins=False)
    for due_short, due_long, late in ((6, 10, 0), (5.9, 10, 1), (6, 9.9, 1), (5.9, 9.9, 1)):
        jobs = [job(0, 4.0, due_short), job(1, 8.0, due_long)]
        assert outlook.side_by_side(jobs, 2, 0.0, (), 0.0) == late
    # 3 s of a block on the other lane stretch the short one by 1.5.
    for due, late in ((5.5, 0), (5.4, 1)):
        assert outlook.side_by_side([job(0, 4.0, due)], 2, 0.0, [(3.0, 9, "m")], 0.0) == late


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 25)), min_size=1, max_size=7))
def test_admission_leaves_out_as_few_as_possible(jobs):
    plan = sorted(
        (job(at, float(work), float(due)) for at, (work, due) in enumerate(jobs)), key=lambda j: j[:2]
    )

    def fits(chosen):
        end_s = 0.0
        for each in chosen:
            end_s += each.least_s
            if end_s > each.deadline_s:
                return False
        return True

    kept = admitted(plan, alike, gain=0.0, now=0.0)
    assert fits([each for each in plan if each.id in kept])
    most = max(count for count in range(len(plan) + 1) if any(map(fits, combinations(plan, count))))
    assert len(kept) == most


def test_a_weight_keeps_the_large_one_and_overlap_is_credited_in_part():
    def weight(job):
        return job.request.weight

    assert admitted([job(0, 4, 5, weight=4), job(1, 3, 6.5)], weight, gain=0.0, now=0.0) == {0}
    # 4 + 3 within 6.5: with a gain of 0.2, 0.9 of 7 is 6.3.
    assert admitted([job(0, 4, 5), job(1, 3, 6.5)], alike, gain=0.2, now=0.0) == {0, 1}


def test_a_large_request_that_is_nearly_through_is_not_left_out_for_a_small_one():
    # 4 of 40 are left of the large one when two small ones come, of which only one fits beside it.
    models = {"large": {1: [4] * 10}, "small": {1: [3]}}
    log = scene("headway", [("large", 0, 45), ("small", 35, 9), ("small", 35.5, 9)], models, lanes=1)
    outcomes = {row.request: row.outcome for row in log.of("reply")}
    assert (outcomes[0], sorted(outcomes.values())) == ("done", ["done", "done", "dropped"])


def test_on_lanes_it_needs_what_its_half_there_needs():
    policy = make("headway")
    scene(policy, [("m", 0, 99)], MODELS)
    assert policy.needs == OnLanes.needs
