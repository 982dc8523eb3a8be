"""How this process's threads rank beside each other when all processors are busy."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

GIVE_WAY: Final = 5
"""The priority (nice) of threads that compute: one that answers then has three times their weight."""

SOON_S: Final = 0.1e-3
"""The slice of threads that answer; the least that Linux takes."""

_GET_AND_SET: Final = {"x86_64": (315, 314), "aarch64": (275, 274)}
"""Numbers of the calls sched_getattr and sched_setattr: the C library has them only since glibc 2.41."""


class _Attributes(ctypes.Structure):
    """Linux's struct sched_attr, in its first version (include/uapi/linux/sched/types.h)."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def give_way() -> None:
    """Rank this thread, and those that it starts from now on, below the threads that answer.

    Lanes keep all processors busy for whole blocks, and whatever else has to be done for a request waits for
    them: reading it, deciding, sending the answer. Only on Linux, where each thread has a priority of its
    own; there is no way back up. A thread that ranks lower already stays where it is.
    """
    if sys.platform == "linux":
        _change_slice(0)
        with suppress(OSError):
            lower = max(GIVE_WAY, os.getpriority(os.PRIO_PROCESS, 0))
            os.setpriority(os.PRIO_PROCESS, 0, lower)


@contextmanager
def answering_soon() -> Iterator[None]:
    """Let this thread, and those that it starts meanwhile, run as soon as they have something to do.

    Linux's scheduler (EEVDF) lets the thread that runs finish its slice, 1.4 ms on two processors, unless the
    one that wakes asks for a shorter one; a request passes through several threads, each of which would wait.
    A thread may ask since Linux 6.12 (sched_attr's sched_runtime); before that, and elsewhere, nothing
    happens.
    """
    before_ns = _change_slice(round(1e9 * SOON_S))
    try:
        yield
    finally:
        _change_slice(before_ns)


def _change_slice(slice_ns: int) -> int:
    """Ask for a slice, 0 for the system's own, and return the one before; 0 where none can be asked for."""
    numbers = _GET_AND_SET.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return 0
    get, change = numbers
    attributes = _Attributes(size=ctypes.sizeof(_Attributes))
    call = _system_call()
    if call(get, 0, ctypes.byref(attributes), attributes.size, 0) != 0:
        return 0
    before_ns = int(attributes.runtime_ns)
    attributes.runtime_ns = slice_ns
    call(change, 0, ctypes.byref(attributes), 0)
    return before_ns


@cache
def _system_call() -> Any:
    return ctypes.CDLL(None).syscall
