"""Ctrl-C: the program ends with status 130 and without a traceback, whatever it was doing."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

EXIT_INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells have it
_AGAIN_S: Final = 0.02
_IMPORTING: Final = "<frozen importlib._bootstrap>"


@contextmanager
def ending_quietly() -> Iterator[None]:
    """Let the first SIGINT raise KeyboardInterrupt, and end the program at once at the second.

    While a library is imported the first one waits, since libraries make errors of their own of it, and
    some abort. Afterwards one ends the program at once. An interrupted program does not wait for threads
    that are inside ONNX Runtime: taking Python down around those aborts.
    """
    heard = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if number == signal.SIGINT and heard:
            os._exit(EXIT_INTERRUPTED)
        heard = True
        if _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            raise KeyboardInterrupt

    def end() -> None:
        if heard:
            with suppress(OSError, ValueError):  # whoever read them may be gone
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)

    if not hasattr(signal, "setitimer"):
        yield
        return
    atexit.register(end)  # the first to be registered, so that it comes after what others clean up
    signal.signal(signal.SIGALRM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    except KeyboardInterrupt:
        heard = True
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as ended:
        heard = heard or ended.code == EXIT_INTERRUPTED  # a run that took the signal for itself, or Typer
        raise
    finally:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
