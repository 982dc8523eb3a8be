"""The simulator's driver: one heap, virtual time, the engine unchanged.

Events have a total order, (time, rank, sequence): segment ends before arrivals before ticks, and among
equals the one scheduled first. All events of one instant go to the engine together.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush

from headway.core.checks import PolicyError
from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.messages import (
    Arrive,
    Change,
    Command,
    Event,
    Reply,
    Start,
    Stop,
    Tick,
    WakeAt,
)
from headway.core.protocols import Contention, CostTable, Skip, Source
from headway.core.run import Outcome
from headway.sim.noise import Noise
from headway.sim.speed import Speed
from headway.sim.truth import Active, FluidTruth
from headway.sim.warm import WarmStarts

_SEGMENT_END, _ARRIVAL, _TICK = 0, 1, 2

MOST_IDLE_WAKES = 100_000
"""Wakes in a row at which nothing else happens and the policy does nothing, before it counts as stalled."""


class Stalled(PolicyError):
    """Requests wait, but nothing runs, no wake is set and no arrival is to come; or the policy only has
    itself woken."""


class Simulation:
    """Runs an engine over a source of requests until every request has its reply.

    `speed` is how the machine's varies, `warm` what a dispatch saves on a lane that was busy just before.
    """

    def __init__(
        self,
        engine: Engine,
        source: Source,
        device: Device,
        tables: Mapping[str, CostTable],
        contention: Contention,
        noise: Noise,
        on_reply: Callable[[Reply], None] | None = None,
        *,
        speed: Speed | None = None,
        warm: WarmStarts | None = None,
    ) -> None:
        self.engine = engine
        self.now = 0.0
        self._source = source
        self._truth = FluidTruth(device, tables, contention, noise, self._push_end, speed, warm)
        self._heap: list[tuple[float, int, int, Active | Arrive | Tick, int]] = []
        self._sequence = 0
        self._on_reply = on_reply
        self._arrivals: Iterator[Arrive] = iter(())
        self._idle_wakes = 0

    def run(self) -> float:
        """Simulate to the end; returns the time of the last event in seconds.

        Raises PolicyError for whatever is the policy's fault: Stalled if it leaves ready requests with
        nothing to wait for, BadDecision if it returns something that cannot be done, PolicyFailed if it
        raises an exception.
        """
        with _without_collector():
            return self._run()

    def _run(self) -> float:
        self._arrivals = iter(self._source.first())
        self._push_next_arrival()
        heap, engine, truth = self._heap, self.engine, self._truth
        while heap:
            now = heap[0][0]
            events: list[Event] = []
            while heap and heap[0][0] == now:
                _, _, _, what, version = heappop(heap)
                if isinstance(what, Active):
                    if version == what.version:
                        ended = truth.end_segment(what, now)
                        if ended is None:
                            truth.settle(now)
                        else:
                            events.append(ended)
                elif isinstance(what, Arrive):
                    events.append(what)
                    if version:
                        self._push_next_arrival()
                else:
                    events.append(what)
            if not events:
                continue
            self.now = now
            commands: Sequence[Command] = engine.handle(events, now)
            if isinstance(events[0], Tick):  # ticks come after all else of their instant
                self._count_idle_wake(commands)
            else:
                self._idle_wakes = 0
            for command in commands:
                self._carry_out(command, now)
            truth.settle(now)
        if engine.requests:
            raise Stalled(
                f"the policy has stalled at {self.now:.6f} s: {len(engine.ready)} requests wait,"
                " nothing runs, no wake is set and no arrival is to come"
            )
        engine.journal.ended(self.now)
        return self.now

    def _count_idle_wake(self, commands: Sequence[Command]) -> None:
        """A policy that is woken again and again and never does anything would keep virtual time busy
        forever."""
        if any(not isinstance(command, WakeAt) for command in commands):
            self._idle_wakes = 0
            return
        self._idle_wakes += 1
        if self._idle_wakes >= MOST_IDLE_WAKES:
            engine = self.engine
            raise Stalled(
                f"the policy has stalled at {self.now:.9f} s: it was woken {self._idle_wakes} times in a row"
                f" and did nothing; {len(engine.ready)} requests wait, {len(engine.running)} run"
            )

    def _carry_out(self, command: Command, now: float) -> None:
        if isinstance(command, Start):
            self._truth.start(command.run, now)
        elif isinstance(command, Stop):
            self._truth.stop(command.run, command.how, now)
        elif isinstance(command, Change):
            self._truth.change(command.run)
        elif isinstance(command, WakeAt):
            self._push(max(command.at_s, now), _TICK, Tick(), 0)
        else:
            if self._on_reply is not None:
                self._on_reply(command)
            for next_one in self._source.after(command, now):
                if isinstance(next_one, Skip):
                    self.engine.journal.unsent(next_one.request, Outcome.DROPPED, next_one.reason, now)
                else:
                    self._push(max(next_one.request.arrival_s, now), _ARRIVAL, next_one, 0)

    def _push(self, at_s: float, rank: int, what: Active | Arrive | Tick, version: int) -> None:
        self._sequence += 1
        heappush(self._heap, (at_s, rank, self._sequence, what, version))

    def _push_end(self, at_s: float, active: Active, version: int) -> None:
        self._sequence += 1
        heappush(self._heap, (at_s, _SEGMENT_END, self._sequence, active, version))

    def _push_next_arrival(self) -> None:
        """Keep exactly one arrival of the open-loop stream in the heap (marked by version 1)."""
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self._push(arrival.request.arrival_s, _ARRIVAL, arrival, 1)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Suspend Python's cycle collector: a run makes millions of small objects and no cycles, and searching
    them for cycles again and again takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
