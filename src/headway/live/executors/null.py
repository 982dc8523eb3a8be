"""Executors that run nothing: blocks only take time. The live driver's tests run on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from time import perf_counter
from typing import Any

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.messages import Event, Failed, Finish, SafePoint
from headway.core.protocols import Clock
from headway.core.request import Request
from headway.core.run import How, Run
from headway.live.clock import VirtualClock
from headway.live.executors.lanes import Active, LaneExecutor, safe_point

BlockTimes = Mapping[str, Sequence[float]]
"""Seconds of each block of each model."""


class Idling(StrEnum):
    """How a block that does nothing spends its time."""

    SLEEP = "sleep"  # the processor is free meanwhile
    SPIN = "spin"  # the processor is busy, as it is with a real model


class Broken(Exception):
    """A block was told to fail, or was interrupted."""


class NullExecutor(LaneExecutor):
    """Real threads and real time, but blocks that sleep or spin.

    Args:
        seconds: of each block of each model, whatever the width and the batch.
        lanes: as for LaneExecutor.
        idling: how a block spends its time.
        fails: (request id, block) for which the block raises.
        timeout_s: as for LaneExecutor.
        pin: as for LaneExecutor.
    """

    def __init__(
        self,
        seconds: BlockTimes,
        lanes: Sequence[Sequence[int]],
        *,
        idling: Idling = Idling.SLEEP,
        fails: frozenset[tuple[int, int]] = frozenset(),
        timeout_s: float | None = None,
        pin: bool = False,
    ) -> None:
        super().__init__(lanes, timeout_s=timeout_s, pin=pin)
        self._seconds = seconds
        self._idling = idling
        self._fails = fails
        self._begun: set[int] = set()

    @property
    def held(self) -> int:
        """How many requests have begun and are not over."""
        return len(self._begun)

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Nothing to prepare. Raises HeadwayError for a model without times."""
        if model not in self._seconds:
            raise HeadwayError(f"no block times for {model!r}; accepted: {', '.join(self._seconds)}")

    def release(self, request: Request) -> None:
        """Forget the request."""
        self._begun.discard(request.id)

    def _begin(self, run: Run) -> Sequence[float]:
        for request in run.requests:
            if run.blocks.start and request.id not in self._begun:
                raise HeadwayError(f"request {request.id}: what its earlier blocks made is lost")
            self._begun.add(request.id)
        return self._seconds[run.request.model]

    def _run_block(self, job: Any, block: int, active: Active) -> None:
        until_s = perf_counter() + job[block]
        if any((request.id, block) in self._fails for request in active.run.requests):
            raise Broken("told to fail")
        if self._idling is Idling.SLEEP:
            interrupted = active.interruption.wait(max(0.0, until_s - perf_counter()))
        else:
            while not (interrupted := active.interruption.is_set()) and perf_counter() < until_s:
                pass
        if interrupted:
            raise Broken("interrupted")

    def _end(self, run: Run) -> None:
        pass


class VirtualExecutor:
    """No threads: block ends are calls on a virtual clock, so that a run is the same every time.

    Args:
        seconds: of each block of each model, whatever the cores and the batch.
        clock: the driver's.
        fails: (request id, block) that fail when their time is over.
    """

    def __init__(
        self,
        seconds: BlockTimes,
        clock: VirtualClock,
        *,
        fails: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._fails = fails
        self._post: Callable[[Event], None] = clock.post
        self._actives: dict[int, Active] = {}
        self.released: list[int] = []

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        """Where events go; the clock is the one it was made with."""
        self._post = post

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Nothing to prepare. Raises HeadwayError for a model without times."""
        if model not in self._seconds:
            raise HeadwayError(f"no block times for {model!r}; accepted: {', '.join(self._seconds)}")

    def start(self, run: Run) -> None:
        """Schedule the end of the first block."""
        active = self._actives[run.id] = Active(run, None)
        self._enter(active, run.started_s)

    def stop(self, run: Run, how: How) -> None:
        """Stop at the end of the block, or (kill) now."""
        active = self._actives.get(run.id)
        if active is None:
            return
        active.stop = how
        if how is How.KILL:
            del self._actives[run.id]
            now = self._clock.now()
            self._post(safe_point(run, active.block, active.began_s or 0.0, now, stopped=True, lost=True))

    def release(self, request: Request) -> None:
        """Note it."""
        self.released.append(request.id)

    def close(self) -> None:
        """Nothing to give back."""

    def _enter(self, active: Active, start_s: float) -> None:
        active.began_s = start_s
        seconds = self._seconds[active.run.request.model][active.block]
        self._clock.call_at(start_s + seconds, lambda: self._leave(active))

    def _leave(self, active: Active) -> None:
        run, block = active.run, active.block
        if self._actives.get(run.id) is not active:
            return  # it was killed
        point = safe_point(run, block, active.began_s or 0.0, self._clock.now(), stopped=False)
        if any((request.id, block) in self._fails for request in run.requests):
            self._finish(run, Failed(run.id, f"block {block} of {run.request.model}: told to fail"))
        elif block + 1 == run.blocks.stop:
            self._finish(run, Finish(run.id, point))
        elif active.stop is not None:
            self._finish(run, safe_point(run, block, point.start_s, self._clock.now(), stopped=True))
        else:
            self._post(point)
            active.block += 1
            self._enter(active, self._clock.now())

    def _finish(self, run: Run, event: Finish | Failed | SafePoint) -> None:
        del self._actives[run.id]
        self._post(event)
