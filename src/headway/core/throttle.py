"""What a bandwidth cap does to a run, in belief and truth alike."""

from __future__ import annotations


def throttled(demand_bytes_s: float, cap_bytes_s: float) -> tuple[float, float]:
    """The traffic per second that a run under a cap asks for, and the share of its full speed that the cap
    leaves it.

    `demand_bytes_s` is what it takes at full speed. Given less of the memory than it asks for, it slows down
    further: it goes at the share that contention gives it times the share that the cap leaves it.
    """
    if demand_bytes_s <= cap_bytes_s:
        return demand_bytes_s, 1.0
    return cap_bytes_s, cap_bytes_s / demand_bytes_s
