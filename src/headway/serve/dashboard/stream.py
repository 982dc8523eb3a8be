"""Snapshots for all who look: a few times a second at most, however many they are, and none for nobody."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from headway.serve.dashboard.snapshot import Shown, spans_of, state_of
from headway.serve.dashboard.timeline import Span
from headway.serve.refusal import Cause, Refusal

EVERY_S: Final = 0.5
MOST_VIEWERS: Final = 32
RETRY_MS: Final = 1000


@dataclass(frozen=True)
class Moment:
    """One snapshot; `following` is what those are sent who got the one before it: spans since then only."""

    number: int
    made_s: float
    following: bytes
    state: dict[str, Any]
    spans: list[Span]

    @cached_property
    def whole(self) -> bytes:
        """For everybody else: all spans that are shown."""
        return encoded(self.number, self.state, self.spans, whole=True)


def encoded(number: int, state: dict[str, Any], spans: list[Span], *, whole: bool) -> bytes:
    """A moment as JSON."""
    data = {**state, "number": number, "whole": whole, **spans_of(spans)}
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


class Snapshots:
    """Makes moments of what is shown; one at a time, on a thread, so that requests do not wait for it.

    `made` counts them, `viewers` those who look.
    """

    def __init__(self, shown: Shown, every_s: float = EVERY_S) -> None:
        self._shown, self.every_s = shown, every_s
        self._latest: Moment | None = None
        self._making = asyncio.Lock()
        self._at_work = threading.Lock()  # a viewer that goes leaves its thread to end alone
        self.viewers = 0
        self.made = 0

    async def latest(self) -> Moment:
        """A moment that is at most `every_s` old."""
        async with self._making:
            latest = self._latest
            if latest is None or time.monotonic() - latest.made_s >= self.every_s:
                latest = self._latest = await asyncio.to_thread(self._make)
            return latest

    async def whole(self, moment: Moment) -> bytes:
        """All of a moment; encoded once, on a thread."""
        async with self._making:
            return await asyncio.to_thread(lambda: moment.whole)

    def require_room(self) -> None:
        """Raise Refusal (UNAVAILABLE) if too many look already."""
        if self.viewers >= MOST_VIEWERS:
            raise Refusal(
                Cause.UNAVAILABLE, f"{MOST_VIEWERS} pages are open, which is the limit", retry_after_s=5.0
            )

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Moments as server-sent events, until the viewer goes.

        One who reads too slowly misses some and then gets a whole one.
        """
        self.viewers += 1
        number = None
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            while True:
                moment = await self.latest()
                if moment.number != number:
                    follows = number is not None and moment.number == number + 1
                    number = moment.number
                    body = moment.following if follows else await self.whole(moment)
                    yield b"data: " + body + b"\n\n"
                await asyncio.sleep(max(0.01, moment.made_s + self.every_s - time.monotonic()))
        finally:
            self.viewers -= 1

    def _make(self) -> Moment:
        shown = self._shown
        with self._at_work:
            new, lost = shown.timeline.take(shown.now())
            made_s = time.monotonic()
            self.made += 1
            state = {**state_of(shown), "lost": lost}
            following = encoded(self.made, state, new, whole=False)
            return Moment(self.made, made_s, following, state, shown.timeline.spans())
