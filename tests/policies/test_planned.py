"""Planned width on lanes, worked by hand: wide for who would be late, narrow otherwise."""

from lane_scene import ends, scene, starts

# Four blocks: 2 ms each on one lane, 1.2 ms each on two.
MODELS = {"m": {1: [2.0] * 4, 2: [1.2] * 4}, "short": {1: [1.0], 2: [0.6]}}


def planned(*requests: tuple, **options):
    return scene("edf:planned", requests, MODELS, **options)


def test_wide_alone():
    assert starts(planned(("m", 0, 99))) == [(0, 0.0, "0+1", 0, 4)]


def test_narrow_in_company_if_all_are_in_time_and_work_is_saved():
    # Two of 8 ms side by side take 8 ms, one after the other 9.6.
    log = planned(("m", 0, 98), ("m", 0, 99))
    assert starts(log) == [(0, 0.0, "0", 0, 4), (1, 0.0, "1", 0, 4)]


def test_wide_in_company_if_lanes_disturb_each_other_too_much():
    # Side by side they would take 8 + 0.5 * 8.
    log = planned(("m", 0, 98), ("m", 0, 99), w=0.5)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 4.8, "0+1", 0, 4)]


def test_wide_in_company_for_one_that_would_be_late_on_one_lane():
    log = planned(("m", 0, 6), ("m", 0, 99))
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 4.8, "0+1", 0, 4)]


def test_narrow_runs_make_way_for_a_wide_one():
    # The short one can begin at 2, when both blocks end: due at 2.9 it is in time on two lanes only.
    log = planned(("m", 0, 98), ("m", 0, 99), ("short", 1.0, 1.9))
    assert (2, 2.0, "0+1", 0, 1) in starts(log)
    assert ends(log)[2] == 2.6
    # Due at 4, one lane is enough, and the other one goes on.
    log = planned(("m", 0, 98), ("m", 0, 99), ("short", 1.0, 3.0))
    assert (2, 2.0, "1", 0, 1) in starts(log)
    assert ends(log) == {2: 3.0, 0: 8.0, 1: 9.0}


def test_what_cannot_be_in_time_even_wide_is_dropped():
    log = planned(("m", 0, 99), ("short", 0.1, 0.5), ("m", 0.1, 5.0))
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "done", 1: "dropped", 2: "dropped"}


def test_on_many_lanes_the_others_keep_those_that_a_wide_run_leaves():
    # Measured on one and two lanes; the first is due before 8 ms, so it takes two of the four.
    log = planned(("m", 0, 7), ("m", 0, 99), ("short", 0, 99), lanes=4)
    assert starts(log)[:3] == [(0, 0.0, "0+1", 0, 4), (1, 0.0, "2", 0, 4), (2, 0.0, "3", 0, 1)]


def test_on_many_lanes_few_requests_share_them_all():
    log = planned(("m", 0, 98), ("m", 0, 99), lanes=4)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (1, 0.0, "2+3", 0, 4)]


def test_one_lane_is_earliest_deadline_with_drops():
    log = planned(("m", 0, 99), ("short", 1, 4), ("m", 1, 6), lanes=1)
    assert {row.request: row.outcome for row in log.of("reply")} == {0: "done", 1: "done", 2: "dropped"}
    assert ends(log)[1] == 3.0


def test_what_a_slow_machine_cannot_save_is_dropped_until_it_may_be_fast_again():
    # Thirty runs take three times what they should; then 0.6 ms are not believed to fit into 0.9 ms, but a
    # minute later they are.
    slow = [("short", 10 * at, 99) for at in range(30)]
    tight = [("short", 300, 0.9), ("short", 60_300, 0.9)]
    log = planned(*slow, *tight, slowed=dict.fromkeys(range(30), 3.0))
    outcomes = {row.request: row.outcome for row in log.of("reply")}
    assert (outcomes[30], outcomes[31]) == ("dropped", "done")
    assert {row.outcome for row in planned(*slow, *tight).of("reply")} == {"done"}


def test_narrow_is_not_chosen_where_narrow_runs_turn_out_slow():
    # Pairs side by side take three times what they should; the last pair is due when on one lane it is
    # not believed to be done.
    pairs = [("m", 100 * (at // 2), 99) for at in range(40)]
    last = [("m", 2000, 12), ("m", 2000, 12)]
    slow = planned(*pairs, *last, slowed=dict.fromkeys(range(40), 3.0))
    assert [row.cores for row in slow.of("start") if row.request == 40] == ["0+1"]
    usual = planned(*pairs, *last)
    assert [row.cores for row in usual.of("start") if row.request == 40] == ["0"]
