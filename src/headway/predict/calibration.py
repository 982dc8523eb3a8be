"""Online calibration of overlap predictions: bias, margins and drift, from ratios observed over predicted.

Everything here is a function of the ratios in the order they came, so that reading a log again gives the
same state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from math import ceil, exp, log
from typing import Any, Final

from headway.predict.tiers import Tier, Tiers

PRIOR: Final = 10.0  # n0: as many ratios of its own weigh as much as what the parent says
FORGETTING: Final = 0.98
MISS_SHARE: Final = 0.003  # a*: budget of violations over rounds per request
MOST_MISS_SHARE: Final = 0.2
STEP: Final = 1.0  # gamma, as a share of a*
KEPT_RATIOS: Final = 1_000
CAREFUL: Final = 1.25  # the least margin of C1, and the margin while there is nothing to go by
_FEW: Final = 1.05  # on the greatest ratio, where there are too few for the quantile
_SOLO_WEIGHT: Final = 0.1
_SOLO_KEPT: Final = 32
_TOLERATED: Final = 0.02  # Page-Hinkley: deviations of the logarithm up to this are no drift
_ALARM: Final = 1.0
_FEWEST: Final = 10
_MOST_RATIO: Final = 20.0  # what a stalled machine shows is no overlap


class Bias:
    """A multiplicative bias, shrunk from a pair of models to a pair of classes to all.

    b_key = exp((n mean(log r) + n0 log b_parent) / (n + n0)), with n and the sum forgotten by 0.98 per ratio.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], tuple[float, float]] = {}

    def of(self, classes: tuple[int, int], models: tuple[str, str]) -> float:
        """The bias for a pair; the order within a pair does not matter."""
        found = 0.0
        for key in _keys(classes, models):
            count, total = self._sums.get(key, (0.0, 0.0))
            found = (total + PRIOR * found) / (count + PRIOR)
        return exp(found)

    def learn(self, classes: tuple[int, int], models: tuple[str, str], log_ratio: float) -> None:
        """A ratio of this pair was seen."""
        for key in _keys(classes, models):
            count, total = self._sums.get(key, (0.0, 0.0))
            self._sums[key] = (FORGETTING * count + 1.0, FORGETTING * total + log_ratio)

    def state(self) -> dict[tuple[Any, ...], tuple[float, float]]:
        """The weight and the sum of each key."""
        return dict(self._sums)


def _keys(classes: tuple[int, int], models: tuple[str, str]) -> tuple[tuple[Any, ...], ...]:
    return (), tuple(sorted(classes)), tuple(sorted(models))


class Margin:
    """Adaptive conformal: the factor that ratios exceed in a share a* of the cases, or so it should be.

    After each ratio a goes up by gamma (a* - [it was missed]), within a* / 10 and 0.2 (Gibbs and Candes,
    NeurIPS 2021), and the margin is the empirical quantile of 1 - a of the last 1,000 ratios; 1.05 times the
    greatest while there are fewer than 1 / a.
    """

    def __init__(self) -> None:
        self._share = MISS_SHARE
        self._in_order: deque[float] = deque()
        self._sorted: list[float] = []
        self.value = CAREFUL

    def learn(self, ratio: float) -> None:
        """A ratio, of observed over predicted with its bias, was seen."""
        missed = 1.0 if ratio > self.value else 0.0
        step = STEP * MISS_SHARE * (MISS_SHARE - missed)
        self._share = min(max(self._share + step, MISS_SHARE / 10.0), MOST_MISS_SHARE)
        self._in_order.append(ratio)
        insort(self._sorted, ratio)
        if len(self._in_order) > KEPT_RATIOS:
            del self._sorted[bisect_left(self._sorted, self._in_order.popleft())]
        count = len(self._sorted)
        if count * self._share < 1.0:
            self.value = _FEW * self._sorted[-1]
        else:
            self.value = self._sorted[min(count - 1, ceil((1.0 - self._share) * count) - 1)]

    def state(self) -> tuple[float, float, tuple[float, ...]]:
        """The margin, the share a, and the ratios in order."""
        return self.value, self._share, tuple(self._in_order)


