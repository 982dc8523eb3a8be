"""XRBench's greedy schedulers, worked by hand."""

from core_scene import outcomes, scene, starts


def test_a_whole_model_goes_to_the_best_idle_core():
    models = {"m": ([1.0, 1.0], {"scale": [3.0, 1.0]})}
    log = scene("xrbench", [("m", 0, 99), ("m", 0, 99)], models, kinds=["a", "b"])
    assert starts(log) == [(0, 0.0, "1", 0, 2), (1, 0.0, "0", 0, 2)]


def test_what_has_not_started_by_its_deadline_is_dropped_and_what_has_runs_on():
    log = scene("xrbench", [("m", 0, 3), ("m", 0, 4), ("m", 0, 6)], {"m": [5.0]})
    assert outcomes(log) == {0: "done", 1: "dropped", 2: "done"}


def test_the_metric_may_be_energy_times_latency():
    # 2 ms at 1 pJ and 1 ms at 3 pJ: the slower core has the lesser product.
    models = {"m": ([1.0], {"scale": [2.0, 1.0], "energy_pj": [1.0, 3.0]})}
    assert starts(scene("xrbench:edp", [("m", 0, 99)], models, kinds=["a", "b"])) == [(0, 0.0, "0", 0, 1)]
    assert starts(scene("xrbench", [("m", 0, 99)], models, kinds=["a", "b"])) == [(0, 0.0, "1", 0, 1)]
