"""Adjust: bandwidth caps, and runs that go on on other cores."""

import math
import re

import pytest

from headway.core.block import Mode
from headway.core.checks import BadDecision
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.messages import Adjust, Arrive, Cancel, Dispatch, Drop, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.request import State
from headway.core.run import How
from headway.cost.contention import OverlapLoss
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.sim.driver import Stalled
from headway.testing import Rows, ToyTable, play, toy_device, toy_lane_table, toy_lanes, toy_request

MS = 1e-3


class Timed(Policy):
    """Does what is written for each moment, in milliseconds; a step gives decisions from the view."""

    needs = frozenset(Capability)

    def __init__(self, **steps):
        self.steps = sorted((float(at[1:].replace("_", ".")) * MS, step) for at, step in steps.items())
        self.seen = []
        self.gone = []

    def decide(self, view):
        self.seen.append((view.now, [core.index for core in view.idle]))
        while self.steps and view.now >= self.steps[0][0] * (1 - 1e-9):
            yield from self.steps.pop(0)[1](view)
        if self.steps:
            yield Wake(self.steps[0][0])

    def on_gone(self, request, reason, view):
        self.gone.append((request.id, str(reason), view.now))

    def idle_at(self, at_ms):
        """The idle cores as last seen by then."""
        return [idle for at, idle in self.seen if at <= at_ms * MS * (1 + 1e-9)][-1]


def start(request, *cores, blocks=None, cap=None):
    def step(view):
        chosen = tuple(view.device.cores[core] for core in cores)
        (ready,) = (each for each in view.ready if each.id == request)
        mode = Mode.SPLIT if len(cores) > 1 else Mode.SERIAL
        todo = range(ready.next_block, ready.blocks) if blocks is None else blocks
        return [Dispatch((ready,), todo, chosen, mode, bandwidth_cap_bytes_s=cap)]

    return step


def adjust(request, *cores, cap=None):
    def step(view):
        run = next(run for run in view.running if run.request.id == request)
        chosen = tuple(view.device.cores[core] for core in cores) or None
        return [Adjust(run, chosen, cap)]

    return step


def preempt(request, how=How.DRAIN):
    return lambda view: [Preempt(run, how) for run in view.running if run.request.id == request]


def drop(request):
    def step(view):
        everyone = [*view.ready, *(run.request for run in (*view.moving, *view.running))]
        return [Drop(each, "no hope") for each in everyone if each.id == request]

    return step


def both(*steps):
    return lambda view: [decision for step in steps for decision in step(view)]


def scene(count, *, cores=2, blocks=((2 * MS, 0.0),) * 4, arrivals=None):
    device = toy_device(cores)
    tables = {"m": ToyTable(device, blocks)}
    times = arrivals or [0.0] * count
    requests = [toy_request(i, "m", tables, arrival_s=at, deadline_s=1.0) for i, at in enumerate(times)]
    return device, tables, requests


def runs_of(log, request):
    """(start ms, mode, cores, first block, end block) of a request's runs."""
    return [
        (round(row.time_s / MS, 6), row.mode, row.cores, row.first_block, row.end_block)
        for row in log.of("start")
        if row.request == request
    ]


def replies(log):
    return {row.request: (row.outcome, round(row.time_s / MS, 6)) for row in log.of("reply")}


# --- other cores -----------------------------------------------------------------------------------


def test_a_serial_run_goes_on_split_at_its_next_block_end():
    policy = Timed(t0=start(0, 0), t1=adjust(0, 0, 1), t1_5=lambda view: [])
    log = play(policy, *scene(1))
    # Block 0 alone ends at 2 ms, the other three take 1 ms each on two cores.
    assert runs_of(log, 0) == [(0, "serial", "0", 0, 4), (2, "split", "0+1", 1, 4)]
    assert [(row.reason, round(row.time_s / MS, 6)) for row in log.of("stop")] == [("reallocate", 2)]
    assert replies(log) == {0: ("done", 5)}
    assert policy.idle_at(1) == [1]
    assert policy.idle_at(1.5) == []  # reserved at once


