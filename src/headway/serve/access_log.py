"""A line of JSON for each request, in files that are closed at a size and of which the newest are kept."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from headway.serve.visits import Visit

EVERY_S: Final = 0.2
MOST_PENDING: Final = 65_536
MOST_CHARACTERS: Final = 200
"""Of a text that the client chose."""


class AccessLog:
    """Notes visits, and has a thread write them. Implements `headway.serve.visits.Log`.

    What cannot be written is lost, and said once; requests are served all the same. `lost` counts the lines.

    Args:
        file: where lines go; FILE.1, FILE.2 and so on are older.
        part_bytes: a file of that size is closed.
        keep: how many closed files are kept.

    Raises:
        OSError: if the file cannot be opened.
    """

    def __init__(self, file: Path, part_bytes: int, keep: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handler = _Files(file, maxBytes=part_bytes, backupCount=keep, encoding="utf-8")
        self._pending: deque[Visit] = deque()
        self._closing = threading.Event()
        self._unwritten = 0
        self._thread = threading.Thread(target=self._work, name="headway access log", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Lines that are in no file."""
        return self._unwritten + self._handler.failures

    def add(self, visit: Visit) -> None:
        """Note a visit that is over."""
        if len(self._pending) >= MOST_PENDING:
            self._unwritten += 1
        else:
            self._pending.append(visit)

    def close(self) -> None:
        """Write what is left."""
        self._closing.set()
        self._thread.join()
        with suppress(OSError):  # of a line that was counted as lost
            self._handler.close()

    def _work(self) -> None:
        pending = self._pending
        while not self._closing.wait(EVERY_S) or pending:
            for _ in range(len(pending)):
                self._handler.handle(makeLogRecord({"msg": line_of(pending.popleft())}))


class _Files(RotatingFileHandler):
    """Counts what could not be written; the standard handler would print a stack trace for each line."""

    failures = 0

    def handleError(self, record: LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        if not self.failures:
            cause = getattr(error, "strerror", None) or error
            print(f"access log: {self.baseFilename}: {cause}", file=sys.stderr, flush=True)
        self.failures += 1


def line_of(visit: Visit) -> str:
    """A visit as JSON; docs/telemetry.md defines the fields. What does not apply is left out."""
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(visit.at_s, UTC).isoformat(timespec="microseconds"),
        "protocol": visit.protocol,
        "peer": visit.peer,
        "target": visit.target[:MOST_CHARACTERS],
        "status": visit.code,
        "total_ms": _milliseconds(visit.ended_s - visit.arrived_s),
        "bytes_in": visit.body_bytes,
        "bytes_out": visit.answer_bytes,
    }
    if visit.cause is not None:
        fields["refused"] = visit.cause.name.lower()
    for name, text in (
        ("tenant", visit.tenant),
        ("model", visit.model),
        ("version", visit.version),
        ("id", visit.id),
        ("trace", visit.trace),
    ):
        if text:
            fields[name] = text[:MOST_CHARACTERS]
    if visit.number is not None:
        fields["request"] = visit.number
    for name, seconds in (
        ("deadline_ms", visit.deadline_s),
        ("decode_ms", _between(visit.arrived_s, visit.decoded_s)),
        ("queue_ms", visit.queue_s),
        ("compute_ms", visit.compute_s),
        ("encode_ms", _between(visit.result_s, visit.ended_s)),
    ):
        if seconds is not None:
            fields[name] = _milliseconds(seconds)
    return json.dumps(fields, separators=(",", ":"))


def _between(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else end_s - start_s


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)
