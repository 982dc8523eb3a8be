"""K-EDF's decisions, worked by hand."""

from core_scene import ends, scene, starts

MODELS = {"long": [2.0] * 3, "short": [1.0]}


def test_the_k_earliest_deadlines_run_and_the_others_wait_beside_an_idle_core():
    # Half of two cores: k = 1. The request due at 50 runs alone, the one due at 100 after it.
    log = scene("kedf:half", [("long", 0, 100), ("long", 0, 50)], MODELS, cores=2)
    assert starts(log) == [(1, 0.0, "0", 0, 3), (0, 6.0, "0", 0, 3)]


def test_k_is_the_number_of_cores_unless_said_otherwise():
    log = scene("kedf", [("long", 0, 100), ("long", 0, 50), ("long", 0, 70)], MODELS, cores=2)
    assert starts(log) == [(1, 0.0, "0", 0, 3), (2, 0.0, "1", 0, 3), (0, 6.0, "0", 0, 3)]


def test_whoever_is_not_among_the_k_any_more_is_suspended_at_the_end_of_its_layer():
    # At 1 a request due at 3 arrives; the long one (2 ms per layer) stops at 2 and goes on at 3.
    log = scene("kedf", [("long", 0, 100), ("short", 1, 2)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 3), (1, 2.0, "0", 0, 1), (0, 3.0, "0", 1, 3)]
    assert ends(log) == {1: 3.0, 0: 7.0}


def test_a_layer_waits_for_the_core_that_suits_it_if_the_other_takes_more_than_one_and_a_half_times_as_long():
    # Core "a" is three times faster: 3 ms there, 9 on the other. Waiting until 3 loses no deadline.
    models = {"m": ([1.0] * 3, {"scale": [1.0, 3.0]})}
    log = scene("kedf", [("m", 0, 50), ("m", 0, 60)], models, kinds=["a", "b"])
    assert starts(log) == [(0, 0.0, "0", 0, 3), (1, 3.0, "0", 0, 3)]


def test_it_does_not_wait_for_a_better_core_if_that_costs_the_deadline():
    # Due at 5 with 3 ms of work: laxity 2, but the better core is taken until 9.
    models = {"m": ([1.0] * 3, {"scale": [1.0, 1.6]}), "big": ([9.0], {"scale": [1.0, 1.6]})}
    log = scene("kedf", [("big", 0, 1), ("m", 0, 5)], models, kinds=["a", "b"])
    assert starts(log)[:2] == [(0, 0.0, "0", 0, 1), (1, 0.0, "1", 0, 1)]
