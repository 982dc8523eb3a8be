"""What runs that share the memory do to each other: how bandwidth is divided."""

from __future__ import annotations

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


def _positive(capacity_bytes_s: float) -> float:
    if not capacity_bytes_s > 0:
        raise ValueError(f"a bandwidth to share is above 0 bytes/s, not {capacity_bytes_s}")
    return capacity_bytes_s
