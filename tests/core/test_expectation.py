"""What is believed of a run's end, and that estimates of resumed runs regard what is done."""

import pytest

from headway.core.block import Mode
from headway.core.engine import Engine
from headway.core.expectation import passed_points
from headway.core.messages import Arrive, Dispatch, Finish, Preempt, SafePoint, Wake
from headway.core.protocols import Capability
from headway.core.run import How
from headway.cost.contention import OverlapLoss
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.testing import Rows, ToyTable, play, toy_device, toy_request

MS = 1e-3


class Watch(Policy):
    """Runs each request to its end on core `id`, wakes every `step_s`, notes (now, end, block end)."""

    needs = frozenset(Capability)

    def __init__(self, step_s, stop_at_s=None):
        self.step_s, self.stop_at_s = step_s, stop_at_s
        self.seen = []
        self.estimates = []

    def decide(self, view):
        for request in view.ready:
            core = view.device.cores[request.id : request.id + 1]
            dispatch = Dispatch((request,), range(request.next_block, request.blocks), core)
            self.estimates.append(view.estimate([dispatch])[0])
            yield dispatch
        for run in view.running:
            self.seen.append((view.now, run.request.id, run.expected_end_s, run.block_end_s))
            if self.stop_at_s is not None and view.now >= self.stop_at_s:
                self.stop_at_s = None
                yield Preempt(run, How.SPILL)
        yield Wake(view.now + self.step_s)


def scene(*models, cores=1, steps=1):
    device = toy_device(cores)
    tables = {str(i): ToyTable(device, blocks, steps=steps) for i, blocks in enumerate(models)}
    return (
        device,
        tables,
        [toy_request(i, str(i), tables, arrival_s=0.0, deadline_s=1.0) for i in range(len(models))],
    )


def test_under_steady_sharing_the_first_belief_is_true_and_stays():
    # Two memory-bound runs at half speed from beginning to end: 2 ms per block instead of 1. The first to
    # start learns of the other at its first safe point.
    policy = Watch(0.7 * MS)
    log = play(policy, *scene([(0.0, 1e6)] * 3, [(0.0, 1e6)] * 3, cores=2))
    assert [row.time_s for row in log.of("reply")] == [pytest.approx(6 * MS)] * 2
    later = [end for now, run, end, _ in policy.seen if now > 2.1 * MS or (run == 1 and now > 0)]
    assert len(later) > 10
    assert later == [pytest.approx(6 * MS)] * len(later)


def test_a_belief_follows_co_runners_at_the_next_safe_point():
    policy = Watch(0.5 * MS)
    play(policy, *scene([(0.0, 1e6)] * 4, [(0.0, 1e6)], cores=2))
    # Both at half speed for 2 ms, then the first alone for its last three blocks: 5 ms. (Its safe point at
    # 2 ms comes before the other's end.)
    last = [end for now, run, end, _ in policy.seen if run == 0 and now > 3.1 * MS]
    assert last == [pytest.approx(5 * MS)] * len(last)


def test_noise_moves_the_rest_of_a_run_and_no_more():
    policy = Watch(0.1 * MS)
    play(policy, *scene([(1 * MS, 0.0)] * 3), noise={0: (1.5, 1.0, 1.0)})
    assert {round(end / MS, 6) for now, _, end, _ in policy.seen if now < 1.45 * MS} == {3.0}
    assert {round(end / MS, 6) for now, _, end, _ in policy.seen if now > 1.55 * MS} == {3.5}


def test_a_resumed_serial_run_is_expected_to_take_what_is_left():
    # 4 bands of 0.25 ms per block; stopped at 0.5 ms and resumed: half of block 0 and block 1 are left.
    policy = Watch(0.3 * MS, stop_at_s=0.3 * MS)
    log = play(policy, *scene([(1 * MS, 0.0), (2 * MS, 0.0)], steps=4))
    started = log.of("start")
    assert [row.time_s for row in started] == [0.0, pytest.approx(0.5 * MS)]
    assert [row.expected_end_s for row in started] == [pytest.approx(3 * MS)] * 2
    assert [estimate.mean_s for estimate in policy.estimates] == [
        pytest.approx(3 * MS),
        pytest.approx(2.5 * MS),
    ]


def test_a_fused_run_that_is_resumed_is_expected_to_read_its_line_buffers_back():
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1 * MS, 0.0)] * 2, steps=4, spill_bytes=1e6)}

    class Fused(Watch):
        def decide(self, view):
            for decision in super().decide(view):
                if isinstance(decision, Dispatch):
                    decision = Dispatch(decision.requests, decision.blocks, decision.cores, Mode.FUSED)
                    self.estimates.append(view.estimate([decision])[0])
                yield decision

    policy = Fused(0.3 * MS, stop_at_s=0.3 * MS)
    play(policy, device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)])
    resumed = policy.estimates[-1]
    assert resumed.dram_bytes == pytest.approx(1e6)
    assert resumed.mean_s == pytest.approx(1.5 * MS)


def point(run_id, block, end_s, *, stopped=False):
    return SafePoint(run_id, block, block + 1, end_s - MS, 0.0, 0.0, 0.0, 0.0, stopped=stopped, end_s=end_s)


def believed(calls):
    """What is believed of two runs after these calls' events, and the log."""
    rule, rows = OverlapLoss(0.25), Rows()
    device, tables, requests = scene([(MS, 0.0), (2 * MS, 0.0), (3 * MS, 0.0)], [(MS, 0.0)] * 3, cores=2)
    engine = Engine(device, Watch(1.0), AnalyticEstimator(device, tables, rule), rule, rows)
    engine.handle([Arrive(request) for request in requests], 0.0)
    for events in calls:
        engine.handle(events, 5 * MS)
    fields = ("rate", "busy_from_s", "block_end_s", "step_s", "expected_end_s", "next_block", "later_busy_s")
    return [[getattr(run, field) for field in fields] for run in engine.running.values()], rows


def test_safe_points_heard_together_make_the_same_belief_as_one_by_one():
    points = [point(0, 0, 1.2 * MS), point(1, 0, 1.3 * MS), point(1, 1, 2.5 * MS), point(0, 1, 3.7 * MS)]
    assert believed([points]) == believed([[each] for each in points])


def test_a_point_is_passed_only_if_nothing_but_going_on_lies_before_the_next_of_its_run():
    first, other, second = point(0, 0, MS), point(1, 0, MS), point(0, 1, 2 * MS)
    assert passed_points([first, other, second]) == {0}
    assert passed_points([first, Finish(1, other), second]) == set()
    assert passed_points([first, point(0, 1, 2 * MS, stopped=True)]) == set()
