"""Lucas's decisions, worked by hand on toy tables (1 GB/s; fused runs move half the bytes of the ends)."""

import pytest

from headway.policies import make
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3

MEMORY_BOUND = ([(1 * MS, 4e6)] * 4, {})  # 1 ms of compute and 4 ms of traffic per block
COMPUTE_BOUND = ([(1 * MS, 0.0)] * 4, {})


def scene(*requests, cores=1, kinds=None, **tables):
    """Requests as (model, arrival ms, relative deadline ms)."""
    device = toy_device(cores, kinds=kinds)
    made = {name: ToyTable(device, blocks, **more) for name, (blocks, more) in tables.items()}
    return (
        device,
        made,
        [
            toy_request(i, model, made, arrival_s=at * MS, deadline_s=(at + due) * MS)
            for i, (model, at, due) in enumerate(requests)
        ],
    )


def modes(log):
    return [row.mode for row in log.of("start")]


def test_memory_bound_layers_are_fused_on_one_core():
    # Serially 4 x 4 ms. Fused the range moves 4 MB: 4 ms of traffic over 4 ms of compute.
    log = play(make("lucas"), *scene(("m", 0, 100), m=MEMORY_BOUND))
    assert modes(log) == ["fused"]
    assert log.of("reply")[0].time_s == pytest.approx(4 * MS)


def test_layers_without_traffic_to_save_run_one_by_one():
    log = play(make("lucas"), *scene(("m", 0, 100), m=COMPUTE_BOUND))
    assert set(modes(log)) == {"serial"}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("lucas:lbl", {"serial"}), ("lucas:scf", {"serial", "fused"}), ("lucas:mcf", {"serial", "pipeline"})],
)
def test_the_ablations_use_only_their_modes(name, allowed):
    requests = [("m", at, due) for at, due in [(0, 5), (1, 60), (2, 9), (30, 6), (31, 90)]]
    log = play(make(name), *scene(*requests, cores=2, m=MEMORY_BOUND))
    assert set(modes(log)) <= allowed
    assert len(log.of("reply")) == len(requests)


def test_a_hurried_request_alone_on_two_cores_gets_both():
    # 4 ms of compute on one core, due in 3 ms: only the two-stage pipeline (2 ms) meets it.
    log = play(make("lucas"), *scene(("m", 0, 3), cores=2, m=COMPUTE_BOUND))
    assert set(modes(log)) == {"pipeline"}
    assert log.of("reply")[0].time_s == pytest.approx(2 * MS)


def test_an_unhurried_request_leaves_the_other_core_to_others():
    log = play(make("lucas"), *scene(("m", 0, 100), cores=2, m=COMPUTE_BOUND))
    assert "pipeline" not in modes(log)


def test_no_pipelines_while_more_requests_wait_than_cores_are_idle():
    requests = [("m", 0, 3)] * 3
    log = play(make("lucas"), *scene(*requests, cores=2, m=COMPUTE_BOUND))
    first = [row.mode for row in log.of("start") if row.time_s == 0.0]
    assert first == ["serial", "serial"]


def test_a_late_request_runs_only_behind_savable_ones():
    # Request 0 (due 1 ms, 4 ms long) cannot be saved; request 1 arrives at the same time and can.
    log = play(make("lucas:scf"), *scene(("m", 0, 1), ("m", 0, 9), m=COMPUTE_BOUND))
    assert [row.request for row in log.of("reply")] == [1, 0]
    assert all(row.outcome == "done" for row in log.of("reply"))


def test_a_slow_core_is_not_taken_while_waiting_for_the_fast_one_costs_nothing():
    # The second core takes three times as long: more core-time than the guard allows. With time to
    # spare the second request waits for the fast core.
    tables = {"m": ([(1 * MS, 0.0)], {"scale": [1.0, 3.0]})}
    log = play(make("lucas"), *scene(("m", 0, 50), ("m", 0, 50), cores=2, kinds=["a", "b"], **tables))
    assert [row.cores for row in log.of("start")] == ["0", "0"]


def test_a_slow_core_is_taken_when_waiting_for_the_fast_one_would_be_too_late():
    tables = {
        "long": ([(9 * MS, 0.0)], {"scale": [1.0, 3.0]}),
        "m": ([(1 * MS, 0.0)], {"scale": [1.0, 3.0]}),
    }
    log = play(make("lucas"), *scene(("long", 0, 50), ("m", 1, 4), cores=2, kinds=["a", "b"], **tables))
    starts = {row.request: row.cores for row in log.of("start")}
    assert starts == {0: "0", 1: "1"}
    assert log.of("reply")[0].time_s == pytest.approx(4 * MS)


def test_an_urgent_request_preempts_at_the_next_band():
    # The long block (10 ms in 10 bands) yields at its next band to a request due 2.4 ms after 0.5 ms.
    tables = {"long": ([(10 * MS, 0.0)], {"steps": 10}), "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas"), *scene(("long", 0, 90), ("short", 0.5, 2.4), **tables))
    replies = {row.request: row.time_s for row in log.of("reply")}
    assert replies[1] <= 2.9 * MS + 1e-9
    assert replies[0] == pytest.approx(11 * MS)  # nothing of the long block is lost
    assert [row.reason for row in log.of("stop")] == ["spill"]


def test_a_request_with_little_to_spare_is_not_preempted():
    tables = {"long": ([(10 * MS, 0.0)], {"steps": 10}), "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas"), *scene(("long", 0, 10.5), ("short", 0.5, 2.4), **tables))
    assert log.of("stop") == []
    assert log.of("reply")[0].request == 0


def test_a_request_that_waited_long_enough_goes_first_once():
    # Request 0 is late from the start (due 0.5 ms) and would wait behind an endless row of savable ones;
    # after ten times its isolated latency (1 ms) it runs.
    requests = [("m", 0, 0.5)] + [("m", at * 0.9, 6) for at in range(40)]
    log = play(make("lucas:scf"), *scene(*requests, m=([(1 * MS, 0.0)], {})))
    served = next(row for row in log.of("start") if row.request == 0)
    assert 10 * MS < served.time_s < 13 * MS


def test_weights_shorten_the_virtual_deadline():
    device, tables, (light, heavy) = scene(("m", 0, 20), ("m", 0, 24), m=COMPUTE_BOUND)
    heavy.weight = 2.0  # due at 24, but ahead in line like one due at 12
    log = play(make("lucas"), device, tables, [light, heavy])
    assert [row.request for row in log.of("reply")] == [1, 0]


def test_best_effort_waits_behind_those_with_an_sla():
    device, tables, (loose, strict) = scene(("m", 0, 10), ("m", 0, 90), m=COMPUTE_BOUND)
    loose.strict = False
    log = play(make("lucas"), device, tables, [loose, strict])
    assert [row.request for row in log.of("reply")] == [1, 0]


def test_a_request_that_is_dropped_in_the_same_answer_is_not_launched():
    # At 4 ms both cores come free. Request 2 (2 ms, due at 3.5 ms) is dropped then, request 3 launched, and
    # nothing is left for the other core.
    tables = {"long": ([(4 * MS, 0.0)], {}), "short": ([(2 * MS, 0.0)], {})}
    requests = [("long", 0, 90), ("long", 0, 90), ("short", 1, 2.5), ("short", 1, 90)]
    log = play(make("lucas:drop"), *scene(*requests, cores=2, **tables))
    outcomes = {row.request: row.outcome for row in log.of("reply")}
    assert outcomes == {0: "done", 1: "done", 2: "dropped", 3: "done"}
