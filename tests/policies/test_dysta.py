"""Dysta's scores, worked by hand: left + 0.01 * (max(0, slack - left) + waiting / n)."""

from core_scene import order, scene


def test_a_little_of_the_slack_counts():
    # At 0, by 0.01: 2 + 0.01 * (98 + 0) = 2.98 against 2.5 + 0.01 * (0.5 + 0) = 2.505. `sjf` decides
    # otherwise.
    models = {"two": [2.0], "more": [2.5]}
    requests = [("two", 0, 100), ("more", 0, 3)]
    assert order(scene("dysta", requests, models)) == [1, 0]
    assert order(scene("sjf", requests, models)) == [0, 1]


def test_what_was_measured_scales_what_is_left():
    # The first takes twice what was expected. At 2 it has 3 layers left, 3 * 2 = 6, and the other 4.
    models = {"slow": [1.0] * 4, "four": [4.0]}
    requests = [("slow", 0, 100), ("four", 1, 99)]
    assert order(scene("dysta", requests, models, slowed={0: 2.0})) == [0, 1, 0, 0, 0]
    assert order(scene("dysta", requests, models)) == [0, 0, 0, 0, 1]


def test_waiting_raises_the_score_so_that_what_just_ran_goes_on():
    # At 1 both have 3 ms left and the same deadline; the first has waited 0 ms, the second 1.
    models = {"four": [1.0] * 4, "three": [3.0]}
    requests = [("four", 0, 100), ("three", 0, 100)]
    assert order(scene("dysta", [*requests], {**models, "three": [4.0]})) == [0, 0, 0, 0, 1]
    assert order(scene("dysta", requests, {**models, "four": [0.9, 1.0, 1.0, 1.0]}))[0] == 1
