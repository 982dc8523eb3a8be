"""The engine's rules, each on a log small enough to work out by hand."""

import pytest

from headway.core.block import Mode
from headway.core.checks import BadDecision
from headway.core.messages import Cancel, Dispatch, Drop, Preempt, Tick, Wake
from headway.core.protocols import Capability
from headway.core.request import Partial, Request, State, TransitionError
from headway.core.run import How
from headway.policies import Policy, make
from headway.sim.driver import Stalled
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3


class Scripted(Policy):
    """Answers the n-th call of decide with the n-th function of a list, the rest with nothing."""

    needs = frozenset({Capability.PREEMPT, Capability.FUSE, Capability.PIPELINE})

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []

    def decide(self, view):
        self.calls.append((view.now, len(view.ready), len(view.idle)))
        return self.answers.pop(0)(view) if self.answers else []


def first_on(core, blocks=None, mode=Mode.SERIAL, **more):
    def answer(view):
        request = view.ready[0]
        cores = tuple(view.device.cores[c] for c in (core if isinstance(core, tuple) else (core,)))
        return [
            Dispatch((request,), blocks or range(request.next_block, request.blocks), cores, mode, **more)
        ]

    return answer


def scene(*arrivals, blocks=((1 * MS, 0.0), (2 * MS, 0.0)), cores=1, **table):
    device = toy_device(cores)
    tables = {"m": ToyTable(device, blocks, **table)}
    requests = [toy_request(i, "m", tables, arrival_s=a, deadline_s=a + 1.0) for i, a in enumerate(arrivals)]
    return device, tables, requests


def test_one_request_runs_its_blocks_and_is_answered_when_they_end():
    log = play(Scripted(first_on(0)), *scene(5 * MS))
    (reply,) = log.of("reply")
    assert reply.outcome == "done"
    assert reply.time_s == pytest.approx(8 * MS)
    assert [(r.first_block, r.end_block) for r in log.of("progress")] == [(0, 1), (1, 2)]
    assert log[-1].event == "end"


def test_all_events_of_one_instant_are_applied_before_one_decide():
    policy = Scripted(first_on(0), first_on(0), first_on(0))
    play(policy, *scene(0.0, 3 * MS, 3 * MS))  # the first run ends exactly when two requests arrive
    assert policy.calls[1] == (pytest.approx(3 * MS), 2, 1)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (first_on(0, range(1, 2)), "stands at block 0"),
        (first_on(0, range(3)), "stands at block 0 of 2"),
        (first_on((0, 0)), "one core twice"),
        (first_on((0, 1)), "cannot run"),
        (first_on(0, mode=Mode.SPLIT), "without declaring"),
        (lambda view: [Wake(view.now)], "not after now"),
        (lambda view: ["nonsense"], "accepted: Dispatch"),
        (
            lambda view: [Dispatch((view.ready[0], view.ready[0]), range(2), view.device.cores[:1])],
            "one per run",
        ),
        (lambda view: [*first_on(0)(view), *first_on(1)(view)], "is running, not ready"),
    ],
)
def test_a_bad_decision_ends_a_simulation_with_its_cause(answer, cause):
    with pytest.raises(BadDecision, match=cause):
        play(Scripted(answer), *scene(0.0, cores=2))


def test_a_decision_is_checked_against_the_state_that_earlier_ones_of_the_answer_leave():
    def both_on_core_0(view):
        core = view.device.cores[:1]
        return [Dispatch((request,), range(2), core) for request in list(view.ready)]

    with pytest.raises(BadDecision, match="busy"):
        play(Scripted(both_on_core_0), *scene(0.0, 0.0))


def test_a_policy_that_leaves_work_with_nothing_to_wait_for_has_stalled():
    with pytest.raises(Stalled, match="1 requests wait"):
        play(Scripted(), *scene(0.0))


def test_a_wake_brings_another_decision_at_its_time():
    policy = Scripted(lambda view: [Wake(4 * MS)], first_on(0))
    log = play(policy, *scene(0.0))
    assert policy.calls[1][0] == pytest.approx(4 * MS)
    assert log.of("reply")[0].time_s == pytest.approx(7 * MS)


