"""Threads that compute give way to those that answer."""

from __future__ import annotations

import os
import platform
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from headway.live.thread_ranks import GIVE_WAY, SOON_S, answering_soon, give_way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")

_Value = TypeVar("_Value")


def apart(work: Callable[[], _Value]) -> _Value:
    """What a thread of its own finds."""
    found: list[_Value] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def slice_ns() -> int:
    told = Path(f"/proc/self/task/{threading.get_native_id()}/sched")
    found = re.search(r"se\.slice\s*:\s*(\d+)", told.read_text()) if told.exists() else None
    release = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    if found is None or release < (6, 12):
        pytest.skip("this kernel takes no slice of a thread's own, or does not tell it")
    return int(found[1])


def test_a_thread_that_gives_way_and_what_it_starts_rank_lower_and_no_other_thread_does() -> None:
    before = priority()

    def work() -> tuple[int, int]:
        give_way()
        return priority(), apart(priority)

    assert apart(work) == (max(before, GIVE_WAY),) * 2
    assert priority() == before


def test_a_thread_that_ranks_lower_already_stays_there() -> None:
    def work() -> int:
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        give_way()
        return priority()

    assert apart(work) == 19


def test_a_thread_that_answers_asks_for_a_short_slice_and_gives_it_back() -> None:
    before = slice_ns()

    def work() -> tuple[int, int, int]:
        with answering_soon():
            inside = slice_ns()
            computing = apart(lambda: (give_way(), slice_ns())[1])
        return inside, computing, slice_ns()

    assert apart(work) == (round(1e9 * SOON_S), before, before)
    assert slice_ns() == before
