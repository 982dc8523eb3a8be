"""What a live run changes of the process that it runs in, and puts back afterwards."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

SWITCH_INTERVAL_S: Final = 0.5e-3
"""How long a thread may keep the interpreter while the driver waits for it; Python's own 5 ms is a block."""


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT interrupt while in the main thread; elsewhere Python allows no handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: Any) -> None:
        interrupt()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Switch between threads often, and let garbage collection leave alone what is there already."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_INTERVAL_S))
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
