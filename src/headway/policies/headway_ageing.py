"""A small share of the lanes for best effort, so that it does not wait for ever behind strict requests."""

from __future__ import annotations

from typing import Final

from headway.core.device import Core
from headway.core.messages import Dispatch
from headway.core.protocols import View
from headway.core.request import Request

SHARE: Final = 0.05
"""Of all lanes' time, while best effort waits; what it gets anyway counts."""

SLICE_S: Final = 0.01
"""It gets that in runs of about so long: shorter ones cost more dispatches, longer ones strict requests."""

_ROUNDING_S: Final = 1e-9


class Ageing:
    """Time on lanes that best effort is owed: a SHARE of what passes while some of it waits, at most a slice.

    Up to a slice of what it had beyond that is remembered.
    """

    __slots__ = ("_owed_s", "_seen_s", "_waits")

    def __init__(self) -> None:
        self._owed_s = self._seen_s = 0.0
        self._waits = False

    def see(self, waits: bool, lanes: int, now: float) -> None:
        """Whether some best effort waits from now on; until now it was as told the last time."""
        if self._waits:
            self._owed_s = min(SLICE_S, self._owed_s + SHARE * lanes * (now - self._seen_s))
        self._waits, self._seen_s = waits, now

    def had(self, lane_s: float) -> None:
        """A run of best effort has taken so much time on lanes."""
        self._owed_s = max(self._owed_s - lane_s, -SLICE_S)

    @property
    def due(self) -> bool:
        """Whether a run of best effort should start although strict requests wait."""
        return self._waits and self._owed_s >= SLICE_S


def slice_of(request: Request, core: Core, view: View) -> Dispatch:
    """A run of as many of a request's next blocks on a lane as fit into a slice, and of one at least."""
    left_s = view.table(request).remaining_s
    first = request.next_block
    end = first + 1
    while end < request.blocks and left_s[first] - left_s[end + 1] <= SLICE_S + _ROUNDING_S:
        end += 1
    return Dispatch((request,), range(first, end), (core,))
