"""Comparing policies over many cells and seeds: paired intervals, mean ranks, critical differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and half the width of its 95 % interval; None of a single value."""

    mean: float
    half: float | None

    @property
    def away_from_zero(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.half is not None and abs(self.mean) > self.half


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean of independent values. Needs at least one."""
    given = np.asarray(values, dtype=np.float64)
    mean = float(given.mean())
    if len(given) < 2:
        return Interval(mean, None)
    half = student_t(len(given) - 1) * float(given.std(ddof=1)) / math.sqrt(len(given))
    return Interval(mean, half)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Interval | None:
    """The interval of first - second over the seeds that both have; None without any."""
    seeds = sorted(first.keys() & second.keys())
    return interval([first[seed] - second[seed] for seed in seeds]) if seeds else None


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The value that Student's t with so many degrees of freedom stays within, either way.

    The distribution's integral has a closed form for whole degrees of freedom (Abramowitz and Stegun 26.7.3,
    26.7.4).
    """

    def within(value: float) -> float:
        angle = math.atan(value / math.sqrt(freedom))
        cosine, total = math.cos(angle), 0.0
        if freedom % 2:
            term = cosine
            for step in range(1, freedom - 1, 2):
                total += term
                term *= cosine * cosine * (step + 1) / (step + 2)
            return 2 / math.pi * (angle + math.sin(angle) * total)
        term = 1.0
        for step in range(0, freedom, 2):
            total += term
            term *= cosine * cosine * (step + 1) / (step + 2)
        return math.sin(angle) * total

    return _crossing(within, confidence, 0.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mean ranks of policies over cells, 1 being best.

    `p_value` is Friedman's: how likely ranks so different are if all policies are alike. Two policies whose
    mean ranks differ by less than `critical_difference` are not told apart at 95 % (Nemenyi).
    `groups` are the largest sets of policies, in order of rank, of which no two are told apart.
    """

    mean_ranks: Mapping[str, float]
    cells: int
    p_value: float
    critical_difference: float
    groups: tuple[tuple[str, ...], ...]


def ranking(scores: Mapping[str, Sequence[float]]) -> Ranking | None:
    """Rank policies by scores in the same cells, higher being better (Demšar, JMLR 7, 2006).

    Equal scores share the mean of their ranks. None with fewer than two policies or cells.
    """
    names = list(scores)
    table = np.array([scores[name] for name in names], dtype=np.float64)
    policies, cells = table.shape if table.ndim == 2 else (len(names), 0)
    if policies < 2 or cells < 2:
        return None
    better = (table[None] > table[:, None]).sum(axis=1)
    equal = (table[None] == table[:, None]).sum(axis=1)
    ranks = (better + (equal + 1) / 2).mean(axis=1)
    spread = float(((ranks - (policies + 1) / 2) ** 2).sum())
    # Friedman's statistic with its correction for ties (Conover, Practical Nonparametric Statistics, 5.8).
    within = float(((better + (equal + 1) / 2 - (policies + 1) / 2) ** 2).sum())
    statistic = (policies - 1) * cells**2 * spread / within if within > 0 else 0.0
    difference = (
        studentized_range(policies) / math.sqrt(2) * math.sqrt(policies * (policies + 1) / (6 * cells))
    )
    order = sorted(range(policies), key=lambda at: (ranks[at], names[at]))
    groups: list[tuple[int, int]] = []
    for first in range(policies):
        last = max(
            at for at in range(first, policies) if ranks[order[at]] - ranks[order[first]] <= difference
        )
        if last > first and not (groups and groups[-1][1] >= last):
            groups.append((first, last))
    return Ranking(
        {names[at]: float(ranks[at]) for at in order},
        cells,
        chi_square_tail(statistic, policies - 1),
        difference,
        tuple(tuple(names[order[at]] for at in range(first, last + 1)) for first, last in groups),
    )


def chi_square_tail(value: float, freedom: int) -> float:
    """How likely a chi-square variable with so many degrees of freedom is above a value.

    Closed forms for whole degrees of freedom (Abramowitz and Stegun 26.4.4, 26.4.5).
    """
    half = value / 2
    if freedom % 2 == 0:
        start, total = 0.0, 0.0
    else:
        start, total = 0.5, math.erfc(math.sqrt(half))
    steps = (start + at for at in range(freedom // 2))
    total += math.fsum(math.exp(-half) * half**step / math.gamma(step + 1) for step in steps)
    return min(1.0, total)


def studentized_range(groups: int, confidence: float = CONFIDENCE) -> float:
    """The value below which the range of so many standard normal variables lies.

    By numerical integration of P(range < q) = k * integral of phi(z) (Phi(z) - Phi(z - q))^(k-1).
    """
    z = np.linspace(-8.0, 8.0, 4001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z.tolist()])

    def within(value: float) -> float:
        lower = np.interp(z - value, z, below, left=0.0)
        return float(groups * np.trapezoid(density * (below - lower) ** (groups - 1), z))

    return _crossing(within, confidence, 0.0, 20.0)


def _crossing(rising: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Where a rising function passes a level."""
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2
