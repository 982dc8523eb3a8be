"""What a dispatch takes less on a lane that was busy until just before."""

from __future__ import annotations

import math

from headway.core.run import Run


class WarmStarts:
    """Which runs start on a warm lane, and what they save.

    A cost table's dispatch is that of a lane that has long been idle. A run whose first lane was idle for
    less than `within_s` begins `saved_s` sooner.
    """

    def __init__(self, within_s: float, saved_s: float) -> None:
        self._within_s, self._saved_s = within_s, saved_s
        self._idle_from_s: dict[int, float] = {}  # by the index of the lane

    def saved_s(self, run: Run, now: float) -> float:
        """What a run that starts now saves, in seconds; its first lane is the one whose thread is woken."""
        idle_s = now - self._idle_from_s.get(run.cores[0].index, -math.inf)
        return self._saved_s if idle_s < self._within_s else 0.0

    def over(self, run: Run, now: float) -> None:
        """A run has ended or stopped: its lanes are idle."""
        for core in run.cores:
            self._idle_from_s[core.index] = now
