"""How much work arrives on lanes, and what time on them is worth."""

from __future__ import annotations

from math import exp2, log
from typing import Final

PRICE: Final = 0.5
"""What a mean request's worth of work is worth while the device is as busy as can be, in mean requests in
time."""

BUSY: Final = 0.4
"""Up to this utilisation, work costs nothing."""

MEMORY_S: Final = 1.0
"""After so long half of what was learnt about the load is forgotten."""


class Load:
    """How much work arrives, and what a second of work is worth."""

    __slots__ = ("_seen_s", "_value", "_work_s")

    def __init__(self) -> None:
        self._seen_s = self._work_s = self._value = 0.0

    def arrived(self, work_s: float, value: float, now: float) -> None:
        """A request has arrived that takes so long by itself, and is worth so much if it is in time."""
        fade = exp2((self._seen_s - now) / MEMORY_S)
        self._seen_s = now
        self._work_s = self._work_s * fade + work_s
        self._value = self._value * fade + value

    def price(self) -> float:
        """The value that a second of the device is worth."""
        if self._work_s <= 0.0:
            return 0.0
        utilisation = self._work_s * log(2.0) / MEMORY_S
        busy = min(1.0, max(0.0, (utilisation - BUSY) / (1.0 - BUSY)))
        return PRICE * busy * self._value / self._work_s
