"""Several requests in one run: what the engine accepts, and what becomes of each of them."""

import pytest

from headway.core.checks import BadDecision
from headway.core.engine import Engine
from headway.core.messages import Adjust, Arrive, Cancel, Dispatch, Drop, Failed, Preempt, Reply, Start, Stop
from headway.core.protocols import Capability
from headway.core.run import How
from headway.cost import OverlapLoss
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.testing import Rows, play, toy_lane_table, toy_lanes, toy_request

MS = 1e-3
BLOCKS = {1: [1 * MS, 2 * MS], 2: [0.8 * MS, 1.2 * MS]}
FACTORS = {2: 1.5, 4: 2.0}


class Batching(Policy):
    """Answers the n-th call of decide with the n-th function of a list, the rest with nothing."""

    needs = frozenset({Capability.PREEMPT, Capability.SPLIT, Capability.REALLOCATE, Capability.BATCH})

    def __init__(self, *answers):
        self.answers = list(answers)

    def decide(self, view):
        return self.answers.pop(0)(view) if self.answers else []


class Undeclared(Batching):
    needs = frozenset()


def together(*positions, lane=0, end=None):
    """Starts the waiting requests at these positions as one run."""

    def answer(view):
        requests = tuple(view.ready[at] for at in positions)
        first = requests[0]
        return [
            Dispatch(
                requests, range(first.next_block, end or first.blocks), view.device.cores[lane : lane + 1]
            )
        ]

    return answer


def all_together(view):
    return together(*range(len(view.ready)))(view) if view.ready else []


def scene(count, *, models=("m",), most_batch=4, lanes=2, arrivals=None):
    device = toy_lanes(lanes)
    tables = {name: toy_lane_table(device, BLOCKS, batches=FACTORS, name=name) for name in models}
    requests = [
        toy_request(
            at,
            models[at % len(models)],
            tables,
            arrival_s=arrivals[at] if arrivals else 0.0,
            deadline_s=1.0,
            most_batch=most_batch,
        )
        for at in range(count)
    ]
    return device, tables, requests


def simulated(policy, count, **more):
    noise = more.pop("noise", None)
    return play(policy, *scene(count, **more), contention=OverlapLoss(0.0), noise=noise)


def test_a_batch_is_one_run_with_a_reply_for_each():
    log = simulated(Batching(all_together), 4)
    assert {row.run for row in log.of("start")} == {0}
    assert [row.request for row in log.of("start")] == [0, 1, 2, 3]
    assert [row.time_s for row in log.of("reply")] == pytest.approx([6 * MS] * 4)
    assert len(log.of("progress")) == 2  # the work of all of them is told once
    assert {row.outcome for row in log.of("reply")} == {"done"}


def test_a_batch_between_two_that_were_measured_takes_what_lies_between():
    log = simulated(Batching(all_together), 3)
    assert log.of("reply")[0].time_s == pytest.approx(3 * MS * 1.75)
    assert log.of("start")[0].expected_end_s == pytest.approx(3 * MS * 1.75)


def test_the_noise_of_a_batch_is_the_mean_of_its_requests():
    log = simulated(Batching(all_together), 2, noise={0: (1.0, 1.0), 1: (1.2, 2.0)})
    assert [row.time_s for row in log.of("progress")] == pytest.approx([1.65 * MS, (1.65 + 4.5) * MS])


@pytest.mark.parametrize(
    ("answer", "more", "cause"),
    [
        (together(0, 0), {}, "one of them twice"),
        (together(0, 1), {"models": ("m", "n")}, "stands at block 0 of n"),
        (together(0, 1, 2), {"most_batch": 2}, "at most 2"),
        (together(0, 1, 2, 3, 4), {"most_batch": 9}, "from 1 to 4"),
        (lambda view: [Dispatch((), range(1), view.device.cores[:1])], {}, "no request"),
        (
            lambda view: [*together(0)(view), *together(0, 1, lane=1)(view)],
            {},
            "request 0 is running, not ready",
        ),
    ],
)
def test_what_is_no_batch_is_refused(answer, more, cause):
    with pytest.raises(BadDecision, match=cause):
        simulated(Batching(answer), 5, **more)


def test_a_policy_that_does_not_declare_batches_may_not_make_them():
    with pytest.raises(BadDecision, match="without declaring that it needs 'batch'"):
        simulated(Undeclared(together(0, 1)), 2)


def test_requests_that_stand_at_different_blocks_do_not_run_together():
    policy = Batching(together(0, end=1), together(0, 1))
    with pytest.raises(BadDecision, match="stands at block 0 of m; accepted: block 1"):
        simulated(policy, 2)


