"""Writing the log behind the driver's back: turning rows into columns takes milliseconds at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Final

from headway.core.engine import Engine
from headway.core.protocols import LogRow, Sink

_EVERY_S: Final = 0.2


class LogWriter:
    """A Sink that keeps rows for a moment; a thread of its own hands them on, in order.

    `add` appends a row. `cpu_s` is the processor time which that took. Close it before the other sink is
    read: that hands on what is left, and raises what the other sink raised, after which nothing was handed on
    any more.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows: deque[LogRow] = deque()
        self.add: Callable[[LogRow], None] = self._rows.append
        self._closing = threading.Event()
        self._error: Exception | None = None
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._work, name="headway log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hand on what is left, and end the thread."""
        self._closing.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        rows, sink = self._rows, self._sink
        try:
            while not self._closing.wait(_EVERY_S) or rows:
                for _ in range(len(rows)):
                    sink.add(rows.popleft())
        except Exception as error:
            self._error = error
            while not self._closing.wait(_EVERY_S):
                rows.clear()  # a server would go on for ever, and so would they
        self.cpu_s = thread_time()


@contextmanager
def logging_behind(engine: Engine) -> Iterator[LogWriter]:
    """Let a thread write the engine's log meanwhile; what was logged stays if the run ends in an error."""
    sink = engine.journal.sink
    writer = LogWriter(sink)
    engine.journal.sink = writer
    try:
        yield writer
    finally:
        engine.journal.sink = sink
        writer.close()
