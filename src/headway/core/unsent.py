"""Logging requests that no engine ever sees: skipped by their source, or refused at the door."""

from __future__ import annotations

from headway.core.protocols import LogRow, Sink
from headway.core.request import Request
from headway.core.run import Outcome


def log_unsent(sink: Sink, request: Request, outcome: Outcome, reason: str, now: float) -> None:
    """An arrival and its reply in one instant."""
    for event, ended, why in (("arrive", None, None), ("reply", outcome.value, reason)):
        sink.add(
            LogRow(
                now,
                event,
                request.id,
                request.tenant,
                request.model,
                deadline_s=request.deadline_s,
                isolated_s=request.isolated_s,
                outcome=ended,
                reason=why,
            )
        )
