"""How co-runners share bandwidth."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cost import MaxMinFair, OverlapLoss, Proportional

DEMANDS = st.lists(st.one_of(st.just(0.0), st.floats(1.0, 1e12)), max_size=8)
CAPACITY = st.floats(1.0, 1e12)


def test_max_min_fair_by_hand():
    # 15 to share: 2 and 3 get what they want, the 10 that are left go half and half to 6 and 10.
    rates = MaxMinFair(15.0).rates([6.0, 2.0, 10.0, 3.0, 0.0])
    assert rates == pytest.approx([5 / 6, 1.0, 0.5, 1.0, 1.0])


def test_proportional_by_hand():
    assert Proportional(10.0).rates([5.0, 15.0, 0.0]) == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("rule", [MaxMinFair, Proportional])
def test_nothing_slows_down_while_there_is_enough(rule):
    assert rule(10.0).rates([4.0, 6.0]) == [1.0, 1.0]
    assert rule(float("inf")).rates([4e12, 6e12]) == [1.0, 1.0]
    assert rule(1.0).rates([]) == []


@pytest.mark.parametrize("rule", [MaxMinFair, Proportional])
@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan")])
def test_capacity_is_above_zero(rule, capacity):
    with pytest.raises(ValueError, match="above 0"):
        rule(capacity)


@pytest.mark.parametrize("rule", [MaxMinFair, Proportional])
@settings(deadline=None, max_examples=150)
@given(demands=DEMANDS, capacity=CAPACITY)
def test_all_of_the_capacity_is_used_and_no_more(rule, demands, capacity):
    rates = rule(capacity).rates(demands)
    assert all(0.0 < rate <= 1.0 for rate in rates)
    allotted = sum(rate * demand for rate, demand in zip(rates, demands, strict=True))
    assert allotted == pytest.approx(min(capacity, sum(demands)), rel=1e-9)
    assert all(rate == 1.0 for rate, demand in zip(rates, demands, strict=True) if demand == 0)


@settings(deadline=None, max_examples=150)
@given(DEMANDS, CAPACITY)
def test_max_min_fair_serves_the_small_first(demands, capacity):
    rates = MaxMinFair(capacity).rates(demands)
    shares = [rate * demand for rate, demand in zip(rates, demands, strict=True)]
    slowed = [share for share, rate in zip(shares, rates, strict=True) if rate < 1.0]
    if slowed:
        assert min(slowed) == pytest.approx(max(slowed), rel=1e-9)  # those that wait get the same
        assert max(shares) <= max(slowed) * (1 + 1e-9)  # and nobody gets more


def test_overlap_loss_by_hand():
    # Beside one other run 1 / 1.5 of full speed, beside two 1 / 2, whatever they ask of the memory.
    assert OverlapLoss(0.5).rates([0.0]) == [1.0]
    assert OverlapLoss(0.5).rates([0.0, 1e9]) == pytest.approx([2 / 3, 2 / 3])
    assert OverlapLoss(0.5).rates([0.0] * 3) == [0.5] * 3
    assert OverlapLoss(1.0).rates([]) == []
    assert OverlapLoss(0.0).rates([1.0, 1.0]) == [1.0, 1.0]


@pytest.mark.parametrize("w", [-0.1, float("nan"), float("inf")])
def test_an_overlap_loss_is_a_number_from_zero_on(w):
    with pytest.raises(ValueError, match="from 0 on"):
        OverlapLoss(w)
