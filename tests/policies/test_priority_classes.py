"""Orion's and REEF's rules for a high-priority class, worked by hand."""

import pytest
from lane_scene import ends, scene, starts

from headway.core.request import Request
from headway.policies.classes import TopClass

BE = {"tenant": "be", "strict": False}
# Two high-priority models, and best effort in blocks of 0.5, 1 and 3 ms.
MODELS = {
    "hp": {1: [2.0, 2.0]},
    "hp40": {1: [20.0, 20.0]},
    "small": {1: [0.5] * 4},
    "be": {1: [1.0] * 4},
    "big": {1: [3.0] * 2},
}


def request(strict, priority):
    return Request(0, "t", 0, "m", 0.0, 1.0, 1, 1.0, strict=strict, priority=priority)


def test_high_priority_is_the_highest_class_and_priority_seen():
    classes = TopClass()
    low, middle, high = request(False, 9), request(True, 0), request(True, 2)
    classes.see([low])
    assert classes.high(low)
    classes.see([middle])
    assert (classes.high(low), classes.high(middle)) == (False, True)
    classes.see([high])
    assert [classes.high(each) for each in (low, middle, high)] == [False, False, True]


# --- Orion -----------------------------------------------------------------------------------------


def test_orion_ends_a_best_effort_run_with_the_block_that_passes_the_limit():
    # 2.5 % of 40 ms is 1 ms. Of 0.5 ms blocks the third passes it (0 and 0.5 and 1.0 do not): three blocks,
    # and at its end nothing is outstanding any more.
    log = scene("orion", [("hp40", 0, 99), ("small", 0, 99, BE)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 2), (1, 0.0, "1", 0, 3), (1, 1.5, "1", 3, 4)]


def test_orion_starts_no_best_effort_while_too_much_is_outstanding_beside_high_priority():
    # Three lanes. The first best-effort run (2 blocks, 2 ms) passes 1 ms, so the third lane stays idle.
    requests = [("hp40", 0, 99), ("be", 0, 99, BE), ("be", 0, 99, BE | {"tenant": "be2"})]
    log = scene("orion", requests, MODELS, lanes=3)
    assert starts(log)[:3] == [(0, 0.0, "0", 0, 2), (1, 0.0, "1", 0, 2), (2, 2.0, "1", 0, 2)]


def test_orion_uses_every_core_for_best_effort_once_high_priority_is_idle():
    # hp ends at 4 ms (limit 0.1 ms: one block at a time); then both lanes work, and tenants take turns.
    requests = [("hp", 0, 99), ("be", 0, 99, BE), ("be", 0, 99, BE | {"tenant": "be2"})]
    log = scene("orion", requests, MODELS)
    assert [run[:3] for run in starts(log)] == [
        (0, 0.0, "0"),
        (1, 0.0, "1"),
        (2, 1.0, "1"),
        (1, 2.0, "1"),
        (2, 3.0, "1"),
        (1, 4.0, "0"),
        (2, 4.0, "1"),
        (1, 5.0, "0"),
        (2, 5.0, "1"),
    ]


def test_orion_lets_high_priority_wait_for_no_more_than_a_best_effort_block():
    # When the second one arrives, at 8, both lanes hold a block of 3 ms; it takes the first that is free.
    requests = [
        ("hp", 0, 99),
        ("big", 0.1, 99, BE),
        ("big", 0.1, 99, BE),
        ("big", 0.1, 99, BE),
        ("hp", 8, 99),
    ]
    log = scene("orion", requests, MODELS)
    (started,) = [run[1] for run in starts(log) if run[0] == 4]
    assert started - 8 <= 3.0
    assert ends(log)[4] == started + 4.0


# --- REEF ------------------------------------------------------------------------------------------


def test_reef_pads_with_blocks_that_end_no_later_than_the_real_time_block():
    # Blocks of 2 ms real time: two of 1 ms fit beside each.
    log = scene("reef", [("hp", 0, 99), ("be", 0, 99, BE)], MODELS)
    assert starts(log) == [
        (0, 0.0, "0", 0, 1),
        (1, 0.0, "1", 0, 1),
        (1, 1.0, "1", 1, 2),
        (0, 2.0, "0", 1, 2),
        (1, 2.0, "1", 2, 3),
        (1, 3.0, "1", 3, 4),
    ]


def test_reef_does_not_pad_with_a_longer_block():
    # 3 ms do not fit into 2, so best effort waits until real time is over at 4.
    log = scene("reef", [("hp", 0, 99), ("big", 0, 99, BE)], MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (0, 2.0, "0", 1, 2), (1, 4.0, "0", 0, 2)]


def test_reef_stops_best_effort_at_its_blocks_end_when_real_time_arrives():
    # From 4 on best effort holds both lanes, in blocks of 3 ms; real time arrives at 5 and starts at 7.
    requests = [("hp", 0, 99), ("big", 0.1, 99, BE), ("big", 0.1, 99, BE), ("hp", 5, 99)]
    log = scene("reef", requests, MODELS)
    assert starts(log)[:4] == [
        (0, 0.0, "0", 0, 1),
        (0, 2.0, "0", 1, 2),
        (1, 4.0, "0", 0, 2),
        (2, 4.0, "1", 0, 2),
    ]
    assert [(row.request, pytest.approx(row.time_s)) for row in log.of("stop")] == [(1, 7e-3), (2, 7e-3)]
    assert ends(log)[3] == 11.0
    # Neither block of 3 ms fits beside one of 2: best effort goes on when real time is done.
    assert [run[:2] for run in starts(log)[6:]] == [(1, 11.0), (2, 11.0)]


@pytest.mark.parametrize("name", ["orion", "reef"])
def test_tenants_that_are_all_alike_are_served_in_order_of_arrival(name):
    log = scene(name, [("be", 0, 99), ("hp", 0.1, 99), ("small", 0.2, 99)], MODELS, lanes=1)
    first = {}
    for run in starts(log):
        first.setdefault(run[0], run[1])
    assert sorted(first, key=first.get) == [0, 1, 2]
