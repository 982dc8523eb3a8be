"""What runs do to each other: how bandwidth is divided, or how much lanes slow each other down."""

from __future__ import annotations

import math
from collections.abc import Sequence


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


def _positive(capacity_bytes_s: float) -> float:
    if not capacity_bytes_s > 0:
        raise ValueError(f"a bandwidth to share is above 0 bytes/s, not {capacity_bytes_s}")
    return capacity_bytes_s
