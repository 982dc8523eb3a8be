"""What bandwidth caps do to runs, in belief and truth alike."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.protocols import Contention


def throttled(demand_bytes_s: float, cap_bytes_s: float) -> tuple[float, float]:
    """The traffic per second that a run under a cap asks for, and the share of its full speed that the cap
    leaves it. `demand_bytes_s` is what it takes at full speed."""
    if demand_bytes_s <= cap_bytes_s:
        return demand_bytes_s, 1.0
    return cap_bytes_s, cap_bytes_s / demand_bytes_s


def throttled_rates(contention: Contention, demands_and_caps: Iterable[tuple[float, float]]) -> list[float]:
    """The share of full speed of each run, in (0, 1], given what it takes at full speed and its cap, both in
    bytes per second.

    A run asks for no more than its cap. Given less of the memory than it asks for it slows down further: it
    goes at the share that contention gives it times the share that the cap leaves it.
    """
    throttles = [throttled(demand, cap) for demand, cap in demands_and_caps]
    rates = contention.rates([asked for asked, _ in throttles])
    return [rate * left for rate, (_, left) in zip(rates, throttles, strict=True)]
