"""PREMA's decisions, worked by hand. Levels are 1, 3 and 9, a token is level * (1 + waited / isolated)."""

from core_scene import ends, order, scene

MODELS = {"one": [1.0], "three": [3.0], "ten": ([10.0], {"steps": 10})}
HIGH, LOW = {"priority": 9}, {"priority": 1}


def test_only_those_with_the_threshold_are_candidates_even_if_others_are_shorter():
    # At 1 the core is free. Tokens: 1 * (1 + 0.9 / 1) = 1.9 and 9 * (1 + 0.9 / 3) = 11.7, threshold 9.
    log = scene("prema", [("one", 0, 99), ("one", 0.1, 99, LOW), ("three", 0.1, 99, HIGH)], MODELS)
    assert order(log) == [0, 2, 1]


def test_of_the_candidates_the_shortest_runs():
    log = scene("prema", [("one", 0, 99), ("three", 0.1, 99, HIGH), ("one", 0.2, 99, HIGH)], MODELS)
    assert order(log) == [0, 2, 1]


def test_waiting_makes_a_low_priority_a_candidate():
    # At 3 the core is free. Low: 1 * (1 + 2.9 / 1) = 3.9, middle: 3 * (1 + 0.5 / 3) = 3.5: both have
    # threshold 3, and the shorter one runs.
    requests = [("three", 0, 99), ("one", 0.1, 99, LOW), ("three", 2.5, 99, {"priority": 3})]
    assert order(scene("prema", requests, MODELS)) == [0, 1, 2]


def test_a_running_request_is_checkpointed_for_a_shorter_one():
    # At 1.5: the long one would lose 1 * 1 by it, the short one 8.5 * 10 by waiting, so it stops at its next
    # band's end, at 2, and has 8 ms left at 3.
    log = scene("prema", [("ten", 0, 99), ("one", 1.5, 99)], MODELS)
    assert ends(log) == {1: 3.0, 0: 11.0}


def test_a_running_request_that_is_nearly_done_drains():
    # At 0.1, 9 tokens against 1. The one running has 0.9 left: 3 * 3 > 0.9 * 1, so it finishes first.
    requests = [("one", 0, 99), ("three", 0.1, 99, HIGH)]
    assert scene("prema", requests, {**MODELS, "one": ([1.0], {"steps": 10})}).of("stop") == []
    # Checkpointed it stops at 0.2 (the next of ten bands).
    models = {**MODELS, "one": ([1.0], {"steps": 10})}
    assert ends(scene("prema:checkpoint", requests, models)) == {1: 3.2, 0: 4.0}


def test_as_many_are_picked_as_there_are_cores():
    requests = [("ten", 0, 99), ("ten", 0, 99), ("one", 1.5, 99)]
    log = scene("prema", requests, MODELS, cores=2)
    assert [row.request for row in log.of("stop")] == [1]


def test_one_on_a_slow_core_does_not_give_way_to_another_that_is_no_shorter():
    # The second runs on the slow core: 13 ms left there at 1, 10 on the fast one, which is what the third has
    # as well. Compared by the core that it is on it would lose to the third, and the third to it afterwards.
    models = {"ten": ([10.0], {"steps": 10, "scale": [1.0, 1.4]})}
    requests = [("ten", 0, 99), ("ten", 0, 99), ("ten", 1, 99)]
    log = scene("prema:checkpoint", requests, models, kinds=["fast", "slow"])
    assert log.of("stop") == []
    assert ends(log) == {0: 10.0, 1: 14.0, 2: 20.0}


def test_what_a_stopped_request_has_done_counts():
    # The long one is stopped at 3 for a shorter one and has 7 ms left at 4, fewer than the 8 of the third.
    models = {**MODELS, "eight": [8.0]}
    requests = [("ten", 0, 99), ("one", 2.5, 99), ("eight", 3.5, 99)]
    assert ends(scene("prema:checkpoint", requests, models)) == {1: 4.0, 0: 11.0, 2: 19.0}
