"""Overlaps that depend on who runs: rates by pairs, and what the simulator hides of them."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Pressure, Segment
from headway.cost.contention import MOST_LOSS, OverlapLoss, PairOverlap, fluid_loss
from headway.policies import make
from headway.sim.pairs import HiddenLoss, MeetingNoise
from headway.testing import play, toy_lane_table, toy_lanes, toy_request
from headway.workload.draws import stream

MS = 1e-3


def part(model: str, block: int = 0, seconds: float = 1.0) -> Segment:
    return Segment(
        block, block + 1, 0.0, seconds, 0.0, pressure=Pressure(model, block, 1, 0.0, 0.0, 0.0, 0.0)
    )


def by_models(**losses: float):
    """A loss for each pair of models, such as a_b=0.5."""
    return lambda one, other: losses["_".join(sorted((one.pressure.model, other.pressure.model)))]


def ends(models: dict[str, float], contention, lanes: int) -> dict[str, float]:
    """When each of some models of one block, which all start at 0, has ended, in ms."""
    device = toy_lanes(lanes)
    tables = {name: toy_lane_table(device, {1: [ms * MS]}, name=name) for name, ms in models.items()}
    requests = [
        toy_request(at, name, tables, arrival_s=0.0, deadline_s=1.0) for at, name in enumerate(models)
    ]
    log = play(make("fcfs"), device, tables, requests, contention=contention)
    return {row.model: row.time_s / MS for row in log.of("reply")}


def test_two_runs_take_the_longer_and_w_of_the_shorter():
    rule = PairOverlap(by_models(a_b=0.6))
    assert ends({"a": 5.0, "b": 3.0}, rule, 2) == pytest.approx({"b": 3.0 * 1.6, "a": 5.0 + 0.6 * 3.0})


def test_it_depends_on_who_runs():
    rule = PairOverlap(by_models(a_b=0.0, a_c=1.0, b_c=0.0))
    found = ends({"a": 2.0, "b": 2.0, "c": 2.0}, rule, 2)
    assert found == pytest.approx({"a": 2.0, "b": 2.0, "c": 4.0})  # c meets nobody
    assert ends({"a": 2.0, "c": 2.0}, rule, 2) == pytest.approx({"a": 4.0, "c": 4.0})


def test_for_three_lanes_losses_of_pairs_add_up_by_hand():
    # a goes at 1 / (1 + .5 + .25), b at 1 / (1 + .5 + 1), c at 1 / (1 + .25 + 1), until the first ends.
    rule = PairOverlap(by_models(a_b=0.5, a_c=0.25, b_c=1.0))
    assert rule.rates_of([part("a"), part("b"), part("c")], []) == pytest.approx(
        [1 / 1.75, 1 / 2.5, 1 / 2.25]
    )
    found = ends({"a": 1.75, "b": 5.0, "c": 4.5}, rule, 3)
    assert found["a"] == pytest.approx(1.75 * 1.75)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.0, 1.0), st.lists(st.floats(0.5, 8.0), min_size=1, max_size=4))
def test_with_one_loss_for_all_it_is_the_old_rule(w, milliseconds):
    models = {f"m{at}": ms for at, ms in enumerate(milliseconds)}
    lanes = len(models)
    assert ends(models, PairOverlap(lambda one, other: w), lanes) == pytest.approx(
        ends(models, OverlapLoss(w), lanes)
    )


def test_chance_never_makes_a_loss_negative_and_solo_stretches():
    rule = PairOverlap(lambda one, other: 0.2, chance=lambda one, other: -0.5, solo=lambda segment: 2.0)
    assert rule.rates_of([part("a"), part("b")], [None, None]) == [0.5, 0.5]


def test_demands_do_not_tell_who_runs():
    with pytest.raises(TypeError, match="rates_of"):
        PairOverlap(fluid_loss).rates([1.0])


DRAWS = partial(stream, 7, "overlap")


@settings(deadline=None, max_examples=50)
@given(
    st.floats(0.0, 1.0), st.integers(0, 40), st.integers(0, 40), st.sampled_from("ab"), st.sampled_from("ab")
)
def test_hidden_losses_are_bounded_symmetric_and_the_same_again(std, i, j, one, other):
    loss, again = HiddenLoss(fluid_loss, std, DRAWS), HiddenLoss(fluid_loss, std, DRAWS)
    w = loss(part(one, i), part(other, j))
    assert 0.0 <= w <= MOST_LOSS
    assert loss(part(other, j), part(one, i)) == w
    assert again(part(other, j), part(one, i)) == w


def test_hidden_losses_stray_by_about_what_was_asked_for_and_differ_by_seed():
    found = {
        seed: [
            HiddenLoss(lambda one, other: 0.5, 0.1, partial(stream, seed, "o"))(part("a", i), part("b", j))
            for i in range(8)
            for j in range(8)
        ]
        for seed in range(40)
    }
    every = [w for losses in found.values() for w in losses]
    mean = sum(every) / len(every)
    std = (sum((w - mean) ** 2 for w in every) / len(every)) ** 0.5
    assert (mean, std) == (pytest.approx(0.5, abs=0.05), pytest.approx(0.1, rel=0.3))
    assert found[0] != found[1]
    assert HiddenLoss(fluid_loss, 0.0, DRAWS)(part("a"), part("b")) == 0.0


def test_the_noise_of_a_meeting_belongs_to_the_two_requests():
    device = toy_lanes(2)
    tables = {"m": toy_lane_table(device, {1: [MS]})}
    one, other, third = (toy_request(at, "m", tables, arrival_s=0.0, deadline_s=1.0) for at in range(3))
    noise, again = MeetingNoise(0.1, DRAWS), MeetingNoise(0.1, DRAWS)
    assert noise(one, other) == noise(other, one) == again(one, other)
    assert noise(one, third) != noise(one, other)
