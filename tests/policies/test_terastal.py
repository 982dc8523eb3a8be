"""Terastal's virtual deadlines, worked by hand."""

from core_scene import order, scene, starts


def test_layers_go_by_virtual_deadline():
    # Relative deadline 8 for both. Layers of 1 and 3 ms: virtual deadlines 2 and 8. Of 3 and 1 ms: 6 and 8.
    models = {"late": [3.0, 1.0], "early": [1.0, 3.0]}
    assert order(scene("terastal", [("late", 0, 8), ("early", 0, 8)], models)) == [1, 0, 0, 1]


def test_budgets_are_shares_of_the_mean_latency_over_all_cores():
    # Cores "a", "b": the first layer of "m" takes 1 and 3, mean 2, the second 1 and 3: both have half of 8
    # ms; so does each layer of "n". Of two with the same virtual deadline the first to arrive goes first.
    models = {"m": ([1.0, 1.0], {"scale": [1.0, 3.0]}), "n": ([1.0, 1.0], {"scale": [1.0, 1.2]})}
    log = scene("terastal", [("n", 0, 8), ("m", 0, 8)], models, kinds=["a", "b"])
    assert starts(log)[0] == (0, 0.0, "0", 0, 1)


MODELS = {"m": ([1.0], {"scale": [1.0, 1.4]}), "other": ([2.0], {"scale": [1.0, 1.4]})}


def test_a_layer_takes_another_core_if_it_keeps_its_virtual_deadline_there():
    log = scene("terastal", [("other", 0, 9), ("m", 0.5, 9)], MODELS, kinds=["a", "b"])
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 0.5, "1", 0, 1)]


def test_it_waits_for_its_preferred_core_if_only_that_keeps_it():
    # Due at 3.1, on "b" it would take until 1.8 + 1.4 = 3.2; "a" is free at 2, in time for a start by 2.1.
    log = scene("terastal", [("other", 0, 1), ("m", 1.8, 1.3)], MODELS, kinds=["a", "b"])
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 2.0, "0", 0, 1)]


def test_it_does_not_wait_for_what_comes_too_late():
    # Due at 1.5: "b" until 1.9, "a" from 2 on: lost anyway, and it runs at once.
    log = scene("terastal", [("other", 0, 1), ("m", 0.5, 1.0)], MODELS, kinds=["a", "b"])
    assert starts(log)[1] == (1, 0.5, "1", 0, 1)
