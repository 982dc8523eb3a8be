"""Herald's assignments, worked by hand. Energy is the same on both cores unless said otherwise."""

from core_scene import scene, starts

KINDS = ["a", "b"]


def model(scale):
    return {"m": ([(1.0, 1e3)], {"scale": [1.0, scale]})}


def test_a_layer_moves_to_the_least_loaded_core_if_it_costs_less_than_twice_as_much_there():
    log = scene("herald", [("m", 0, 99), ("m", 0, 99)], model(1.5), kinds=KINDS)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 0.0, "1", 0, 1)]


def test_it_waits_for_the_best_core_if_it_costs_twice_as_much_elsewhere():
    log = scene("herald", [("m", 0, 99), ("m", 0, 99)], model(2.0), kinds=KINDS)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 1.0, "0", 0, 1)]


def test_those_that_wait_for_a_core_are_load_on_it():
    # On "b" 1.5 ms each: the second goes there (load 1 against 0), the third back to "a" (1 against 1.5).
    log = scene("herald", [("m", 0, 99)] * 3, model(1.5), kinds=KINDS)
    assert starts(log)[2] == (2, 1.0, "0", 0, 1)


def test_breadth_first_takes_the_request_with_the_fewest_layers_done():
    models = {"m": [1.0, 1.0]}
    requests = [("m", 0, 99), ("m", 0.5, 99)]
    assert [run[0] for run in starts(scene("herald", requests, models))] == [0, 0, 1, 1]
    assert [run[0] for run in starts(scene("herald:breadth", requests, models))] == [0, 1, 0, 1]


def test_the_metric_is_energy_times_latency_or_latency_alone():
    # 1.5 ms at 1 pJ and 1 ms at 3 pJ: the slower core has the lesser product.
    models = {"m": ([1.0], {"scale": [1.5, 1.0], "energy_pj": [1.0, 3.0]})}
    assert starts(scene("herald", [("m", 0, 99)], models, kinds=KINDS)) == [(0, 0.0, "0", 0, 1)]
    assert starts(scene("herald:latency", [("m", 0, 99)], models, kinds=KINDS)) == [(0, 0.0, "1", 0, 1)]
