"""Abacus's rounds, worked by hand on lanes that do not disturb each other: a round takes as long as its
longest piece."""

from collections import Counter

from lane_scene import ends, scene, starts

# Blocks of 10 ms; 5 ms is the threshold.
MODELS = {"a": {1: [10.0] * 4}, "b": {1: [10.0] * 6}, "c": {1: [10.0] * 3}, "short": {1: [1.0]}}
A, B, C = ({"tenant": name} for name in "abc")


def test_whole_queries_while_they_fit():
    log = scene("abacus", [("a", 0, 99, A), ("b", 0, 999, B), ("c", 0, 999, C)], MODELS, lanes=3)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 6), (2, 0.0, "2", 0, 3)]


def test_the_next_query_is_cut_so_that_the_round_ends_just_before_the_deadline():
    # 40 alone, 60 with all of b: too much for 50. 1, 3 and 4 blocks of it fit, with 10 to spare; then 5 leave
    # nothing to spare. The last block of b is a round of its own, after the barrier.
    log = scene("abacus", [("a", 0, 50, A), ("b", 0, 999, B)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 5), (1, 50.0, "0", 5, 6)]


def test_whoever_does_not_fit_alone_is_dropped():
    log = scene("abacus", [("a", 0, 39, A), ("b", 0, 999, B)], MODELS)
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "dropped", 1: "done"}


def test_the_round_in_flight_counts():
    # At 10 there are 75 left until the deadline, of which the round that runs takes 30: enough for 40. 5 ms
    # less, and it is dropped at once.
    for due, outcome in ((75, "done"), (69, "dropped")):
        log = scene("abacus", [("a", 0, 99, A), ("a", 10, due, B)], MODELS)
        reply = next(row for row in log.of("reply") if row.request == 1)
        assert (reply.outcome, reply.time_s < 0.011) == (outcome, outcome == "dropped")


def test_a_planned_round_waits_for_the_barrier_and_for_nobody_else():
    # The rest of b was planned at 0 for 50: the short one, at 5, has lane 0 idle from 40 on and waits for 60.
    log = scene("abacus", [("a", 0, 50, A), ("b", 0, 999, B), ("short", 5, 99, C)], MODELS)
    assert ends(log) == {0: 40.0, 1: 60.0, 2: 61.0}


def test_one_query_of_a_tenant_at_a_time():
    log = scene("abacus", [("a", 0, 999, A)] * 3, MODELS)
    assert Counter(row.time_s for row in log.of("start")).most_common(1)[0][1] == 1


def test_a_query_that_expired_is_not_waited_for():
    # The second query was planned for 40 and is gone by then.
    requests = [("a", 0, 99, A), ("b", 1, 999, B | {"expires_s": 0.02}), ("c", 2, 999, C)]
    log = scene("abacus", requests, MODELS)
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "done", 1: "dropped", 2: "done"}
    assert ends(log)[2] == 70.0