def test_a_split_run_gives_up_cores_at_its_next_block_end():
    policy = Timed(t0=start(0, 0, 1), t1_5=adjust(0, 1), t1_7=lambda view: [])
    log = play(policy, *scene(1))
    assert runs_of(log, 0) == [(0, "split", "0+1", 0, 4), (2, "serial", "1", 2, 4)]
    assert replies(log) == {0: ("done", 6)}
    assert policy.idle_at(1.7) == []
    assert policy.idle_at(2) == [0]


def test_a_request_waits_for_the_last_of_its_cores_and_holds_the_others():
    # Request 0 gives up core 0 at 2 ms and waits for core 1, on which request 1 drains until 3 ms.
    policy = Timed(
        t0=start(0, 0),
        t1=start(1, 1),
        t1_5=both(preempt(1), adjust(0, 0, 1)),
        t2_5=lambda view: (
            seen.append((view.moving[0].request.state, len(view.running), list(view.ready))) or []
        ),
        t3=start(1, 2),
    )
    seen = []
    log = play(policy, *scene(2, cores=3))
    assert seen == [(State.MOVING, 1, [])]
    assert policy.idle_at(2.5) == [2]
    assert runs_of(log, 0) == [(0, "serial", "0", 0, 4), (3, "split", "0+1", 1, 4)]
    assert replies(log) == {0: ("done", 6), 1: ("done", 9)}


def test_two_runs_swap_their_cores():
    policy = Timed(t0=both(start(0, 0), start(1, 1)), t1=both(adjust(0, 2), adjust(1, 0), adjust(0, 1)))
    log = play(policy, *scene(2, cores=3))
    assert runs_of(log, 0)[1:] == [(2, "serial", "1", 1, 4)]
    assert runs_of(log, 1)[1:] == [(2, "serial", "0", 1, 4)]
    assert policy.idle_at(1) == [2]


def test_a_later_adjust_replaces_the_earlier_one():
    policy = Timed(t0=start(0, 0), t1=adjust(0, 1), t1_5=adjust(0, 0, 2), t1_7=lambda view: [])
    log = play(policy, *scene(1, cores=3))
    assert policy.idle_at(1.7) == [1]
    assert runs_of(log, 0)[1:] == [(2, "split", "0+2", 1, 4)]


def test_an_adjust_to_the_cores_that_a_run_has_changes_nothing():
    log = play(Timed(t0=start(0, 0, 1), t1_5=adjust(0, 1, 0)), *scene(1))
    assert len(runs_of(log, 0)) == 1
    assert not log.of("stop")


def test_what_was_reserved_is_given_back_when_the_range_ends_first():
    # The last block of the range ends at 2 ms: there is nothing to move.
    policy = Timed(t0=start(0, 0, blocks=range(1)), t1=adjust(0, 1), t1_5=lambda view: [], t3=start(0, 1))
    log = play(policy, *scene(1))
    assert (policy.idle_at(1.5), policy.idle_at(2)) == ([], [0, 1])
    assert runs_of(log, 0) == [(0, "serial", "0", 0, 1), (3, "serial", "1", 1, 4)]


@pytest.mark.parametrize(("end", "stop"), [(preempt(0, How.DRAIN), "drain"), (preempt(0, How.KILL), "kill")])
def test_a_preemption_replaces_a_move(end, stop):
    policy = Timed(t0=start(0, 0), t1=adjust(0, 1), t1_5=end, t1_7=lambda view: [], t4=start(0, 1))
    log = play(policy, *scene(1))
    assert 1 in policy.idle_at(1.7)
    assert [row.reason for row in log.of("stop")] == [stop]
    assert runs_of(log, 0)[1][:3] == (4, "serial", "1")


def test_dropping_a_run_that_moves_gives_its_cores_back_at_once():
    policy = Timed(t0=start(0, 0), t1=adjust(0, 1), t1_5=drop(0), t1_7=lambda view: [])
    log = play(policy, *scene(1))
    assert policy.idle_at(1.7) == [1]
    assert replies(log) == {0: ("dropped", 2)}


