"""Decisions that take time: charged in virtual time, and measured beside the log."""

import pytest

from headway.core.decision_time import DecisionCharge, DecisionTimes
from headway.core.engine import Engine
from headway.core.messages import Arrive, Dispatch, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.run import How
from headway.cost.contention import MaxMinFair
from headway.policies import Policy, make
from headway.predict.analytic import AnalyticEstimator
from headway.testing import Rows, ToyTable, play, toy_device, toy_request

MS = 1e-3


def scene(count=1, *, cores=1, blocks=((1 * MS, 0.0), (1 * MS, 0.0))):
    device = toy_device(cores)
    tables = {"m": ToyTable(device, blocks)}
    return (
        device,
        tables,
        [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.0) for i in range(count)],
    )


def test_a_run_begins_later_by_what_its_decision_took_and_holds_its_core_meanwhile():
    log = play(make("fcfs"), *scene(2), charge=DecisionCharge(fixed_s=0.25 * MS))
    assert [row.time_s for row in log.of("start")] == [0.0, pytest.approx(2.25 * MS)]
    assert [row.time_s for row in log.of("reply")] == [pytest.approx(2.25 * MS), pytest.approx(4.5 * MS)]
    assert [row.expected_end_s for row in log.of("start")] == [row.time_s for row in log.of("reply")]
    # It is in the first stretch of each run, and in no other.
    spans = [row.time_s - row.start_s for row in log.of("progress")]
    assert spans == pytest.approx([1.25 * MS, 1 * MS, 1.25 * MS, 1 * MS])


def test_a_charge_grows_with_the_waiting_requests_and_the_idle_cores():
    assert DecisionCharge(3.0, 2.0, 0.5).seconds(10, 4) == 25.0
    charge = DecisionCharge(per_ready_s=0.1 * MS, per_idle_core_s=0.01 * MS)
    log = play(make("fcfs"), *scene(3, cores=2, blocks=[(1 * MS, 0.0)]), charge=charge)
    # Three wait for two idle cores; then one waits, and both cores are idle again.
    assert [row.time_s for row in log.of("reply")] == pytest.approx([1.32 * MS] * 2 + [2.44 * MS])


def test_no_work_is_done_while_a_decision_takes_its_time():
    class Hasty(Policy):
        needs = frozenset({Capability.PREEMPT})

        def decide(self, view):
            for request in view.ready:
                yield Dispatch((request,), range(request.next_block, request.blocks), view.device.cores)
            if view.now == 0.0:
                yield Wake(0.2 * MS)
            else:
                yield from (Preempt(run, How.KILL) for run in view.running if run.id == 0)

    log = play(Hasty(), *scene(), charge=DecisionCharge(fixed_s=0.5 * MS))
    lost = log.of("progress")[0]
    assert (lost.time_s, lost.share, lost.reason) == (pytest.approx(0.2 * MS), 0.0, "lost")
    assert log.of("reply")[0].time_s == pytest.approx(2.7 * MS)


def test_times_are_read_from_the_clock_that_is_given_and_leave_the_log_alone():
    def played(times):
        device, tables, requests = scene(2)
        rule, rows = MaxMinFair(device.dram_bandwidth_bytes_s), Rows()
        engine = Engine(
            device, make("fcfs"), AnalyticEstimator(device, tables, rule), rule, rows, decision_times=times
        )
        engine.handle([Arrive(request) for request in requests], 0.0)
        return rows

    ticks = iter([1.0, 1.5])
    times = DecisionTimes(lambda: next(ticks))
    assert played(times) == played(None)
    assert list(times.seconds) == [0.5]


def test_percentiles_of_decision_times_are_microseconds_by_nearest_rank():
    times = DecisionTimes(lambda: 0.0)
    assert times.microseconds() == {"count": 0, "p50": None, "p99": None, "max": None}
    times.seconds.extend(each * 1e-6 for each in range(200, 0, -1))
    assert times.microseconds() == {
        "count": 200,
        "p50": pytest.approx(100),
        "p99": pytest.approx(198),
        "max": pytest.approx(200),
    }
