"""What ran on which lane in the last seconds, from rows of the event log."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headway.core.protocols import LogRow, Sink
from headway.serve.figures import lanes_of, model_name

SPAN_S: Final = 12.0
"""How far back it goes; the page shows ten seconds."""

MOST_WAITING: Final = 3000
MOST_SPANS: Final = 8000
MERGED_S: Final = 3e-3
"""Successive blocks of one run are shown as one up to this length: a third of a pixel of the page."""

_TOUCHING_S: Final = 1e-4


class Span(NamedTuple):
    """Blocks `first` to `end` - 1 of a request on some lanes; seconds on the engine's clock."""

    lanes: tuple[int, ...]
    start_s: float
    end_s: float
    tenant: str
    model: str
    first: int
    end: int
    run: int


@dataclass(slots=True)
class Going:
    """A run that goes on: what of it was told is done until `since_s`."""

    lanes: tuple[int, ...]
    since_s: float
    tenant: str
    model: str
    expected_end_s: float | None


class Timeline:
    """A Sink that remembers the last seconds and passes rows on to `then`.

    Rows come one at a time from one thread; any other may `take`, one at a time. What nobody takes is kept
    up to a bound, the latest of it.
    """

    def __init__(self, then: Sink) -> None:
        self._then = then
        self._lock = threading.Lock()
        self._waiting: deque[Span] = deque(maxlen=MOST_WAITING)
        self._lost = 0
        self._spans: deque[Span] = deque(maxlen=MOST_SPANS)
        self._going: dict[int, Going] = {}

    def add(self, row: LogRow) -> None:
        """Take a row."""
        handle = self._HANDLERS.get(row.event)
        if handle is not None and row.run is not None:
            with self._lock:
                handle(self, row, row.run)
        self._then.add(row)

    def take(self, now: float) -> tuple[list[Span], int]:
        """Spans that ended since the last call, and how many there were beyond what is kept."""
        with self._lock:
            waiting, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._lost = 0
        new = [span for span in merged(waiting) if span.end_s > now - SPAN_S]
        self._spans.extend(new)
        while self._spans and self._spans[0].end_s <= now - SPAN_S:
            self._spans.popleft()
        return new, lost

    def spans(self) -> list[Span]:
        """All that was taken and is not too old."""
        return list(self._spans)

    def going(self) -> list[Going]:
        """Runs that go on, with what is known of them so far."""
        with self._lock:
            return [
                Going(each.lanes, each.since_s, each.tenant, each.model, each.expected_end_s)
                for each in self._going.values()
            ]

    def _started(self, row: LogRow, run: int) -> None:
        if row.tenant is None or row.model is None or row.cores is None:
            return
        self._going[run] = Going(
            lanes_of(row.cores), row.time_s, row.tenant, model_name(row.model), row.expected_end_s
        )

    def _progressed(self, row: LogRow, run: int) -> None:
        if row.tenant is None or row.model is None or row.cores is None or row.start_s is None:
            return
        if len(self._waiting) == MOST_WAITING:
            self._lost += 1
        first, end = row.first_block or 0, row.end_block or 0
        model = model_name(row.model)
        lanes = lanes_of(row.cores)
        self._waiting.append(Span(lanes, row.start_s, row.time_s, row.tenant, model, first, end, run))
        going = self._going.get(run)
        if going is not None:
            going.since_s = row.time_s

    def _ended(self, row: LogRow, run: int) -> None:
        self._going.pop(run, None)

    _HANDLERS: Final[dict[str, Callable[[Timeline, LogRow, int], None]]] = {
        "start": _started,
        "progress": _progressed,
        "finish": _ended,
        "stop": _ended,
    }


def merged(spans: list[Span]) -> list[Span]:
    """Successive spans of one run as one while that is no longer than MERGED_S; in order of their ends."""
    open_at: dict[int, int] = {}
    result: list[Span] = []
    for span in spans:
        at = open_at.get(span.run)
        if at is not None:
            before = result[at]
            touching = abs(span.start_s - before.end_s) <= _TOUCHING_S
            if touching and before.lanes == span.lanes and span.end_s - before.start_s <= MERGED_S:
                result[at] = before._replace(end_s=span.end_s, end=span.end)
                continue
        open_at[span.run] = len(result)
        result.append(span)
    return sorted(result, key=lambda span: span.end_s)