def test_dropping_a_request_that_waits_for_cores_gives_back_those_it_holds():
    policy = Timed(
        t0=start(0, 0), t1=start(1, 1), t1_5=both(preempt(1), adjust(0, 0, 1)), t2_5=drop(0), t3=start(1, 0)
    )
    log = play(policy, *scene(2))
    assert replies(log) == {0: ("dropped", 2.5), 1: ("done", 9)}


def test_moving_to_tells_where_a_run_is_going():
    seen = []
    policy = Timed(
        t0=start(0, 0),
        t1=adjust(0, 1),
        t1_5=lambda view: seen.extend(view.running[0].moving_to) or [],
        t3=lambda view: seen.append(view.running[0].moving_to) or [],
    )
    play(policy, *scene(1))
    assert (seen[0].index, seen[1]) == (1, None)


def test_a_cap_goes_along_to_the_new_cores():
    # 1 MB a block at 0.5 GB/s: 2 ms a block, wherever.
    policy = Timed(t0=start(0, 0, cap=5e8), t1=adjust(0, 1))
    assert replies(play(policy, *scene(1, blocks=[(0.0, 1e6)] * 3))) == {0: ("done", 6)}


def test_a_request_that_waits_for_cores_can_be_cancelled():
    device, tables, requests = scene(2)
    engine = Engine(device, Timed(), *beliefs(device, tables), Rows())
    engine.policy.steps = [(0.0, both(start(0, 0), start(1, 1))), (1 * MS, both(preempt(1), adjust(0, 0, 1)))]
    engine.handle([Arrive(each) for each in requests], 0.0)
    engine.handle([Cancel(77), Arrive(toy_request(2, "m", tables, arrival_s=0.0, deadline_s=1.0))], 1 * MS)
    run = engine.running[0]
    engine.handle([stopped(run)], 2 * MS)
    assert requests[0].state is State.MOVING
    assert engine.idle == []
    (reply,) = engine.handle([Cancel(0)], 2.5 * MS)
    assert (reply.request.id, reply.outcome) == (0, "cancelled")
    assert engine.idle == [device.cores[0]]
    engine.handle([stopped(engine.running[1])], 3 * MS)
    assert engine.idle == list(device.cores)


def beliefs(device, tables):
    from headway.cost.contention import MaxMinFair

    rule = MaxMinFair(device.dram_bandwidth_bytes_s)
    return AnalyticEstimator(device, tables, rule), rule


def stopped(run):
    from headway.core.messages import SafePoint

    return SafePoint(run.id, 0, 1, 0.0, 0.0, 0.0, 0.0, 1.0, stopped=True)


# --- caps ------------------------------------------------------------------------------------------


def test_a_capped_run_goes_as_fast_as_its_cap_allows():
    # 1 MB in 1 ms at full speed, 1 GB/s; at 0.25 GB/s it takes 4 ms.
    log = play(Timed(t0=start(0, 0, cap=2.5e8)), *scene(1, blocks=[(1 * MS, 1e6)]))
    assert log.of("start")[0].expected_end_s == pytest.approx(4 * MS)
    assert replies(log) == {0: ("done", 4)}


def test_a_cap_above_what_a_run_asks_for_changes_nothing():
    log = play(Timed(t0=start(0, 0, cap=2.5e8)), *scene(1, blocks=[(1 * MS, 2e5)]))
    assert replies(log) == {0: ("done", 1)}


def test_a_cap_takes_effect_at_once_and_is_believed_at_once():
    seen = []

    def look(view):
        seen.extend((run.block_end_s / MS, run.expected_end_s / MS, run.step_s / MS) for run in view.running)
        return []

    policy = Timed(
        t0=start(0, 0), t0_5=adjust(0, cap=2.5e8), t0_6=look, t1_5=adjust(0, cap=math.inf), t1_6=look
    )
    log = play(policy, *scene(1, blocks=[(1 * MS, 1e6)] * 2))
    # Half a block at 0.5 ms; 1 ms at a quarter of the speed is one more; a quarter and a block are left.
    assert seen[0] == pytest.approx((2.5, 6.5, 4.0))
    assert seen[1] == pytest.approx((1.75, 2.75, 1.0))
    assert replies(log) == {0: ("done", 2.75)}