def test_drain_stops_a_serial_run_at_the_end_of_its_block_and_keeps_what_is_done():
    # The second arrival comes 0.5 ms into block 0 (1 ms); block 1 goes on later where the first run ended.
    def drain(view):
        return [Preempt(view.running[0], How.DRAIN)]

    policy = Scripted(first_on(0), drain, lambda v: first_on(0)(v), first_on(0), first_on(0))
    log = play(policy, *scene(0.0, 0.5 * MS))
    stop = log.of("stop")[0]
    assert (stop.time_s, stop.reason) == (pytest.approx(1 * MS), "drain")
    spans = [(r.request, r.first_block, r.end_block) for r in log.of("progress")]
    assert sorted(spans) == [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2)]


def test_spill_stops_at_the_next_band_and_the_same_dispatch_resumes_there():
    # 4 bands of 0.25 ms; asked at 0.3 ms, it stops at 0.5 ms with half the block done.
    policy = Scripted(
        first_on(0),
        lambda view: [Preempt(view.running[0], How.SPILL)],
        lambda view: [Dispatch((view.ready[-1],), range(2), view.idle[:1] and (view.idle[0],))],
        first_on(0),
    )
    log = play(policy, *scene(0.0, 0.3 * MS, steps=4))
    progress = [(r.request, r.share, r.time_s) for r in log.of("progress")]
    assert progress[0] == (0, pytest.approx(0.5), pytest.approx(0.5 * MS))
    assert progress[3][:2] == (0, pytest.approx(0.5))  # the second half of block 0, after request 1
    assert progress[3][2] == pytest.approx(4.0 * MS)
    assert log.of("reply")[-1].time_s == pytest.approx(6 * MS)


def test_any_other_dispatch_discards_the_partial_run():
    policy = Scripted(
        first_on(0),
        lambda view: [Preempt(view.running[0], How.SPILL)],
        first_on(0, mode=Mode.FUSED),
        first_on(0),
    )
    log = play(policy, *scene(0.0, 0.3 * MS, steps=4))
    again = log.of("progress")[1]
    assert (again.mode, again.share) == ("fused", pytest.approx(1.0))


def test_kill_stops_at_once_and_loses_the_block():
    policy = Scripted(
        first_on(0),
        lambda view: [Preempt(view.running[0], How.KILL)],
        first_on(0),
        first_on(0),
    )
    log = play(policy, *scene(0.0, 0.3 * MS))
    lost = log.of("progress")[0]
    assert (lost.time_s, lost.reason, lost.share) == (pytest.approx(0.3 * MS), "lost", pytest.approx(0.3))
    kept = [r for r in log.of("progress") if r.request == 0 and r.reason is None]
    assert sum(r.share for r in kept) == pytest.approx(2.0)


def test_spilling_writes_the_line_buffers_and_resuming_reads_them_back():
    # 1 GB/s: 1e5 bytes take 0.1 ms to write after the band ends at 0.75 ms, and are read again.
    policy = Scripted(
        first_on(0, mode=Mode.FUSED),
        lambda view: [Preempt(view.running[0], How.SPILL)],
        lambda view: [Dispatch((view.ready[-1],), range(2), (view.idle[0],))],
        first_on(0, mode=Mode.FUSED),
    )
    log = play(policy, *scene(0.0, 0.3 * MS, steps=4, spill_bytes=1e5))
    first, *_, resumed = log.of("progress")
    assert first.time_s == pytest.approx(0.85 * MS)
    assert first.dram_bytes == pytest.approx(1e5)
    assert resumed.dram_bytes == pytest.approx(1e5)
    assert first.share + resumed.share == pytest.approx(1.0)


def test_dropping_a_running_request_takes_effect_at_its_next_safe_point():
    policy = Scripted(first_on(0), lambda view: [Drop(view.running[0].request, "no hope")], first_on(0))
    log = play(policy, *scene(0.0, 0.5 * MS))
    reply = log.of("reply")[0]
    assert (reply.request, reply.outcome, reply.reason) == (0, "dropped", "no hope")
    assert reply.time_s == pytest.approx(1 * MS)


