"""SPLIT's queue, worked by hand."""

from lane_scene import ends, scene, starts

# Four blocks of 2 ms (1.2 on both lanes), and one block of 1 ms (0.6).
MODELS = {"long": {1: [2.0] * 4, 2: [1.2] * 4}, "short": {1: [1.0], 2: [0.6]}}
ALONE = {"long": {1: [2.0] * 4}, "short": {1: [1.0]}}


def test_an_arrival_with_little_work_overtakes_at_the_end_of_the_block():
    # Isolated 8 and 1. After its block the long one has 3.6 left, wide: 0.6 * 1 < 3.6 * 8, so it yields then.
    log = scene("split", [("long", 0, 99), ("short", 1, 99)], MODELS)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 1.2, "0+1", 0, 1), (0, 1.8, "0+1", 1, 4)]
    assert ends(log) == {1: 1.8, 0: 5.4}


def test_nothing_is_gained_by_overtaking_an_equal_or_one_that_is_nearly_done():
    log = scene("split", [("long", 0, 99), ("long", 0.5, 1), ("short", 7, 99)], ALONE, lanes=1)
    assert log.of("stop") == []
    # At 7 the first long one is in its last block: it has nothing left after it. The short one goes before
    # the second long one.
    assert starts(log) == [(0, 0.0, "0", 0, 4), (2, 8.0, "0", 0, 1), (1, 9.0, "0", 0, 4)]


def test_the_walk_stops_at_the_first_that_would_lose_more():
    models = ALONE | {"middle": {1: [3.0]}}
    log = scene(
        "split",
        [("long", 0, 99), ("middle", 0.1, 99), ("short", 0.2, 99), ("middle", 0.3, 99)],
        models,
        lanes=1,
    )
    # 1 * 1 < 3 * 3 < 6 * 8: short before middle before what is left of long; equals in order of arrival.
    assert [run[0] for run in starts(log)] == [0, 2, 1, 3, 0]
    assert ends(log) == {2: 3.0, 1: 6.0, 3: 9.0, 0: 15.0}


def test_a_preempted_request_keeps_its_place_before_later_arrivals():
    # The second long one arrives while the short one runs: the first has 6 * 8 left, less than 8 * 8.
    log = scene("split", [("long", 0, 99), ("short", 1, 99), ("long", 2.5, 99)], ALONE, lanes=1)
    assert [run[0] for run in starts(log)] == [0, 1, 0, 2]


def test_one_at_a_time():
    log = scene("split", [("short", 0, 99)] * 5, MODELS, lanes=2)
    assert [run[1:3] for run in starts(log)] == [(round(0.6 * at, 6), "0+1") for at in range(5)]