def test_a_cap_leaves_bandwidth_to_the_others():
    free = []
    policy = Timed(
        t0=both(start(0, 0), start(1, 1)),
        t0_5=both(lambda view: free.append(view.bandwidth_free()) or [], adjust(0, cap=2e8)),
        t0_6=lambda view: free.append(view.bandwidth_free()) or [],
    )
    log = play(policy, *scene(2, blocks=[(0.0, 1e6)]))
    # Half speed both until 0.5 ms; then 0.2 and 0.8 GB/s, and the first stays slow when the other ends.
    assert free == [pytest.approx(-1e9), pytest.approx(-2e8)]
    assert replies(log)[1] == ("done", pytest.approx(0.5 + 0.75 / 0.8, abs=1e-6))
    assert replies(log)[0] == ("done", pytest.approx(0.5 + 0.75 / 0.2, abs=1e-6))


def test_an_estimate_regards_the_cap_of_the_candidate_and_those_of_the_others():
    seen = []

    def ask(view):
        (request,), core = view.ready, view.idle[0]
        free = Dispatch((request,), range(1), (core,))
        capped = Dispatch((request,), range(1), (core,), bandwidth_cap_bytes_s=5e8)
        seen.extend(view.estimate([free, capped]))
        seen.extend(view.estimate([free], beside=[capped]))
        return []

    policy = Timed(t0=start(0, 0, cap=2e8), t0_5=ask, t0_6=start(1, 1))
    play(policy, *scene(2, blocks=[(0.0, 1e6)]))
    # Beside 0.2 GB/s: 0.8 are left, of which the cap allows 0.5.
    assert [each.mean_s / MS for each in seen] == pytest.approx([1.25, 2.0, 2.0])
    assert seen[1].upper_s == pytest.approx(2 * MS)
    assert seen[0].others_end_s == (pytest.approx(4.5 * MS),)
    assert seen[2].others_end_s == (pytest.approx(2 * MS),)


# --- the door --------------------------------------------------------------------------------------

RUNS = both(start(0, 0), start(1, 1))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (adjust(0, cap=0.0), "bandwidth_cap_bytes_s = 0.0; accepted: a number of bytes per second above 0"),
        (adjust(0, cap=math.nan), "bandwidth_cap_bytes_s = nan"),
        (adjust(0, cap=-1), "bandwidth_cap_bytes_s = -1"),
        (adjust(0, cap="fast"), "bandwidth_cap_bytes_s = 'fast'"),
        (start(2, 2, cap=0), "dispatches request 2 with bandwidth_cap_bytes_s = 0"),
        (
            adjust(0, 2, 2),
            "moves run 0 to cores core2, core2; accepted: at least one core, none of them twice",
        ),
        (
            adjust(0, 0, 1),
            r"moves run 0 to core 'core1', which run 1 keeps; accepted: cores that are idle, its",
        ),
        (both(adjust(0, 0, 2), adjust(1, 2)), "core 'core2', which is promised to request 0"),
        (both(adjust(0, 2), adjust(1, 0), adjust(0, 0)), "core 'core0', which is promised to request 1"),
        (both(preempt(0), adjust(0, 2)), r"moves run 0, which was asked to stop \(drain\)"),
        (both(drop(0), adjust(0, 2)), r"moves run 0, which was asked to stop \(spill\)"),
        (both(adjust(0, 2), start(2, 2)), "dispatches request 2 on core 'core2', which is busy"),
        (lambda view: [Adjust(view.running[0], ())], "moves run 0 to no core; accepted: at least one core"),
        (lambda view: [Adjust(view.running[0], [1])], r"cores = \[1\]; accepted: a tuple of Core"),
        (
            lambda view: [Adjust(view.ready[0])],
            r"accepted: Adjust\(run, cores, bandwidth_cap_bytes_s\) of a Run",
        ),
        (
            lambda view: [Adjust(view.running[0], (toy_device(9).cores[8],))],
            "core 'core8', which is not one of toy",
        ),
    ],
)
def test_a_bad_adjust_is_refused_with_its_cause(step, message):
    with pytest.raises(BadDecision, match=message):
        play(Timed(t0=RUNS, t1=step), *scene(3, cores=3))


