"""How this machine's speed varies, by bare ONNX Runtime alone, in turns with what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from headway.live.overheads import Reference
from headway.sim.speed import BareRun, Stretch, stretches_of

LEAST_S: Final = 0.5
SHARE: Final = 0.1
"""A reference runs for that share of the time that the run before it took, and for LEAST_S at least."""


class HostRecord:
    """Runs of a reference on all lanes, a while each time."""

    def __init__(self, lanes: Sequence[Sequence[int]]) -> None:
        self._reference = Reference(lanes)
        self._runs: list[list[tuple[float, float]]] = [[] for _ in lanes]

    def take(self, after_s: float = 0.0) -> None:
        """Record for a while, after something that took so long."""
        for known, found in zip(self._runs, self._reference.run(max(LEAST_S, SHARE * after_s)), strict=True):
            known.extend(found)

    def stretches(self) -> tuple[Stretch, ...]:
        """How many times longer than in the median runs took, over the time that was recorded."""
        runs: list[BareRun] = []
        for lane, found in enumerate(self._runs):
            usual_s = median(took_s for _, took_s in found) if found else 0.0
            runs += [BareRun(began_s, took_s, usual_s, lane) for began_s, took_s in found]
        return tuple(stretches_of(runs))
