"""A server's event log: parts that span some time each, of which the newest are kept."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, Final

from headway.core.protocols import LogRow
from headway.record.log import ROWS_PER_BATCH, ArrowLog

_PATTERN: Final = "events-*"
_STAMP: Final = "events-%Y%m%dT%H%M%S"


class NoLog:
    """A Sink that keeps nothing."""

    def add(self, row: LogRow) -> None:
        """Forget the row."""


class RetainedLog:
    """A Sink that begins a folder every so often and removes the oldest ones when all are too large.

    Each folder is a log that `headway export` reads. A folder that cannot be written ends the log, which is
    said once; requests are served all the same. Not for use from several threads at once.

    Args:
        folder: where parts lie, named after the time (UTC) at which they begin.
        metadata: of each part.
        part_s: seconds that one spans; one that has a quarter of keep_bytes ends earlier.
        keep_bytes: the most that all parts may have, the present one counted when the next one begins.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        folder: Path,
        metadata: Mapping[str, Any],
        part_s: float,
        keep_bytes: float,
        clock: Callable[[], float] = time,
    ) -> None:
        self._folder, self._metadata = folder, metadata
        self._part_s, self._keep_bytes, self._clock = part_s, keep_bytes, clock
        self._log: ArrowLog | None = None
        self._until_s = 0.0
        self._rows = 0
        self._stamp, self._again = "", 0
        self._broken = False

    def add(self, row: LogRow) -> None:
        """Append a row."""
        if self._broken:
            return
        try:
            if self._log is None or self._clock() >= self._until_s:
                self._begin()
            assert self._log is not None
            self._log.add(row)
            self._rows += 1
            if self._rows % ROWS_PER_BATCH == 0 and _size(self._log.directory) > self._keep_bytes / 4:
                self._until_s = 0.0
        except OSError as error:
            self._broken, self._log = True, None
            print(f"event log ends: {self._folder}: {error.strerror or error}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write what is left."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _begin(self) -> None:
        self.close()
        now_s = self._clock()
        self._until_s = now_s + self._part_s
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_oldest()
        stamp = datetime.fromtimestamp(now_s, UTC).strftime(_STAMP)
        again = self._again + 1 if stamp == self._stamp else 1
        while (self._folder / (name := f"{stamp}-{again:03d}" if again > 1 else stamp)).exists():
            again += 1
        self._stamp, self._again = stamp, again  # a name that was removed would now be the oldest
        self._log = ArrowLog(self._folder / name, self._metadata)

    def _remove_oldest(self) -> None:
        parts = sorted(path for path in self._folder.glob(_PATTERN) if path.is_dir())
        sizes = [_size(part) for part in parts]
        total = sum(sizes)
        for part, size in zip(parts, sizes, strict=True):
            if total <= self._keep_bytes:
                return
            shutil.rmtree(part)
            total -= size


def _size(part: Path) -> int:
    """Bytes of a part's files."""
    return sum(file.stat().st_size for file in part.iterdir())
