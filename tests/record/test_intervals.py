"""Intervals and ranks against tables of the literature and values worked by hand."""

from __future__ import annotations

import math

import pytest

from headway.record.intervals import (
    chi_square_tail,
    interval,
    paired,
    ranking,
    student_t,
    studentized_range,
)


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_student_t(freedom: int, value: float) -> None:
    """Two-sided 95 % points, as in any table of the distribution."""
    assert student_t(freedom) == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize(
    ("groups", "value"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (8, 3.031), (10, 3.164)]
)
def test_nemenyi(groups: int, value: float) -> None:
    """Critical values q of Demšar, JMLR 7 (2006), table 5: the studentized range over the root of 2."""
    assert studentized_range(groups) / math.sqrt(2) == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "freedom", "tail"),
    [
        (3.841, 1, 0.05),
        (5.991, 2, 0.05),
        (7.815, 3, 0.05),
        (9.488, 4, 0.05),
        (23.209, 10, 0.01),
        (0.0, 3, 1.0),
    ],
)
def test_chi_square(value: float, freedom: int, tail: float) -> None:
    assert chi_square_tail(value, freedom) == pytest.approx(tail, abs=2e-4)


def test_an_interval_worked_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert not found.away_from_zero
    assert interval([5.0]).half is None


def test_pairs_are_of_the_same_seed() -> None:
    """Seeds differ by far more than policies do; pairing takes that out."""
    first = {1: 0.50, 2: 0.70, 3: 0.90, 9: 0.0}
    second = {1: 0.49, 2: 0.69, 3: 0.89}
    found = paired(first, second)
    assert found is not None
    assert found.mean == pytest.approx(0.01)
    assert found.half == pytest.approx(0.0, abs=1e-9)
    assert found.away_from_zero
    assert paired({1: 0.5}, {2: 0.5}) is None


def test_ranks_worked_by_hand() -> None:
    """Four cells: a first three times, tied with b once; c always last."""
    found = ranking({"c": [1, 1, 1, 1], "a": [9, 9, 9, 5], "b": [5, 5, 5, 5]})
    assert found is not None
    assert dict(found.mean_ranks) == {"a": 1.125, "b": 1.875, "c": 3.0}
    assert list(found.mean_ranks) == ["a", "b", "c"]
    # Friedman with ties: 2 * 16 * (0.875^2 + 0.125^2 + 1) / (3 * 2 + 1.5), chi-square of 2 degrees.
    assert found.p_value == pytest.approx(math.exp(-16 * (0.875**2 + 0.125**2 + 1) / 7.5))
    assert found.critical_difference == pytest.approx(2.343 * math.sqrt(3 * 4 / 24), abs=1e-3)
    assert found.groups == (("a", "b"), ("b", "c"))


def test_no_ranking_of_one_policy_or_one_cell() -> None:
    assert ranking({"a": [1, 2, 3]}) is None
    assert ranking({"a": [1], "b": [2]}) is None
    alike = ranking({"a": [1, 1], "b": [1, 1]})
    assert alike is not None
    assert alike.p_value == 1.0
    assert alike.groups == (("a", "b"),)
