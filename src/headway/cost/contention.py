"""What runs do to each other: how bandwidth is divided, or how much lanes slow each other down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from headway.core.block import Segment
from headway.core.request import Request

PairLoss = Callable[[Segment, Segment], float]
"""The overlap loss w of two segments on lanes: together they take max(S1, S2) + w min(S1, S2)."""

Chance = Callable[[Request, Request], float]
"""What chance adds to the overlap loss of two requests when they meet."""


class MaxMinFair:
    """Nobody gets more than it asks for; what is left is divided so that the least served get the most.

    The usual model of a fair memory controller (water-filling; Bertsekas and Gallager, Data Networks,
    section 6.5). Implements `headway.core.protocols.Contention`. `capacity_bytes_s` is the bandwidth to
    share.
    """

    def __init__(self, capacity_bytes_s: float) -> None:
        self.capacity_bytes_s = _positive(capacity_bytes_s)

    def rates(self, demands: Sequence[float]) -> list[float]:
        """The share of full speed of each run, in (0, 1], given the bytes/s each takes at full speed."""
        if sum(demands) <= self.capacity_bytes_s:
            return [1.0] * len(demands)
        left = self.capacity_bytes_s
        level = 0.0
        ascending = sorted(demands)
        for served, demand in enumerate(ascending):
            level = left / (len(ascending) - served)
            if demand > level:
                break
            left -= demand
        return [level / demand if demand > level else 1.0 for demand in demands]


class Proportional:
    """Everybody is slowed by the same factor, demand over capacity.

    The rule of MAGMA's bandwidth allocator (Kao and Krishna, HPCA 2022). Implements
    `headway.core.protocols.Contention`. `capacity_bytes_s` is the bandwidth to share.
    """

    def __init__(self, capacity_bytes_s: float) -> None:
        self.capacity_bytes_s = _positive(capacity_bytes_s)

    def rates(self, demands: Sequence[float]) -> list[float]:
        """The share of full speed of each run, in (0, 1], given the bytes/s each takes at full speed."""
        total = sum(demands)
        if total <= self.capacity_bytes_s:
            return [1.0] * len(demands)
        share = self.capacity_bytes_s / total
        return [share if demand > 0 else 1.0 for demand in demands]


class OverlapLoss:
    """Runs on lanes slow each other down alike: each of k that run together advances at 1 / (1 + w (k - 1)).

    Two that start together and take S1 and S2 alone then take max(S1, S2) + w min(S1, S2): w is the overlap
    loss, 0 if they do not notice each other, 1 if they might as well run one after the other, above 1 if
    even that would be faster. For more than two it is an extrapolation. A run over several lanes counts as
    one, and how much traffic it has does not matter. Implements `headway.core.protocols.Contention`.
    """

    def __init__(self, w: float) -> None:
        if not (w >= 0 and math.isfinite(w)):
            raise ValueError(f"an overlap loss is a number from 0 on, not {w}")
        self.w = w

    def rates(self, demands: Sequence[float]) -> list[float]:
        """The share of full speed of each run, in (0, 1]; what they demand is not regarded."""
        others = max(0, len(demands) - 1)
        return [1.0 / (1.0 + self.w * others)] * len(demands)


MOST_LOSS = 1.15
"""The greatest overlap loss that is believed: together is hardly worse than one after the other."""


def fluid_loss(first: Segment, second: Segment) -> float:
    """The overlap loss w of two segments if what they share divides like a fluid, in [0, 1].

    While both run, what either does outside its gaps is stretched by phi = max(1, f1 + f2, m1 + m2, o1 + o2),
    f, m and o being their shares of compute, memory and occupancy; the longer one then goes on alone. After
    the per-resource replay of Prophet (ASPLOS 2017). Segments without a pressure ask for nothing.
    """
    one, other = first.pressure, second.pressure
    if one is None or other is None:
        return 0.0
    phi = max(1.0, one.compute + other.compute, one.memory + other.memory, one.occupancy + other.occupancy)
    first_s, second_s = first.compute_s, second.compute_s
    if phi == 1.0 or first_s <= 0.0 or second_s <= 0.0:
        return 0.0
    one_stretch = one.gap + (1.0 - one.gap) * phi
    other_stretch = other.gap + (1.0 - other.gap) * phi
    together_s = min(first_s * one_stretch, second_s * other_stretch)
    ends_s = together_s + max(0.0, first_s - together_s / one_stretch, second_s - together_s / other_stretch)
    return max(0.0, ends_s - max(first_s, second_s)) / min(first_s, second_s)


class PairOverlap:
    """Runs on lanes slow each other down by who they are: each goes at 1 / (1 + the others' sum of w).

    `loss` gives the overlap loss w of two segments. With two runs that is exactly the meaning of w. For more
    the losses of pairs are added up: with the same w for all that is `OverlapLoss`, it does not depend on an
    order as folding a pair into one would, and it asks for nothing but pairs. It is an extrapolation:
    three runs that fill a resource only together are believed to be faster than they are.

    `chance` is added to each pair's loss, which stays at 0 or above; `solo` is how much longer than its
    table says a segment is believed to take alone. Belief and truth both are such an object, each with its
    own parameters. Implements `headway.core.protocols.PairContention`.
    """

    def __init__(
        self,
        loss: PairLoss,
        *,
        chance: Chance | None = None,
        solo: Callable[[Segment], float] | None = None,
    ) -> None:
        self._loss = loss
        self._chance = chance
        self._solo = solo

    def rates(self, demands: Sequence[float]) -> list[float]:
        """Not known: raises TypeError, since demands do not tell who runs."""
        raise TypeError("what pairs do to each other depends on their segments: ask rates_of")

    def rates_of(self, segments: Sequence[Segment], requests: Sequence[Request]) -> list[float]:
        """The share of full speed of each run, given the segment that it is in, and its request."""
        count = len(segments)
        if count == 1:
            return [1.0] if self._solo is None else [1.0 / self._solo(segments[0])]
        stretches = [1.0] * count
        for second in range(1, count):
            for first in range(second):
                w = self._loss(segments[first], segments[second])
                if self._chance is not None:
                    w = max(0.0, w + self._chance(requests[first], requests[second]))
                stretches[first] += w
                stretches[second] += w
        if self._solo is not None:
            return [
                1.0 / (stretch * self._solo(each)) for stretch, each in zip(stretches, segments, strict=True)
            ]
        return [1.0 / stretch for stretch in stretches]


def _positive(capacity_bytes_s: float) -> float:
    if not capacity_bytes_s > 0:
        raise ValueError(f"a bandwidth to share is above 0 bytes/s, not {capacity_bytes_s}")
    return capacity_bytes_s
