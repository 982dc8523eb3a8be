"""Reading overlaps off the log: how far each run got, beside whom, and what was predicted of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headway.core.protocols import LogRow

ALONE: Final = 0.05
"""A run that overlapped for at most this share of its time says how long its model takes alone."""

TOGETHER: Final = 0.5
"""A run that overlapped for at least this share says something of the overlap with whom it met longest."""

_LEAST_SHARE: Final = 0.2  # of the work must have been done together, for the quotient to mean something


class _Tracked:
    """A run that goes on."""

    __slots__ = (
        "alone_work_s",
        "beside_s",
        "block",
        "done_s",
        "end",
        "first",
        "fixed_left_s",
        "fixed_s",
        "lanes",
        "met",
        "model",
        "passed_s",
        "work_s",
    )

    def __init__(self, model: str, lanes: int, first: int, end: int, fixed_s: float) -> None:
        self.model = model
        self.lanes = lanes
        self.first = self.block = first
        self.end = end
        self.fixed_s = self.fixed_left_s = fixed_s
        self.passed_s = 0.0  # since it started
        self.beside_s = 0.0  # of that, beside others
        self.work_s = 0.0  # what it should have done beside others, in seconds alone
        self.alone_work_s = 0.0  # what it should have done while nobody else ran
        self.done_s = 0.0  # what it has done, in seconds alone, at its last block end
        self.met: dict[tuple[str, int, int], float] = {}  # partners by model, lanes and block: seconds


class Watch:
    """Follows all runs of a log.

    `loss(model, lanes, block, other model, lanes, block)` is the predicted w without bias, `alone_s(model,
    lanes, block)` what a block takes alone, `fixed_s(model, first)` what passes before a run's first block.
    For each run that ended, at a block's end, `solo(model, lanes, first, end, ratio)` is called if it was
    alone, `overlap(model, lanes, first, end, partner, ratio)` if it was not; the partner is whom it met
    longest, by model, lanes and block.

    Ratios are observed over predicted. With W(t) the sum of predicted losses beside those that ran at t, a
    run should have done the integral of dt / (1 + W) of its work; it has done S. Alone the ratio is the one
    over the other. Of a run that was beside others for part of its time, what it did alone is taken off
    both, at `pace` seconds for one that its table says: the ratio is that of the time together. Beside one
    partner all the time it is T / ((1 + w) S).
    """

    def __init__(
        self,
        loss: Callable[[str, int, int, str, int, int], float],
        alone_s: Callable[[str, int, int], float],
        fixed_s: Callable[[str, int], float],
        solo: Callable[[str, int, int, int, float], None],
        overlap: Callable[[str, int, int, int, tuple[str, int, int], float], None],
        pace: Callable[[str], float] = lambda model: 1.0,
    ) -> None:
        self._loss = loss
        self._alone_s = alone_s
        self._fixed_s = fixed_s
        self._solo = solo
        self._overlap = overlap
        self._pace = pace
        self._runs: dict[int, _Tracked] = {}
        self._now = 0.0

    def observe(self, row: LogRow) -> None:
        """Take a row in. Rows that tell of no run are left out."""
        if row.run is None:
            return
        event = row.event
        if event == "progress":
            self._advance(row.time_s)
            run = self._runs.get(row.run)
            if run is not None and row.outcome is None and row.end_block is not None:
                self._went_on(run, row.end_block, row.share)
        elif event == "start":
            self._advance(row.time_s)
            if row.run not in self._runs and row.model and row.first_block is not None and row.end_block:
                lanes = 1 + (row.cores or "").count("+")
                fixed_s = self._fixed_s(row.model, row.first_block)
                self._runs[row.run] = _Tracked(row.model, lanes, row.first_block, row.end_block, fixed_s)
        elif event in ("finish", "stop"):
            self._advance(row.time_s)
            run = self._runs.pop(row.run, None)
            if run is not None:
                self._ended(run, row.reason)

    def _went_on(self, run: _Tracked, end_block: int, share: float | None) -> None:
        if share is None or share >= 1.0 - 1e-9:
            for block in range(run.block, end_block):
                run.done_s += self._alone_s(run.model, run.lanes, block)
            run.block = end_block
            return
        run.done_s = -1.0  # it stopped inside a block: not to be compared

    def _advance(self, now: float) -> None:
        """Let time pass for all runs that go on. Rows of a live run may be a little out of order."""
        step_s = now - self._now
        if step_s <= 0.0:
            return
        self._now = now
        runs = self._runs.values()
        for run in runs:
            run.passed_s += step_s
            busy_s = step_s - run.fixed_left_s
            run.fixed_left_s = max(0.0, -busy_s)
            stretch = 1.0
            if len(self._runs) > 1:
                run.beside_s += step_s
                at = min(run.block, run.end - 1)
                for other in runs:
                    if other is not run:
                        there = (other.model, other.lanes, min(other.block, other.end - 1))
                        stretch += self._loss(run.model, run.lanes, at, *there)
                        run.met[there] = run.met.get(there, 0.0) + step_s
            if busy_s > 0.0:
                if len(self._runs) > 1:
                    run.work_s += busy_s / stretch
                else:
                    run.alone_work_s += busy_s

    def _ended(self, run: _Tracked, reason: str | None) -> None:
        """Say what the run shows. One that failed, was killed or stopped inside a block shows nothing."""
        if run.done_s <= 0.0 or reason in ("failed", "kill"):
            return
        together = run.beside_s / run.passed_s if run.passed_s > 0.0 else 0.0
        if together <= ALONE:
            fixed_s = run.fixed_s - run.fixed_left_s
            ratio = (fixed_s + run.alone_work_s + run.work_s) / (run.fixed_s + run.done_s)
            self._solo(run.model, run.lanes, run.first, run.block, ratio)
        elif together >= TOGETHER:
            pace = self._pace(run.model)
            done_s = run.done_s * pace - run.alone_work_s
            if done_s <= _LEAST_SHARE * run.done_s * pace:
                return
            ratio = run.work_s / done_s
            by_model: dict[tuple[str, int], float] = {}
            for (model, lanes, _), seconds in run.met.items():
                by_model[model, lanes] = by_model.get((model, lanes), 0.0) + seconds
            longest = max(by_model, key=lambda each: (by_model[each], each))
            there = max(
                (each for each in run.met if each[:2] == longest), key=lambda each: (run.met[each], each)
            )
            self._overlap(run.model, run.lanes, run.first, run.block, there, ratio)
