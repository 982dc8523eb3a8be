"""DREAM's scores, drops and weights, worked by hand."""

import pytest
from core_scene import order, outcomes, scene

from headway.policies.dream import Dream
from headway.policies.dream_weights import WINDOW, Weights

MODELS = {"two": [2.0], "one": [1.0], "six": [6.0]}


def test_urgency_is_what_is_left_over_the_slack():
    # One core, nobody waited: both preferences are 1. Urgencies 2 / 50 and 2 / 4; `fcfs` has the other order.
    requests = [("two", 0, 50), ("two", 0, 4)]
    assert order(scene("dream:mapscore", requests, MODELS)) == [1, 0]


def test_starvation_counts_in_latencies_of_the_next_layer():
    # At 2: waited 2 / 2 = 1 and 1.5 / 1 = 1.5, by alpha 1; urgencies 2 / 48 and 1 / 48 weigh less.
    requests = [("two", 0, 2), ("two", 0, 50), ("one", 0.5, 49.5)]
    assert order(scene("dream:mapscore", requests, MODELS)) == [0, 2, 1]


def test_a_core_is_preferred_by_how_much_faster_it_is():
    # "m" is three times as fast on "a", "n" as fast on both: the pair (m, a) has 4 / 1, (n, any) 2, with
    # urgencies below 1 / 10; so "m" gets "a" though "n" came first.
    models = {"m": ([1.0], {"scale": [1.0, 3.0]}), "n": ([1.0], {"scale": [1.0, 1.0]})}
    log = scene("dream:mapscore", [("n", 0, 99), ("m", 0, 99)], models, kinds=["a", "b"])
    assert {row.request: row.cores for row in log.of("start")} == {0: "1", 1: "0"}


def test_a_hopeless_frame_is_dropped_while_others_wait_and_its_tenant_has_drops_left():
    # With a fifth, four replies allow one drop in five. At 4 two are hopeless (6 ms, due at 9 and at 8): the
    # longest goes, of equals the first; the other runs.
    done = [("one", at, 9) for at in range(4)]
    requests = [*done, ("six", 3.5, 5.5), ("six", 3.6, 4.4)]
    assert outcomes(scene(Dream(most_dropped=0.2), requests, MODELS))[4] == "dropped"
    assert outcomes(scene(Dream(most_dropped=0.2), requests, MODELS))[5] == "done"
    assert set(outcomes(scene("dream:mapscore", requests, MODELS)).values()) == {"done"}
    # Three replies do not: 1 <= 0.2 * (3 + 1) is false.
    assert set(outcomes(scene(Dream(most_dropped=0.2), requests[1:], MODELS)).values()) == {"done"}
    # By default, half of them, one does: 1 <= 0.5 * (1 + 1).
    assert outcomes(scene("dream", requests[3:], MODELS))[4 - 3] == "dropped"


def replies(weights, violations):
    for at in range(WINDOW):
        weights.reply("m", violated=at < violations)


def test_a_change_of_weights_stays_if_ux_cost_falls_and_is_taken_back_if_not():
    weights = Weights()
    weights._energy_pj = {"m": [1.0, 2.0]}
    weights._replies = {"m": [4, 1], "n": [4, 0]}
    # 1 / 4 + 0.5 / 4 (no violation counts as half a one), times 1 / 2.
    assert weights.ux_cost() == pytest.approx(0.375 * 0.5)

    class Spends(Weights):
        def ux_cost(self):
            return float(sum(bad for _, bad in self._replies.values()))

    weights = Spends()
    replies(weights, 10)
    assert (weights.alpha, weights.beta) == (1.25, 1.0)  # a probe
    replies(weights, 5)
    assert (weights.alpha, weights.beta) == (1.25, 1.0)  # it helped
    replies(weights, 5)
    assert (weights.alpha, weights.beta) == (1.5, 1.0)  # once more that way
    replies(weights, 7)
    assert (weights.alpha, weights.beta) == (1.25, 1.0)  # it did not help
    replies(weights, 5)
    assert (weights.alpha, weights.beta) == (1.0, 1.0)  # the other way
    replies(weights, 5)
    replies(weights, 5)
    assert (weights.alpha, weights.beta) == (1.25, 1.25)  # then the other weight


def test_weights_stay_in_their_range():
    weights = Weights()
    for _ in range(40):
        replies(weights, 1)
        assert 0.0 <= weights.alpha <= 2.0
        assert 0.0 <= weights.beta <= 2.0
    assert isinstance(Dream().needs, frozenset)