class Solo:
    """How much longer than its table says a model takes alone: recent mean, and recent maximum.

    The mean is exponentially weighted; the maximum is of the last 32 runs (after DARIS, which takes the
    maximum of recent times in place of a worst case).
    """

    def __init__(self) -> None:
        self.mean = 1.0
        self._recent: deque[float] = deque(maxlen=_SOLO_KEPT)

    @property
    def upper(self) -> float:
        """The greatest ratio lately, and never below the mean; 1.05 while there is none."""
        return max(self.mean, max(self._recent, default=_FEW))

    def learn(self, ratio: float) -> None:
        """A run alone took that much of what its table says."""
        self.mean += _SOLO_WEIGHT * (ratio - self.mean)
        self._recent.append(ratio)

    def state(self) -> tuple[float, tuple[float, ...]]:
        """Mean and recent ratios."""
        return self.mean, tuple(self._recent)


class Drift:
    """Page-Hinkley on the logarithm of ratios, in both directions (Page, Biometrika 1954)."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._count, self._mean, self._up, self._down = 0, 0.0, 0.0, 0.0

    def learn(self, log_ratio: float) -> bool:
        """Take a value in; True if what came lately is no longer like what came before."""
        self._count += 1
        self._mean += (log_ratio - self._mean) / self._count
        deviation = log_ratio - self._mean
        self._up = max(0.0, self._up + deviation - _TOLERATED)
        self._down = max(0.0, self._down - deviation - _TOLERATED)
        if self._count >= _FEWEST and max(self._up, self._down) > _ALARM:
            self._reset()
            return True
        return False

    def state(self) -> tuple[int, float, float, float]:
        """Count, mean and both sums."""
        return self._count, self._mean, self._up, self._down


class Calibration:
    """All that is learnt online. See `Tiers` for the arguments."""

    def __init__(
        self,
        classes: Callable[[str], Iterable[int]],
        blocks: Callable[[str], int],
        profiled: Mapping[str, int] | None = None,
    ) -> None:
        self.tiers = Tiers(classes, blocks, profiled)
        self._bias = Bias()
        self._margins: dict[Tier, Margin] = {tier: Margin() for tier in Tier}
        self._solo: dict[str, Solo] = {}
        self._drift: dict[str, Drift] = {}
        self.drifts = 0
        self.changes = 0  # counts what was learnt, for those who keep something that follows from it

    def solo(self, model: str) -> Solo:
        """What is known of a model's times alone."""
        found = self._solo.get(model)
        if found is None:
            found = self._solo[model] = Solo()
        return found

    def bias(self, classes: tuple[int, int], models: tuple[str, str]) -> float:
        """By how much predictions for this pair are to be multiplied."""
        return self._bias.of(classes, models)

    def margin(self, tier: Tier) -> float:
        """By how much the mean is to be multiplied for an upper bound, at that tier."""
        value = self._margins[tier].value
        return max(CAREFUL, value) if tier <= Tier.C1 else value

    def ran_alone(self, model: str, first: int, end: int, ratio: float) -> None:
        """Blocks of a model ran alone, in `ratio` times what the table says."""
        if not 0.0 < ratio < _MOST_RATIO:
            return
        self.changes += 1
        self.solo(model).learn(ratio)
        self.tiers.ran_alone(model, first, end)

    def overlapped(self, models: tuple[str, str], classes: tuple[int, int], ratio: float) -> None:
        """A run of the first model overlapped with one of the second, and took `ratio` times what was
        predicted without bias."""
        if not 1.0 / _MOST_RATIO < ratio < _MOST_RATIO:
            return
        self.changes += 1
        tier = min(self.tiers.of(models[0]), self.tiers.of(models[1]))
        rest = ratio / self._bias.of(classes, models)
        self._margins[tier].learn(rest)
        self._bias.learn(classes, models, log(ratio))
        self.tiers.overlapped(models[0], classes)
        if self._drift.setdefault(models[0], Drift()).learn(log(rest)):
            self.drifts += 1
            self.tiers.drifted(models[0])

    def state(self) -> dict[str, Any]:
        """All that was learnt, as plain data: equal after equal logs."""
        return {
            "bias": self._bias.state(),
            "margins": {tier.name: margin.state() for tier, margin in self._margins.items()},
            "solo": {model: each.state() for model, each in self._solo.items() if each.state()[1]},
            "drift": {model: each.state() for model, each in self._drift.items()},
            "drifts": self.drifts,
            "tiers": self.tiers.state(),
        }
