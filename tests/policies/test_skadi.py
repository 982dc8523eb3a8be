"""SKADI's rounds, worked by hand on lanes that do not disturb each other."""

from lane_scene import scene, starts

# Blocks of 10 ms, of 20 in "slow"; 5 ms is the threshold.
MODELS = {
    "a": {1: [10.0] * 4},
    "b": {1: [10.0] * 16},
    "long": {1: [10.0] * 32},
    "slow": {1: [20.0] * 8},
    "other": {1: [50.0]},
}
A, B, C = ({"tenant": name} for name in "abc")


def test_two_whole_queries_if_both_fit_and_never_three():
    log = scene("skadi", [("a", 0, 200, A), ("b", 0, 300, B), ("a", 0, 999, C)], MODELS, lanes=3)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 16), (2, 160.0, "0", 0, 4)]


def test_the_second_is_cut_by_bisection():
    # 160 are too many for 64; 8 blocks take 80, 4 leave 24 to spare, 6 leave 4: good enough.
    log = scene("skadi", [("a", 0, 64, A), ("b", 0, 999, B)], MODELS)
    assert starts(log)[:2] == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 6)]


def test_three_probes_and_no_more():
    # 16 and 8 blocks are too many, 4 fit into 68; so would 6, but nobody asks any more. Abacus does.
    requests = [("a", 0, 68, A), ("long", 0, 999, B)]
    assert starts(scene("skadi", requests, MODELS))[1] == (1, 0.0, "1", 0, 4)
    assert starts(scene("abacus", requests, MODELS))[1] == (1, 0.0, "1", 0, 6)


def test_the_round_in_flight_counts_for_whether_they_fit_but_not_for_the_cut():
    # At 10 the round in flight takes 40 more. "a" has 90 until its deadline, so that 50 are left: enough for
    # it, not for 160 of "slow". The cut is looked for within 90: 4 blocks take 80, 6 take 120, 5 take 100.
    # (Within 50 it would be 2.)
    log = scene("skadi", [("other", 0, 999, C), ("a", 10, 90, A), ("slow", 10, 999, B)], MODELS)
    assert starts(log)[:3] == [(0, 0.0, "0", 0, 1), (1, 50.0, "0", 0, 4), (2, 50.0, "1", 0, 4)]


def test_whoever_does_not_fit_alone_or_is_late_is_dropped():
    log = scene("skadi", [("a", 0, 39, A), ("b", 0, 300, B), ("a", 1, 10, C)], MODELS)
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "dropped", 1: "done", 2: "dropped"}
