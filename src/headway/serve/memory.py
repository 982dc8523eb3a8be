"""Giving the system back what models held."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MOST_FROM_HEAP_BYTES: Final = 32 << 20


def return_memory() -> None:
    """Give the system back what was freed; the C library would keep much of it."""
    gc.collect()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def keep_heap() -> None:
    """Have glibc keep what requests free for the next ones, up to 64 MB in each arena, if this is glibc.

    By itself it gives back what lies free at a heap's end and is more than twice the largest block that was
    freed so far. A gRPC request holds three blocks of its tensor's size, which then go and come anew with
    each request, with a page fault for every 4 KB. These are the bounds that glibc comes to by itself when a
    block of 32 MB was freed (mallopt(3)).
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * _MOST_FROM_HEAP_BYTES)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    with suppress(OSError, AttributeError):
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return trim
    return None
