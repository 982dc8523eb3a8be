"""The RELMAS stand-in's schedules, worked by hand: cycles of 0.1 ms."""

from core_scene import order, scene, starts

MODELS = {"m": [1.0, 1.0]}


def test_the_least_slack_first():
    assert order(scene("relmas", [("m", 0, 99), ("m", 0, 5)], MODELS)) == [1, 1, 0, 0]


def test_who_arrives_within_a_cycle_waits_for_the_next_one():
    log = scene("relmas", [("m", 0, 99), ("m", 0.05, 5)], MODELS, cores=2)
    assert starts(log)[:2] == [(0, 0.0, "0", 0, 1), (1, 0.1, "1", 0, 1)]


def test_a_layer_goes_to_the_core_on_which_it_ends_first_even_if_that_is_busy():
    # On "b" it takes 4 ms, on "a" it could end at 1 + 1: nothing is planned for "b".
    models = {"m": ([1.0], {"scale": [1.0, 4.0]})}
    log = scene("relmas", [("m", 0, 99), ("m", 0, 99)], models, kinds=["a", "b"])
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 1.0, "0", 0, 1)]


def test_projected_bandwidth_counts():
    # The first wants all of the bandwidth for 2 ms. Beside it, with the fair share of a half, the second
    # would take 6 ms on the other core; after it, with all of it, it ends at 2 + 3.
    models = {"first": [(1.0, 2e6)], "second": [(1.0, 3e6)]}
    log = scene("relmas", [("first", 0, 9), ("second", 0, 99)], models, cores=2)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 2.0, "0", 0, 1)]
