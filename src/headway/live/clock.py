"""The live driver's time and its inbox: they are one thing, since waiting for either is waiting for both."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Final, Protocol

from headway.core.messages import Event

LONGEST_WAIT_S: Final = 86_400.0
"""A time may be further away than the system can wait for."""


class LiveClock(Protocol):
    """Time in seconds since `start`, and the events that other threads post."""

    def start(self) -> None:
        """Time is 0 now."""
        ...

    def now(self) -> float:
        """Seconds since the start; never less than before."""
        ...

    def post(self, event: Event) -> None:
        """Put an event into the inbox; from any thread, and from signal handlers."""
        ...

    def leave(self, event: Event) -> None:
        """Put an event where the next wait that ends finds it, before those posted later; from any thread."""
        ...

    def wait(self, until_s: float | None) -> list[Event]:
        """All events, as soon as one is posted or that time comes. None waits for ever."""
        ...


class WallClock:
    """Real time, which other processes of the machine share."""

    def __init__(self) -> None:
        self._origin_s = perf_counter()
        self._inbox: SimpleQueue[Event] = SimpleQueue()
        self._left: deque[Event] = deque()

    def start(self) -> None:
        """Time is 0 now."""
        self._origin_s = perf_counter()

    def now(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self._origin_s

    def post(self, event: Event) -> None:
        """Put an event into the inbox; from any thread, and from signal handlers."""
        self._inbox.put(event)

    def leave(self, event: Event) -> None:
        """Put an event where the next wait that ends finds it, before those posted later; from any thread."""
        self._left.append(event)

    def wait(self, until_s: float | None) -> list[Event]:
        """All events, as soon as one is posted or that time comes, or after a day. None waits for ever."""
        posted: list[Event] = []
        with suppress(Empty):
            timeout_s = None if until_s is None else min(max(0.0, until_s - self.now()), LONGEST_WAIT_S)
            posted.append(self._inbox.get(timeout_s != 0.0, timeout_s))
            while not self._inbox.empty():
                posted.append(self._inbox.get_nowait())
        # Looked at last, and put first: what was left before one of these was posted is then before it.
        left = self._left
        return [*(left.popleft() for _ in range(len(left))), *posted]


class VirtualClock:
    """Time that passes only while the driver waits: what happens at which time is settled beforehand.

    `call_at` takes the place of threads that work. Calls at one time are made in the order they were asked
    for, and before a wait until that time ends.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._inbox: list[Event] = []
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._asked = 0

    def start(self) -> None:
        """Time is 0 already."""

    def now(self) -> float:
        """Seconds since the start."""
        return self._now_s

    def post(self, event: Event) -> None:
        """Put an event into the inbox."""
        self._inbox.append(event)

    def leave(self, event: Event) -> None:
        """The same as posting: waiting costs nothing here."""
        self._inbox.append(event)

    def call_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Have something done at that time, or at once if it is past."""
        self._asked += 1
        heappush(self._calls, (max(at_s, self._now_s), self._asked, call))

    def wait(self, until_s: float | None) -> list[Event]:
        """As the protocol says. Raises RuntimeError if it would wait for ever."""
        while not self._inbox and self._calls and (until_s is None or self._calls[0][0] <= until_s):
            self._advance()
        if not self._inbox:
            if until_s is None:
                raise RuntimeError("nothing will ever happen on this clock")
            self._now_s = max(self._now_s, until_s)
        while self._calls and self._calls[0][0] <= self._now_s:
            self._advance()
        events, self._inbox = self._inbox, []
        return events

    def _advance(self) -> None:
        at_s, _, call = heappop(self._calls)
        self._now_s = at_s
        call()