def test_a_request_that_expires_unstarted_is_dropped_whatever_the_policy():
    device, tables, (one, two) = scene(0.0, 0.0)
    two.expires_s = 1 * MS
    log = play(make("fcfs"), device, tables, [one, two])
    reply = next(r for r in log.of("reply") if r.request == 1)
    assert (reply.outcome, reply.time_s) == ("dropped", pytest.approx(1 * MS))


def test_a_request_that_was_started_does_not_expire_even_if_all_its_work_was_lost():
    device, tables, (one,) = scene(0.0)
    one.expires_s = 0.5 * MS
    policy = Scripted(
        lambda view: [*first_on(0)(view), Wake(0.3 * MS)],
        lambda view: [Preempt(view.running[0], How.KILL)],
        lambda view: [Wake(0.8 * MS)],
        lambda view: [],
        first_on(0),
    )
    log = play(policy, device, tables, [one])
    lost = log.of("progress")[0]
    assert (lost.reason, lost.share) == ("lost", pytest.approx(0.3))
    assert [row.outcome for row in log.of("reply")] == ["done"]


def test_a_partial_split_run_is_resumed_by_a_longer_one():
    partial = Partial(2, 3, Mode.SPLIT, (), None, ("core", "core"), 0.5, 0.0)
    assert partial.resumed_by(2, 5, Mode.SPLIT, (), None, ("core", "core"))
    assert not partial.resumed_by(2, 5, Mode.SPLIT, (), None, ("core",))


def test_a_policy_cannot_change_what_it_sees():
    def change(view):
        with pytest.raises(AttributeError):
            view.ready.pop()
        with pytest.raises(AttributeError):
            view.idle.pop()
        with pytest.raises(AttributeError):
            view.running.append(None)
        return first_on(0)(view)

    assert len(play(Scripted(change), *scene(0.0)).of("reply")) == 1


def test_cancelling_a_waiting_request_answers_it_at_once():
    from headway.core.engine import Engine
    from headway.core.messages import Arrive, Reply
    from headway.cost.contention import MaxMinFair
    from headway.predict.analytic import AnalyticEstimator
    from headway.testing import Rows

    device, tables, (request,) = scene(0.0)
    rule = MaxMinFair(device.dram_bandwidth_bytes_s)
    engine = Engine(device, Scripted(), AnalyticEstimator(device, tables, rule), rule, Rows())
    engine.handle([Arrive(request)], 0.0)
    (reply,) = engine.handle([Cancel(request.id)], 1 * MS)
    assert isinstance(reply, Reply)
    assert reply.outcome == "cancelled"
    assert engine.handle([Tick()], 2 * MS) == []
    assert engine.handle([Cancel(request.id)], 3 * MS) == []  # it crossed the reply


def test_an_impossible_transition_tells_the_story_of_the_request():
    request = Request(7, "t", 0, "m", 0.0, 1.0, 2, 1.0)
    request.to(State.RUNNING, 0.5)
    request.to(State.DONE, 0.7)
    with pytest.raises(TransitionError, match=r"request 7 .*\n.*ready -> running\n.*running -> done"):
        request.to(State.READY, 0.8)


def test_outputs_kept_in_sram_save_the_next_run_on_that_core_their_read():
    # Two runs of one block each on core 0: the second finds 4e5 of its 1e6 bytes in SRAM.
    blocks = ((1 * MS, 1e6), (1 * MS, 1e6))
    policy = Scripted(first_on(0, range(1)), first_on(0, range(1, 2)))
    log = play(policy, *scene(0.0, blocks=blocks, cores=2, kept=4e5))
    assert [r.dram_bytes for r in log.of("progress")] == [pytest.approx(1e6), pytest.approx(6e5)]
    policy = Scripted(first_on(0, range(1)), first_on(1, range(1, 2)))
    log = play(policy, *scene(0.0, blocks=blocks, cores=2, kept=4e5))
    assert [r.dram_bytes for r in log.of("progress")] == [pytest.approx(1e6), pytest.approx(1e6)]
