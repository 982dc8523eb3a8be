"""What Lucas keeps between decisions gives the answers that looking at everything anew would give."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.core.request import State
from headway.policies import make
from headway.policies.lucas_menu import LEVELS_PER_OCTAVE, Menu, at_level, level_of
from headway.policies.lucas_order import AGEING, Late, Place
from headway.policies.lucas_runs import Allowed
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3
BANDWIDTH = 1e9


@given(share=st.floats(1e-6, 1.0))
def test_levels_are_within_nine_per_cent_of_a_share(share):
    level = level_of(share * BANDWIDTH, BANDWIDTH)
    assert at_level(level, BANDWIDTH) / BANDWIDTH == pytest.approx(share, rel=0.091)
    assert level_of(BANDWIDTH, BANDWIDTH) == 0
    assert at_level(LEVELS_PER_OCTAVE, BANDWIDTH) == BANDWIDTH / 2


def menu_of(seed, blocks=6):
    """Blocks of random cost on two kinds of cores."""
    draw = random.Random(seed)
    device = toy_device(4, kinds=["a", "a", "b", "b"])
    costs = [(draw.uniform(0, 3) * MS, draw.choice([0.0, 1e5, 4e6])) for _ in range(blocks)]
    table = ToyTable(device, costs, scale=[1.0, draw.uniform(0.5, 4)], steps=draw.randint(1, 8))
    return table, Menu(table, BANDWIDTH, Allowed())


def brute_force_rest_s(table, menu, block, share, kinds):
    """The least time to the end, by trying every sequence of runs on one core of those kinds each."""
    if block == table.blocks:
        return 0.0
    return min(
        o.seconds(share) + brute_force_rest_s(table, menu, o.end, share, kinds)
        for o in menu.singles(block)
        if o.kinds[0] in kinds
    )


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), level=st.integers(0, 12))
def test_excess_is_time_beyond_the_fastest_sequence_if_it_goes_on_on_that_kind(seed, level):
    table, menu = menu_of(seed)
    share = at_level(level, BANDWIDTH)
    prices = menu.prices(level)
    for block in range(table.blocks):
        best = min(brute_force_rest_s(table, menu, block, share, {kind}) for kind in range(2))
        for option in menu.singles(block):
            after = brute_force_rest_s(table, menu, option.end, share, set(option.kinds))
            excess_s = option.seconds(share) + after - best
            assert prices.priced(option).excess_s == pytest.approx(excess_s, abs=1e-12)
    assert menu.remaining_s[0] == pytest.approx(brute_force_rest_s(table, menu, 0, BANDWIDTH, {0, 1}))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    level=st.integers(0, 12),
    weight=st.floats(1, 3),
    psi=st.floats(0, 1),
    blocking_s=st.floats(0, 10 * MS),
)
def test_the_cheapest_run_is_never_among_those_left_out(seed, level, weight, psi, blocking_s):
    _table, menu = menu_of(seed)  # a menu lasts as long as its table
    prices = menu.prices(level)

    def least(runs):
        return min(
            weight * run.excess_s + psi * run.traffic_s + max(0.0, run.step_s - blocking_s) for run in runs
        )

    for kind in range(2):
        everything = [prices.priced(o) for o in menu.singles(1) if o.kinds == (kind,)]
        assert least(prices.offers(1, kind).free) == pytest.approx(least(everything), abs=1e-15)


def test_only_fusion_that_saves_traffic_is_on_the_menu():
    table = ToyTable(toy_device(1), [(1 * MS, 0.0)] * 3)
    assert {o.mode for o in Menu(table, BANDWIDTH, Allowed()).singles(0)} == {Mode.SERIAL}


def test_a_stack_that_leaves_a_bad_rest_is_not_taken():
    # Fused, any number of these blocks takes 2 ms a block, one alone 4 ms: two pairs would leave one alone.
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(2 * MS, 4e6)] * 5)}
    log = play(make("lucas"), device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)])
    assert {row.mode for row in log.of("start")} == {"fused"}
    assert log.of("reply")[0].time_s == pytest.approx(10 * MS)


@pytest.mark.parametrize("seed", range(5))
def test_late_requests_come_by_remaining_work_and_those_that_left_do_not(seed):
    draw, late = random.Random(seed), Late()
    tables = {"m": ToyTable(toy_device(1), [(1 * MS, 0.0)])}
    requests = []
    for id in range(300):
        now = id * MS
        request = toy_request(id, "m", tables, arrival_s=now, deadline_s=now + draw.uniform(0, 40) * MS)
        request.ready_since_s = now
        request.key = Place.of(request, draw.uniform(0, 20) * MS)
        late.add(request, request.key)
        requests.append(request)
        for gone in draw.sample(requests, k=min(len(requests), 2)):
            gone.state = State.RUNNING
        late.forget(sum(r.state is State.READY for r in requests))
        waiting = [r for r in requests if r.state is State.READY and r.key.latest_start_s < now]
        assert late.shortest(4, now) == sorted(waiting, key=lambda r: r.key.remaining_s)[:4]
        aged = [r for r in waiting if r.ready_since_s + AGEING * r.isolated_s < now]
        assert late.aged(now) is min(aged, key=lambda r: r.ready_since_s, default=None)


def test_what_is_over_is_forgotten():
    late = Late()
    tables = {"m": ToyTable(toy_device(1), [(1 * MS, 0.0)])}
    for id in range(5000):
        request = toy_request(id, "m", tables, arrival_s=0.0, deadline_s=1e9)
        request.key = Place.of(request, 1 * MS)
        late.add(request, request.key)
        request.state = State.RUNNING
    late.forget(0)
    assert late.kept == 0
