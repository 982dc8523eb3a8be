"""The rows of the event log, each written in one place."""

from __future__ import annotations

from math import inf
from typing import Final

from headway.core.messages import SafePoint
from headway.core.protocols import LogRow, Observer, Sink
from headway.core.request import Request
from headway.core.run import Outcome, Run

_row: Final = tuple.__new__
"""Makes a row of all its fields, in order, in less than half of the time that LogRow's own function takes."""


class _Heard:
    """A sink whose rows an observer hears of, too."""

    __slots__ = ("_observer", "_sink")

    def __init__(self, sink: Sink, observer: Observer) -> None:
        self._sink = sink
        self._observer = observer

    def add(self, row: LogRow) -> None:
        """Append a row."""
        self._sink.add(row)
        self._observer.observe(row)


class Journal:
    """Writes what happens into a sink, and tells an observer. Times are seconds on the driver's clock."""

    __slots__ = ("sink",)

    def __init__(self, sink: Sink, observer: Observer | None = None) -> None:
        self.sink: Sink = sink if observer is None else _Heard(sink, observer)

    def arrived(self, request: Request, now: float) -> None:
        """A request arrives."""
        self._of_request("arrive", request, now, None, None)

    def replied(self, request: Request, outcome: Outcome, reason: str, now: float) -> None:
        """A request is over."""
        self._of_request("reply", request, now, outcome.value, reason or None)

    def unsent(self, request: Request, outcome: Outcome, reason: str, now: float) -> None:
        """A request that no engine ever sees, skipped by its source or refused at the door."""
        self.arrived(request, now)
        self.replied(request, outcome, reason, now)

    def started(self, run: Run, now: float) -> None:
        """A run starts."""
        self._of_run("start", run, now, None, run.expected_end_s, cap_bytes_s=run.bandwidth_cap_bytes_s)

    def adjusted(self, run: Run, now: float) -> None:
        """A run gets another bandwidth cap, or is to go on on other cores, which the row then names."""
        cores = None if run.moving_to is None else "+".join([str(core.index) for core in run.moving_to])
        self._of_run(
            "adjust", run, now, None, run.expected_end_s, cores=cores, cap_bytes_s=run.bandwidth_cap_bytes_s
        )

    def stopped(self, run: Run, cause: str, now: float) -> None:
        """A run ended early."""
        self._of_run("stop", run, now, cause, None)

    def finished(self, run: Run, now: float) -> None:
        """A run is over."""
        self._of_run("finish", run, now, None, None)

    def progressed(self, run: Run, point: SafePoint, now: float) -> None:
        """What a run did since its last safe point."""
        request = run.requests[0]
        self.sink.add(
            _row(
                LogRow,
                (
                    now if point.end_s is None else point.end_s,
                    "progress",
                    request.id,
                    request.tenant,
                    request.model,
                    run.id,
                    point.first_block,
                    point.end_block,
                    run.mode,
                    run.core_names,
                    point.start_s,
                    None,
                    None,
                    None,
                    point.share,
                    point.dram_bytes,
                    point.link_bytes,
                    point.energy_pj,
                    point.macs,
                    None,
                    "lost" if point.lost else None,
                    None,
                ),
            )
        )

    def ended(self, now: float) -> None:
        """The end of it all."""
        self.sink.add(LogRow(now, "end"))

    def _of_request(
        self, event: str, request: Request, now: float, outcome: str | None, reason: str | None
    ) -> None:
        self.sink.add(
            _row(
                LogRow,
                (
                    now,
                    event,
                    request.id,
                    request.tenant,
                    request.model,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    request.deadline_s,
                    request.isolated_s,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    outcome,
                    reason,
                    None,
                ),
            )
        )

    def _of_run(
        self,
        event: str,
        run: Run,
        now: float,
        reason: str | None,
        expected_end_s: float | None,
        *,
        cores: str | None = None,
        cap_bytes_s: float = inf,
    ) -> None:
        blocks = run.blocks
        for request in run.requests:
            self.sink.add(
                _row(
                    LogRow,
                    (
                        now,
                        event,
                        request.id,
                        request.tenant,
                        request.model,
                        run.id,
                        blocks.start,
                        blocks.stop,
                        run.mode,
                        cores or run.core_names,
                        None,
                        request.deadline_s,
                        None,
                        expected_end_s,
                        None,
                        None,
                        None,
                        None,
                        None,
                        None,
                        reason,
                        cap_bytes_s if cap_bytes_s < inf else None,
                    ),
                )
            )
