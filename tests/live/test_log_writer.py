"""The log is written behind the driver's back, whole and in order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headway.core.protocols import LogRow
from headway.live.clock import VirtualClock
from headway.live.executors.null import VirtualExecutor
from headway.live.log_writer import LogWriter

World = Any  # the class in conftest.py


class Kept(list[LogRow]):
    """A sink that remembers which threads wrote, and fails at a row if told so."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.threads: set[int] = set()

    def add(self, row: LogRow) -> None:
        if len(self) == self.fails_at:
            raise OSError("no space left")
        self.threads.add(threading.get_ident())
        self.append(row)


def test_rows_arrive_in_order_on_another_thread() -> None:
    sink = Kept()
    writer = LogWriter(sink)
    rows = [LogRow(float(index), "arrive") for index in range(1000)]
    for row in rows:
        writer.add(row)
    writer.close()
    assert sink == rows
    assert threading.get_ident() not in sink.threads
    assert writer.cpu_s > 0.0


def test_a_sink_that_fails_is_heard_of_at_the_end() -> None:
    sink = Kept(fails_at=2)
    writer = LogWriter(sink)
    for index in range(5):
        writer.add(LogRow(float(index), "arrive"))
    with pytest.raises(OSError, match="no space left"):
        writer.close()
    assert len(sink) == 2


def test_what_was_logged_before_an_error_is_kept(world: World) -> None:
    clock = VirtualClock()

    def fails(reply: Any) -> None:
        raise RuntimeError("a bug in the caller")

    driver = world.driver(
        "fcfs", [world.request(0)], VirtualExecutor(world.blocks, clock), clock, on_reply=fails
    )
    with pytest.raises(RuntimeError, match="a bug in the caller"):
        driver.run()
    assert [row.event for row in world.rows] == ["arrive", "start", "progress", "finish", "reply"]
    assert driver.engine.journal.sink is world.rows