def test_a_run_that_is_over_cannot_be_adjusted():
    kept = []
    policy = Timed(t0=start(0, 0), t1=lambda view: kept.append(view.running[0]) or [], t2_5=start(1, 0))
    policy.steps.append((3 * MS, lambda view: [Adjust(kept[0])]))
    with pytest.raises(
        BadDecision, match=r"adjusts run 0, which does not run; accepted: a run of view.running"
    ):
        play(policy, *scene(2, blocks=[(2 * MS, 0.0)]))


def test_cores_on_which_the_rest_cannot_run_are_refused():
    device, tables, requests = scene(1)
    option = tables["m"].option

    def refuse(mode, first, end, kinds, *rest):
        if mode is Mode.SPLIT:
            raise ValueError(f"blocks {first} to {end} cannot be split")
        return option(mode, first, end, kinds, *rest)

    tables["m"].option = refuse
    with pytest.raises(BadDecision, match="moves run 0 where it cannot run: blocks 1 to 4 cannot be split"):
        play(Timed(t0=start(0, 0), t1=adjust(0, 0, 1)), device, tables, requests)


@pytest.mark.parametrize(
    ("lacks", "step"),
    [
        (Capability.THROTTLE, adjust(0, cap=1e9)),
        (Capability.THROTTLE, start(1, 1, cap=1e9)),
        (Capability.REALLOCATE, adjust(0, 1)),
        (Capability.SPLIT, adjust(0, 0, 1)),
    ],
)
def test_what_a_policy_does_not_declare_is_refused(lacks, step):
    policy = Timed(t0=start(0, 0), t1=step)
    policy.needs = frozenset(Capability) - {lacks}
    with pytest.raises(BadDecision, match=f"without declaring that it needs '{lacks.value}'"):
        play(policy, *scene(2))


def test_a_policy_that_throttles_cannot_schedule_lanes():
    lanes = toy_lanes(2)
    tables = {"m": toy_lane_table(lanes, {1: [1 * MS]})}
    message = (
        "Timed needs 'throttle': 'toy-lanes' has lanes, whose memory bandwidth cannot be capped; accepted"
    )
    with pytest.raises(HeadwayError, match=re.escape(message)):
        play(Timed(), lanes, tables, [], contention=OverlapLoss(0.0))


# --- on_gone ---------------------------------------------------------------------------------------


def test_a_policy_is_told_of_every_request_that_is_over():
    policy = Timed(t0=both(start(0, 0), start(1, 1), drop(2)), t1=drop(1))
    play(policy, *scene(3, blocks=[(2 * MS, 0.0), (1 * MS, 0.0)]))
    assert policy.gone == [
        (2, "dropped", 0.0),
        (1, "dropped", pytest.approx(2 * MS)),
        (0, "done", pytest.approx(3 * MS)),
    ]


@pytest.mark.parametrize(("at_block_ends", "asked_ms"), [(False, [0, 4]), (True, [0, 1.5, 3, 4])])
def test_a_policy_is_asked_at_block_ends_if_it_wants(at_block_ends, asked_ms):
    # The blocks take 1.5, 1.5 and 1 ms; the last ends the run.
    policy = Timed(t0=both(start(0, 0, blocks=range(3))))
    policy.at_block_ends = at_block_ends
    device, tables, requests = scene(1, blocks=[(1 * MS, 0.0)] * 4)
    with pytest.raises(Stalled):
        play(policy, device, tables, requests, noise={0: (1.5, 1.5, 1.0, 1.0)})
    assert [at / MS for at, _ in policy.seen] == pytest.approx(asked_ms)
