"""Decisions of the list policies, worked by hand."""

import pytest

from headway.core.errors import HeadwayError
from headway.policies import make, names
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3


def scene(*requests, cores=1, kinds=None, **tables):
    """Requests as (model, arrival ms, relative deadline ms)."""
    device = toy_device(cores, kinds=kinds)
    made = {name: ToyTable(device, blocks, **more) for name, (blocks, more) in tables.items()}
    return (
        device,
        made,
        [
            toy_request(i, model, made, arrival_s=at * MS, deadline_s=(at + due) * MS)
            for i, (model, at, due) in enumerate(requests)
        ],
    )


SHORT = ([(1 * MS, 0.0)], {})
LONG = ([(2 * MS, 0.0)] * 3, {})


def order(log):
    return [row.request for row in log.of("reply")]


def test_fcfs_serves_in_order_of_arrival_and_never_preempts():
    log = play(make("fcfs"), *scene(("long", 0, 100), ("short", 1, 2), long=LONG, short=SHORT))
    assert order(log) == [0, 1]
    assert log.of("stop") == []


def test_sjf_serves_the_least_remaining_work_first_whatever_the_deadlines():
    log = play(
        make("sjf"), *scene(("long", 0, 10), ("long", 1, 20), ("short", 2, 99), long=LONG, short=SHORT)
    )
    assert order(log) == [0, 2, 1]


def test_edf_preempts_the_latest_deadline_at_its_next_block_end():
    # The long request (3 blocks of 2 ms, due at 100) yields at 2 ms to the short one, due at 6.
    log = play(make("edf"), *scene(("long", 0, 100), ("short", 1, 5), long=LONG, short=SHORT))
    assert [(r.request, round(r.time_s / MS, 6)) for r in log.of("reply")] == [(1, 3.0), (0, 7.0)]
    (stop,) = log.of("stop")
    assert (stop.request, round(stop.time_s / MS, 6)) == (0, 2.0)


def test_edf_does_not_preempt_an_earlier_deadline_and_drops_nothing():
    log = play(make("edf"), *scene(("long", 0, 3), ("short", 1, 5), long=LONG, short=SHORT))
    assert order(log) == [0, 1]
    assert all(row.outcome == "done" for row in log.of("reply"))


def test_edf_asks_for_one_core_only_once():
    # Both cores run long requests; one urgent arrival stops one of them, the later deadline.
    log = play(
        make("edf"),
        *scene(("long", 0, 90), ("long", 0, 100), ("short", 1, 5), long=LONG, short=SHORT, cores=2),
    )
    assert [row.request for row in log.of("stop")] == [1]


def test_laxity_drops_what_cannot_be_met_any_more():
    # Due 4 ms after arrival but 6 ms long: dropped at once. The other is served.
    log = play(make("laxity"), *scene(("long", 0, 4), ("long", 0, 7), long=LONG))
    outcomes = {row.request: (row.outcome, row.time_s) for row in log.of("reply")}
    assert outcomes[0] == ("dropped", 0.0)
    assert outcomes[1][0] == "done"


def test_laxity_puts_the_tighter_request_first_even_if_its_deadline_is_later():
    # At time 0: A due at 8 with 1 ms of work (laxity 7); B due at 9 with 6 ms (laxity 3).
    log = play(make("laxity"), *scene(("short", 0, 8), ("long", 0, 9), long=LONG, short=SHORT))
    assert order(log) == [1, 0]


def test_a_request_takes_the_core_that_suits_its_next_block_and_leaves_one_that_does_not():
    # Kind "a" is three times faster; with both idle the request goes there for its whole length.
    tables = {"m": ([(1 * MS, 0.0)] * 2, {"scale": [3.0, 1.0]})}
    log = play(make("fcfs"), *scene(("m", 0, 100), cores=2, kinds=["b", "a"], **tables))
    assert [row.cores for row in log.of("start")] == ["1"]
    assert log.of("reply")[0].time_s == pytest.approx(2 * MS)


def test_a_core_that_does_not_suit_is_kept_for_one_block_only():
    # The fast core is taken by the first request, so the second starts on the slow one, and moves.
    tables = {"m": ([(1 * MS, 0.0)] * 4, {"scale": [3.0, 1.0]})}
    log = play(make("fcfs"), *scene(("m", 0, 100), ("m", 0, 100), cores=2, kinds=["b", "a"], **tables))
    runs = [(row.request, row.cores, row.first_block, row.end_block) for row in log.of("start")]
    assert runs[0] == (0, "1", 0, 4)
    assert runs[1] == (1, "0", 0, 1)


def test_an_unknown_policy_is_named_with_those_that_exist():
    with pytest.raises(HeadwayError, match=r"found 'edg'; accepted: .*lucas:scf.*did you mean 'edf'"):
        make("edg")


def test_every_policy_has_a_description_and_its_own_name():
    from headway.policies import describe

    assert {"fcfs", "sjf", "edf", "laxity", "lucas", "lucas:lbl", "lucas:scf", "lucas:mcf"} <= set(names())
    assert all(len(describe(name)) > 20 for name in names())
    assert len({describe(name) for name in names()}) == len(names()), "variants tell how they differ"
