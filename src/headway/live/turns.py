"""Whoever hears of an event decides: threads take turns with one engine, and none waits for another.

The thread of a lane that has ended a run would otherwise have to wake the driver's thread, wait until that
has decided, and be woken with the next run; in a virtual machine each of these takes tens of microseconds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Final

from headway.core.messages import Event

_CLOSE_WAIT_S: Final = 1.0


class Turns:
    """The right to step the engine, which one thread has at a time; `with` takes it, and waits for it.

    Executors' threads never wait: if somebody has the turn, their event is left to that thread, which steps
    once more before it goes on to something else (flat combining: Hendler et al., SPAA 2010). So they may
    hold locks while they tell of something, and a step may make them tell of more.

    `cpu_s` is the processor time of steps on executors' threads.

    Args:
        step: applies what was heard; called on the thread that has the turn.
        on_error: called after a step on another thread than the driver's has raised something; the next
            `with` raises that again.
    """

    def __init__(self, step: Callable[[], None], on_error: Callable[[], None]) -> None:
        self._step = step
        self._on_error = on_error
        self._heard: deque[Event] = deque()
        self._pressing = False
        self._closed = False
        self._turn = threading.Lock()
        self._error: BaseException | None = None
        self.cpu_s = 0.0

    def leave(self, event: Event) -> None:
        """Let the next step find an event, whatever causes it; from any thread."""
        self._heard.append(event)

    def tell(self, event: Event) -> None:
        """Have an event applied: on this thread, or by the one whose turn it is; from any thread."""
        self._heard.append(event)
        self._pressing = True  # after the event is there, and before the turn is tried: else it could be lost
        self._work_off()

    def heard(self) -> list[Event]:
        """What was left and told since the last step, in order; for who has the turn."""
        heard = self._heard
        return [heard.popleft() for _ in range(len(heard))]

    def close(self) -> None:
        """Apply nothing any more. A step that hangs on another thread is not waited for."""
        self._closed = True
        if self._turn.acquire(timeout=_CLOSE_WAIT_S):
            self._turn.release()

    def __enter__(self) -> None:
        self._turn.acquire()
        if self._error is not None:
            self._turn.release()
            raise self._error

    def __exit__(self, *_: object) -> None:
        self._turn.release()
        self._work_off()

    def _work_off(self) -> None:
        while self._pressing and not self._closed and self._turn.acquire(blocking=False):
            began_s = thread_time()
            self._pressing = False
            try:
                self._step()
            except BaseException as error:
                self._closed, self._error = True, error
                self._on_error()
            finally:
                self.cpu_s += thread_time() - began_s
                self._turn.release()
