"""List policies on lanes: narrow, wide and adaptive runs, worked by hand."""

from lane_scene import ends, scene, starts

# Four blocks: 2 ms each on one lane, 1.2 ms each on two.
MODELS = {"m": {1: [2.0] * 4, 2: [1.2] * 4}, "short": {1: [1.0], 2: [0.6]}}


def test_narrow_runs_take_a_lane_each_and_slow_each_other_down():
    # Together all the time, so 8 ms become 8 + 0.25 * 8.
    log = scene("fcfs", [("m", 0, 99), ("m", 0, 99), ("short", 0, 99)], MODELS, w=0.25)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 4), (2, 10.0, "0", 0, 1)]
    assert ends(log) == {0: 10.0, 1: 10.0, 2: 11.0}


def test_wide_runs_take_all_lanes_one_at_a_time():
    log = scene("fcfs:wide", [("m", 0, 99), ("short", 0, 99)], MODELS, w=0.25)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 4.8, "0+1", 0, 1)]
    assert {row.mode for row in log.of("start")} == {"split"}
    assert ends(log) == {0: 4.8, 1: 5.4}


def test_wide_edf_preempts_at_the_end_of_a_wide_block():
    log = scene("edf:wide", [("m", 0, 99), ("short", 1, 5)], MODELS)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 1.2, "0+1", 0, 1), (0, 1.8, "0+1", 1, 4)]
    assert ends(log) == {1: 1.8, 0: 5.4}


def test_a_wide_run_needs_a_measurement_of_its_width():
    # With three lanes and only one and two threads measured, wide runs take two.
    log = scene("fcfs:wide", [("m", 0, 99)], MODELS, lanes=3)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4)]
    assert starts(scene("fcfs:wide", [("m", 0, 99)], {"m": {1: [1.0]}})) == [(0, 0.0, "0", 0, 1)]


def test_adaptive_is_wide_alone_and_narrow_in_company():
    assert starts(scene("edf:adaptive", [("m", 0, 99)], MODELS)) == [(0, 0.0, "0+1", 0, 4)]
    log = scene("edf:adaptive", [("m", 0, 98), ("m", 0, 99)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 4)]


def test_adaptive_narrows_when_another_arrives_and_widens_when_it_is_gone():
    # Wide until the block ends at 1.2; then each on its lane. The short one ends at 2.2, the long one is in
    # its second block until 3.2, where it goes on wide: 2 blocks of 1.2.
    log = scene("edf:adaptive", [("m", 0, 50), ("short", 1, 99)], MODELS)
    assert starts(log) == [
        (0, 0.0, "0+1", 0, 4),
        (0, 1.2, "0", 1, 4),
        (1, 1.2, "1", 0, 1),
        (0, 3.2, "0+1", 2, 4),
    ]
    assert ends(log) == {1: 2.2, 0: 5.6}


def test_adaptive_does_not_stop_a_run_in_its_last_block():
    log = scene("edf:adaptive", [("short", 0, 50), ("short", 0.1, 99)], MODELS)
    assert log.of("stop") == []
    assert starts(log) == [(0, 0.0, "0+1", 0, 1), (1, 0.6, "0+1", 0, 1)]


def test_adaptive_stays_narrow_where_more_lanes_do_not_help():
    log = scene("laxity:adaptive", [("m", 0, 99)], {"m": {1: [1.0, 1.0], 2: [1.0, 1.1]}})
    assert starts(log) == [(0, 0.0, "0", 0, 2)]


def test_adaptive_shares_lanes_among_few():
    # Four lanes, two requests: two lanes each; measured on one and two.
    log = scene("edf:adaptive", [("m", 0, 98), ("m", 0, 99)], MODELS, lanes=4)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 0.0, "2+3", 0, 4)]


def test_laxity_drops_what_no_run_of_its_width_can_save():
    # 8 ms narrow, 4.8 wide, due at 6.
    outcomes = {
        name: scene(name, [("m", 0, 6)], MODELS).of("reply")[0].outcome
        for name in ("laxity", "laxity:wide", "laxity:adaptive")
    }
    assert outcomes == {"laxity": "dropped", "laxity:wide": "done", "laxity:adaptive": "done"}
