"""The most requests that one machine finishes on time, against enumeration and a solver."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.bounds.admission import MOST_EVALUATIONS, most_on_time, most_work_s

jobs = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 10), st.integers(0, 8)), min_size=1, max_size=8)


def columns(listed: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrival, window, work = (np.array(column, dtype=float) for column in zip(*listed, strict=True))
    return arrival, arrival + window, work


def fits(arrival: np.ndarray, deadline: np.ndarray, work: np.ndarray) -> bool:
    """All of it can be done: no interval is asked for more than its length."""
    return all(
        work[(arrival >= start) & (deadline <= end)].sum() <= end - start
        for start in arrival
        for end in deadline
        if end > start
    ) and bool(np.all(work <= deadline - arrival))


def best_by_enumeration(arrival: np.ndarray, deadline: np.ndarray, work: np.ndarray) -> int:
    for count in range(len(work), 0, -1):
        for chosen in combinations(range(len(work)), count):
            rows = list(chosen)
            if fits(arrival[rows], deadline[rows], work[rows]):
                return count
    return 0


@settings(deadline=None, max_examples=150)
@given(jobs)
def test_never_below_the_best_set(listed: list[tuple[int, int, int]]) -> None:
    arrival, deadline, work = columns(listed)
    assert most_on_time(arrival, deadline, work) >= best_by_enumeration(arrival, deadline, work) - 1e-9


@settings(deadline=None, max_examples=60)
@given(jobs)
def test_equals_the_linear_program(listed: list[tuple[int, int, int]]) -> None:
    """Shares of requests on a grid of unit slots, by a linear solver; integers make slots exact."""
    pywraplp = pytest.importorskip("ortools.linear_solver.pywraplp")
    arrival, deadline, work = columns(listed)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    slots = range(int(deadline.max()))
    inside = [solver.Constraint(0, 1) for _ in slots]
    free = 0
    for start, end, need in zip(arrival, deadline, work, strict=True):
        if need == 0:
            free += 1
            continue
        whole = solver.Constraint(0, need)
        for slot in range(int(start), int(end)):
            share = solver.NumVar(0, 1, "")
            whole.SetCoefficient(share, 1)
            inside[slot].SetCoefficient(share, 1)
            solver.Objective().SetCoefficient(share, 1 / need)
    solver.Objective().SetMaximization()
    assert solver.Solve() == solver.OPTIMAL
    found = most_on_time(arrival, deadline, work)
    assert found == pytest.approx(free + solver.Objective().Value(), rel=2e-3, abs=1e-6)
    assert found >= free + solver.Objective().Value() - 1e-6


def test_many_requests_stay_within_the_tolerance_above_every_evaluation() -> None:
    """With 3,000 requests R is evaluated at a few places only; all of them give at most 0.2 % less."""
    draw = np.random.default_rng(3)
    arrival = np.sort(draw.uniform(0, 1000, 3000))
    deadline = arrival + draw.uniform(0.5, 3, 3000)
    work = draw.lognormal(-0.7, 1, 3000)
    order = np.argsort(work)
    weight = 1 / work[order]
    exact = 0.0
    for count in range(50, 3001, 50):  # from below: R counted only up to the last evaluation
        rows = np.sort(order[:count])
        step = weight[count - 1] - (weight[count + 49] if count < 3000 else 0.0)
        exact += step * most_work_s(arrival[rows], deadline[rows], work[rows])
    found = most_on_time(arrival, deadline, work)
    assert 0.2 * 3000 < exact <= found < 3000
    assert MOST_EVALUATIONS < 60
    assert found <= exact * 1.04


def test_windows_bind_where_the_whole_span_does_not() -> None:
    arrival, deadline = np.array([0.0, 0.0, 50.0]), np.array([2.0, 2.0, 52.0])
    work = np.array([2.0, 2.0, 2.0])
    assert most_on_time(arrival, deadline, work) == pytest.approx(2.0)
    assert most_on_time(np.zeros(0), np.zeros(0), np.zeros(0)) == 0.0