def test_a_batch_does_not_move_to_other_cores():
    def move(view):
        return [Adjust(view.running[0], view.device.cores[1:])]

    with pytest.raises(BadDecision, match="a batch of 2"):
        simulated(Batching(together(0, 1), move), 3, arrivals=[0.0, 0.0, 0.5 * MS])


def test_a_batch_that_is_stopped_leaves_each_where_it_got_to_and_they_may_part_ways():
    def drain(view):
        return [Preempt(view.running[0], How.DRAIN)]

    def one_a_lane(view):
        return [*together(0)(view), *together(1, lane=1)(view)]

    policy = Batching(together(0, 1), drain, one_a_lane, all_together)
    log = simulated(policy, 3, arrivals=[0.0, 0.0, 0.5 * MS])
    assert [(row.request, row.reason) for row in log.of("stop")] == [(0, "drain"), (1, "drain")]
    goes_on = [(row.request, row.first_block) for row in log.of("start")][2:4]
    assert goes_on == [(0, 1), (1, 1)]
    assert [row.time_s for row in log.of("reply")][:2] == pytest.approx([3.5 * MS, 3.5 * MS])


class Later(Batching):
    """Requests that began come first."""

    def key(self, request, view):
        return (-request.next_block, request.id)


def test_who_stopped_at_the_same_block_apart_may_go_on_together():
    log = simulated(Later(together(0, end=1), together(1, end=1), all_together), 2)
    assert [(row.request, row.first_block, row.run) for row in log.of("start")] == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 2),
        (1, 1, 2),
    ]
    assert [row.time_s for row in log.of("reply")] == pytest.approx([5 * MS, 5 * MS])


class World:
    """An engine with requests that run as one batch, whose events are given by hand."""

    def __init__(self, count, *later):
        device, tables, self.requests = scene(count)
        self.rows = Rows()
        rule = OverlapLoss(0.0)
        self.engine = Engine(
            device, Batching(all_together, *later), AnalyticEstimator(device, tables, rule), rule, self.rows
        )
        (start,) = self.handle([Arrive(request) for request in self.requests], 0.0, Start)
        self.run = start.run

    def handle(self, events, now, kind):
        return [command for command in self.engine.handle(events, now) if isinstance(command, kind)]


def test_a_member_that_is_cancelled_is_answered_at_once_and_the_others_go_on():
    world = World(3)
    (reply,) = world.handle([Cancel(1)], 0.5 * MS, Reply)
    assert (reply.request.id, reply.outcome) == (1, "cancelled")
    assert [request.id for request in world.run.requests] == [0, 2]
    assert world.run.batch == 3
    assert world.engine.running.of(reply.request) is None


def test_the_run_stops_when_no_member_is_left():
    world = World(2)
    world.handle([Cancel(0)], 0.1 * MS, Stop)
    (stop,) = world.handle([Cancel(1)], 0.2 * MS, Stop)
    assert stop.run is world.run
    assert 1 in world.engine.requests  # the last one is answered at the safe point, as one alone would be


def test_a_member_may_be_dropped_by_the_policy():
    def drop(view):
        return [Drop(view.running[0].request, "no use")]

    world = World(2, drop)
    (reply,) = world.handle([Arrive(scene(4)[2][3])], 0.5 * MS, Reply)
    assert (reply.request.id, reply.outcome, reply.reason) == (0, "dropped", "no use")


def test_a_failed_batch_is_run_once_more_one_by_one_from_the_start():
    def one_by_one(view):
        return together(0)(view)

    world = World(2, one_by_one)
    commands = world.engine.handle([Failed(world.run.id, "boom")], 1 * MS)
    assert not [command for command in commands if isinstance(command, Reply)]
    (start,) = [command for command in commands if isinstance(command, Start)]
    assert [request.id for request in start.run.requests] == [0]
    assert all(request.most_batch == 1 and request.next_block == 0 for request in world.requests)
    (reply,) = world.handle([Failed(start.run.id, "boom again")], 2 * MS, Reply)
    assert (reply.request.id, reply.outcome, reply.reason) == (0, "failed", "boom again")


def test_after_a_failure_nobody_batches_them_again():
    world = World(2, all_together)
    with pytest.raises(BadDecision, match="at most 1"):
        world.engine.handle([Failed(world.run.id, "boom")], 1 * MS)


def test_a_member_that_was_given_up_before_the_failure_stays_given_up():
    world = World(3, lambda view: [], lambda view: [])
    world.handle([Cancel(2)], 0.5 * MS, Reply)
    world.handle([Failed(world.run.id, "boom")], 1 * MS, Reply)
    assert sorted(world.engine.requests) == [0, 1]
