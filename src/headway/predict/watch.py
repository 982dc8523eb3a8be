"""Reading overlaps off the log: how far each run got, beside whom, and what was predicted of that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from headway.core.protocols import LogRow

ALONE: Final = 0.05
"""A run that overlapped for at most this share of its time says how long its model takes alone."""

TOGETHER: Final = 0.5
"""A run that overlapped for at least this share says something of the overlap with whom it met longest."""

_WHOLE: Final = 1.0 - 1e-9  # shares are sums of floats
_LEAST_SHARE: Final = 0.2  # of the work must have been done together, for the quotient to mean something


class Kept(Protocol):
    """What the watch reads of a model on some lanes: seconds alone of each block."""

    @property
    def model(self) -> str: ...

    @property
    def lanes(self) -> int: ...

    @property
    def block_s(self) -> Sequence[float]: ...


class _Tracked:
    """A run that goes on."""

    __slots__ = (
        "alone_work_s",
        "batch",
        "beside_s",
        "block",
        "done_s",
        "end",
        "first",
        "fixed_left_s",
        "fixed_s",
        "kept",
        "met",
        "passed_s",
        "stretch",
        "work_s",
    )

    def __init__(self, kept: Kept, first: int, end: int, fixed_s: float) -> None:
        self.kept = kept
        self.first = self.block = first
        self.end = end
        self.batch = 1
        self.fixed_s = self.fixed_left_s = fixed_s
        self.passed_s = 0.0  # since it started
        self.beside_s = 0.0  # of that, beside others
        self.work_s = 0.0  # what it should have done beside others, in seconds alone
        self.alone_work_s = 0.0  # what it should have done while nobody else ran
        self.done_s = 0.0  # what it has done, in seconds alone, at its last block end
        self.met: dict[tuple[str, int, int], float] = {}  # partners by model, lanes and block: seconds
        self.stretch = 1.0  # one and the sum of losses beside those that run now


class Watch:
    """Follows all runs of a log.

    `known(model, lanes)` is what is kept of a model, `losses(one, other)` the predicted w without bias of all
    their blocks, `fixed_s(model, first)` what passes before a run's first block. For each run that ended, at
    a block's end, `solo(model, lanes, first, end, ratio)` is called if it was alone, `overlap(model, lanes,
    first, end, partner, ratio)` if it was not; the partner is whom it met longest, by model, lanes and the
    block that it was then in.

    Ratios are observed over predicted. With W(t) the sum of predicted losses beside those that ran at t, a
    run should have done the integral of dt / (1 + W) of its work; it has done S. Alone the ratio is the one
    over the other. Of a run that was beside others for part of its time, what it did alone is taken off
    both, at `pace` seconds for one that its table says: the ratio is that of the time together. Beside one
    partner all the time it is T / ((1 + w) S).
    """

    def __init__(
        self,
        known: Callable[[str, int], Kept],
        losses: Callable[[Any, Any], Sequence[Sequence[float]]],
        fixed_s: Callable[[str, int], float],
        solo: Callable[[str, int, int, int, float], None],
        overlap: Callable[[str, int, int, int, tuple[str, int, int], float], None],
        pace: Callable[[str], float] = lambda model: 1.0,
    ) -> None:
        self._known = known
        self._losses = losses
        self._fixed_s = fixed_s
        self._solo = solo
        self._overlap = overlap
        self._pace = pace
        self._runs: dict[int, _Tracked] = {}
        self._now = 0.0

    def observe(self, row: LogRow) -> None:
        """Take a row in. Rows that tell of no run are left out."""
        run_id = row.run
        if run_id is None:
            return
        if row.time_s > self._now:
            self._advance(row.time_s)
        event = row.event
        if event == "progress":
            run = self._runs.get(run_id)
            if run is not None and row.outcome is None and row.end_block is not None:
                self._went_on(run, row.end_block, row.share)
        elif event == "start":
            if run_id not in self._runs and row.model and row.first_block is not None and row.end_block:
                kept = self._known(row.model, 1 + (row.cores or "").count("+"))
                fixed_s = self._fixed_s(row.model, row.first_block)
                self._runs[run_id] = _Tracked(kept, row.first_block, row.end_block, fixed_s)
                self._changed()
            elif run_id in self._runs:
                self._runs[run_id].batch += 1
        elif event in ("finish", "stop"):
            run = self._runs.pop(run_id, None)
            if run is not None:
                self._ended(run, row.reason)
                self._changed()

    def _went_on(self, run: _Tracked, end_block: int, share: float | None) -> None:
        if share is not None and share < _WHOLE:
            run.done_s = -math.inf  # it stopped inside a block: not to be compared
            return
        block_s = run.kept.block_s
        for block in range(run.block, end_block):
            run.done_s += block_s[block]
        run.block = end_block
        if end_block < run.end and len(self._runs) > 1:
            self._changed()

    def _changed(self) -> None:
        """Somebody else runs now, or another block: by how much everybody should be stretched."""
        runs = list(self._runs.values())
        for run in runs:
            run.stretch = 1.0
        for at, one in enumerate(runs):
            for other in runs[at + 1 :]:
                row = self._losses(one.kept, other.kept)[min(one.block, one.end - 1)]
                w = row[min(other.block, other.end - 1)]
                one.stretch += w
                other.stretch += w

    def _advance(self, now: float) -> None:
        """Let time pass for all runs that go on. Rows of a live run may be a little out of order."""
        step_s = now - self._now
        self._now = now
        runs = self._runs.values()
        together = len(runs) > 1
        for run in runs:
            run.passed_s += step_s
            busy_s = step_s - run.fixed_left_s
            if busy_s < 0.0:
                run.fixed_left_s = -busy_s
                busy_s = 0.0
            else:
                run.fixed_left_s = 0.0
            if not together:
                run.alone_work_s += busy_s
                continue
            run.work_s += busy_s / run.stretch
            run.beside_s += step_s
            met = run.met
            for other in runs:
                if other is not run:
                    kept = other.kept
                    there = (kept.model, kept.lanes, other.block)
                    met[there] = met.get(there, 0.0) + step_s

    def _ended(self, run: _Tracked, reason: str | None) -> None:
        """Say what the run shows. One that failed, was killed or stopped inside a block shows nothing; nor
        does a batch, whose times are not those of one request."""
        if run.done_s <= 0.0 or reason in ("failed", "kill") or run.batch > 1:
            return
        kept = run.kept
        together = run.beside_s / run.passed_s if run.passed_s > 0.0 else 0.0
        if together <= ALONE:
            fixed_s = run.fixed_s - run.fixed_left_s
            ratio = (fixed_s + run.alone_work_s + run.work_s) / (run.fixed_s + run.done_s)
            self._solo(kept.model, kept.lanes, run.first, run.block, ratio)
        elif together >= TOGETHER:
            done_s = run.done_s * self._pace(kept.model)
            shared_s = done_s - run.alone_work_s
            if shared_s <= _LEAST_SHARE * done_s:
                return
            by_model: dict[tuple[str, int], float] = {}
            for (model, lanes, _), seconds in run.met.items():
                by_model[model, lanes] = by_model.get((model, lanes), 0.0) + seconds
            longest = max(by_model, key=lambda each: (by_model[each], each))
            there = max(
                (each for each in run.met if each[:2] == longest), key=lambda each: (run.met[each], each)
            )
            ratio = run.work_s / shared_s
            self._overlap(kept.model, kept.lanes, run.first, run.block, there, ratio)
