"""What a live run changes of the process that it runs in, and puts back afterwards."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

COLLECT_EVERY: Final = 50_000
"""New objects until garbage is collected. Requests, runs and rows are freed without; Python's own 700 would
look through them again and again for nothing."""

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
    """Switch between threads often, collect garbage seldom, and leave alone what is there already."""
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(before, SWITCH_INTERVAL_S))
    gc.collect()
    gc.freeze()
    if thresholds[0]:  # zero: who runs us has switched it off
        gc.set_threshold(max(thresholds[0], COLLECT_EVERY), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        sys.setswitchinterval(before)
