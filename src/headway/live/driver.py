"""The live driver: the simulator's twin on the wall clock, with executors in place of truth.

The driver's thread sends arrivals at their times and wakes the policy; a run's end is handled, where the
executor lends its threads, by the thread that has run it, which then goes on with what was decided. The
engine is the same. What is due at one moment goes to the engine together: ends before arrivals before ticks.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from time import thread_time
from typing import Final

from headway.core.engine import Engine
from headway.core.messages import (
    Arrive,
    Cancel,
    Change,
    Command,
    Event,
    Reply,
    SafePoint,
    Start,
    Stop,
    Tick,
    WakeAt,
)
from headway.core.protocols import Executor, Skip, Source
from headway.core.request import Request, State
from headway.core.run import How, Outcome
from headway.live.clock import LiveClock
from headway.live.log_writer import logging_behind
from headway.live.process_state import interruptible, undisturbed
from headway.live.report import LiveReport
from headway.live.thread_ranks import answering_soon
from headway.live.turns import Turns

QUEUE_LIMIT: Final = 1000
MOST_IDLE_WAKES: Final = 10_000


class LiveDriver:
    """Runs an engine over a source of requests in real time until every request has its reply.

    The engine should be forgiving, so that a faulty policy costs decisions, not the run. A tenant with
    `queue_limit` unanswered requests has further ones rejected at once. The first SIGINT, or `interrupt`,
    ends arrivals, cancels what waits and lets what runs finish; the second cancels that too, and the third
    is a KeyboardInterrupt, in case a block heeds nothing.

    Replies are given, and the source hears of them, on the thread that decided, one at a time.

    With `open_ended` it waits for requests that other threads post as Arrive events through the clock, whose
    bounds are theirs to keep, until `finish`.
    """

    def __init__(
        self,
        engine: Engine,
        source: Source,
        executor: Executor,
        clock: LiveClock,
        *,
        queue_limit: int = QUEUE_LIMIT,
        on_reply: Callable[[Reply], None] | None = None,
        open_ended: bool = False,
    ) -> None:
        self.engine = engine
        self._open = open_ended
        self._source = source
        self._executor = executor
        self._clock = clock
        self._queue_limit = queue_limit
        self._on_reply = on_reply
        self._arrivals: Iterator[Arrive] = iter(())
        self._ahead = 0  # arrivals of the open stream that are scheduled
        self._due: list[tuple[float, int, Arrive, bool]] = []  # time, sequence, arrival, of the open stream
        self._wakes: list[float] = []
        self._turns = Turns(self._step_elsewhere, lambda: clock.post(Tick()))
        self._lent = getattr(executor, "lends_threads", False)
        self._awaited_s: float | None = None
        self._nudged = False
        self._sequence = 0
        self._unanswered: Counter[str] = Counter()
        self._interrupts = 0
        self._interrupts_heeded = 0
        self._idle_wakes = 0
        self._requests = 0
        self._rejected = 0
        self._lag_s = array("d")

    def run(self) -> LiveReport:
        """Run to the end, close nothing, and say how it went.

        The engine's times are seconds from the call. The executor must be prepared.
        """
        engine, clock = self.engine, self._clock
        with interruptible(self._on_signal), undisturbed(), logging_behind(engine) as log, answering_soon():
            clock.start()
            self._executor.connect(self._hear, clock)
            cpu_before_s = thread_time()
            self._arrivals = iter(self._source.first())
            try:
                with self._turns:
                    goes_on = self._goes_on()
                while goes_on:
                    posted = clock.wait(self._awaited_s)
                    with self._turns:
                        self._step(posted)
                        goes_on = self._goes_on()
            finally:
                self._turns.close()
            end_s, cpu_s = clock.now(), thread_time() - cpu_before_s + self._turns.cpu_s
            engine.journal.ended(end_s)
            log.close()
            return LiveReport(
                end_s=end_s,
                requests=self._requests,
                rejected=self._rejected,
                decisions=engine.decisions,
                faults=engine.faults.count,
                last_faults=tuple(engine.faults.last),
                interrupted=self._interrupts > 0,
                driver_cpu_s=cpu_s,
                log_cpu_s=log.cpu_s,
                send_lag_s=self._lag_s,
            )

    def interrupt(self) -> None:
        """Ask for an early end, as SIGINT does; from any thread."""
        self._interrupts += 1
        self._clock.post(Tick())

    def finish(self) -> None:
        """End an open-ended run once all its requests have their replies; from any thread."""
        self._open = False
        self._clock.post(Tick())

    def _hear(self, event: Event) -> None:
        """Take an executor's event; called from its threads.

        That a run goes on to its next block makes hardly any policy act; then the engine need not hear of it
        before something else happens: most block ends wake nobody.
        """
        goes_on = isinstance(event, SafePoint) and not event.stopped and not self.engine.policy.at_block_ends
        if self._lent:
            (self._turns.leave if goes_on else self._turns.tell)(event)
        else:
            (self._clock.leave if goes_on else self._clock.post)(event)

    def _on_signal(self) -> None:
        self.interrupt()
        if self._interrupts > 2:
            raise KeyboardInterrupt

    def _goes_on(self) -> bool:
        """Whether there is something to wait for, and then until when: `_awaited_s`. For who has the turn:
        what is told before that is given back makes `_step_elsewhere` look again."""
        self._look_ahead()
        while not self._is_over():
            self._awaited_s, self._nudged = self._next_due_s(), False
            if self._awaited_s is not None or self.engine.running or not self.engine.requests:
                return True
            self._resolve_stall("no wake is set and no arrival is to come")
        return False

    def _is_over(self) -> bool:
        """Whether nothing is open and nothing will come; a policy may still have asked to be woken."""
        return not (self._due or self.engine.requests or self._open)

    def _step_elsewhere(self) -> None:
        """A step on an executor's thread. The driver's own is woken if it waits for something else now."""
        self._step(())
        due_s = self._next_due_s()
        if due_s is None:
            needed = not self.engine.running and (bool(self.engine.requests) or not self._open)
        else:
            needed = self._awaited_s is None or due_s < self._awaited_s or self._is_over()
        if needed and not self._nudged:
            self._nudged = True
            self._clock.post(Tick())

    def _step(self, posted: Sequence[Event]) -> None:
        events = self._turns.heard()
        now = self._clock.now()  # afterwards: nothing that is applied may be later than now
        if posted:
            events += [event for event in posted if self._is_current(event)]
        if self._interrupts > self._interrupts_heeded:
            events += self._heed_interrupt()
        if self._due and self._due[0][0] <= now:
            events += self._take_arrivals(now)
        if self._wakes and self._wakes[0] <= now:
            while self._wakes and self._wakes[0] <= now:
                heappop(self._wakes)
            events.append(Tick())
        if events:
            commands = self.engine.handle(events, now)
            self._carry_out(commands, now)
            self._count_idle_wake(events, commands)

    def _is_current(self, event: Event) -> bool:
        """Whether the engine can still do something with it: clients and ends of runs may cross."""
        if isinstance(event, Cancel):
            return event.request_id in self.engine.requests
        return not isinstance(event, Tick)

    # --- arrivals ----------------------------------------------------------------------------------

    def _take_arrivals(self, now: float) -> list[Event]:
        taken: list[Event] = []
        while self._due and self._due[0][0] <= now:
            _, _, arrival, of_stream = heappop(self._due)
            if of_stream:
                self._ahead -= 1
                if not self._ahead:
                    self._schedule_next_arrival()
            request = arrival.request
            self._requests += 1
            self._lag_s.append(now - request.arrival_s)
            if self._unanswered[request.tenant] >= self._queue_limit:
                self._reject(request, now)
                continue
            self._unanswered[request.tenant] += 1
            taken.append(arrival)
        return taken

    def _reject(self, request: Request, now: float) -> None:
        reason = f"tenant {request.tenant!r} has {self._queue_limit} requests unanswered already"
        self._rejected += 1
        request.to(State.DROPPED, now)
        self.engine.journal.unsent(request, Outcome.REJECTED, reason, now)
        self._answer(Reply(request, Outcome.REJECTED, reason), now)

    def _schedule(self, arrival: Arrive, of_stream: bool) -> None:
        self._sequence += 1
        heappush(self._due, (arrival.request.arrival_s, self._sequence, arrival, of_stream))

    def _look_ahead(self) -> None:
        """Have two arrivals of the open-loop stream scheduled, made while nothing waits for it."""
        while self._ahead < 2 and self._schedule_next_arrival():
            pass

    def _schedule_next_arrival(self) -> bool:
        arrival = next(self._arrivals, None)
        if arrival is None:
            return False
        self._ahead += 1
        self._schedule(arrival, True)
        return True

    def _next_due_s(self) -> float | None:
        if not self._due:
            return self._wakes[0] if self._wakes else None
        due_s = self._due[0][0]
        return min(due_s, self._wakes[0]) if self._wakes else due_s

    # --- commands ----------------------------------------------------------------------------------

    def _carry_out(self, commands: Sequence[Command], now: float) -> None:
        for command in commands:  # first, so that lanes work while the rest is done
            if isinstance(command, Start):
                self._executor.start(command.run)
        for command in commands:
            if isinstance(command, Start):
                continue
            if isinstance(command, Stop):
                self._executor.stop(command.run, command.how)
            elif isinstance(command, Change):
                raise AssertionError("lanes have no bandwidth caps")
            elif isinstance(command, WakeAt):
                heappush(self._wakes, command.at_s)
            else:
                self._unanswered[command.request.tenant] -= 1
                self._executor.release(command.request)
                self._answer(command, now)

    def _answer(self, reply: Reply, now: float) -> None:
        if self._on_reply is not None:
            self._on_reply(reply)
        for caused in self._source.after(reply, now):
            if isinstance(caused, Skip):
                self.engine.journal.unsent(caused.request, Outcome.DROPPED, caused.reason, now)
            elif not self._interrupts_heeded:
                self._schedule(caused, False)

    # --- endings -----------------------------------------------------------------------------------

    def _heed_interrupt(self) -> list[Event]:
        """The first time what waits is cancelled and nothing arrives any more; then what runs, too."""
        self._interrupts_heeded = self._interrupts
        self._arrivals, self._ahead = iter(()), 0
        self._due.clear()
        requests = list(self.engine.requests.values())
        if self._interrupts == 1:
            return [Cancel(request.id) for request in requests if request.state is State.READY]
        for run in list(self.engine.running.values()):
            self._executor.stop(run, How.KILL)
        return [Cancel(request.id) for request in requests]

    def _count_idle_wake(self, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """A policy that only has itself woken, while requests wait and nothing runs, has stalled too."""
        if (
            self.engine.running
            or any(not isinstance(event, Tick) for event in events)
            or any(not isinstance(command, WakeAt) for command in commands)
        ):
            self._idle_wakes = 0
            return
        self._idle_wakes += 1
        if self._idle_wakes >= MOST_IDLE_WAKES and self.engine.requests:
            self._idle_wakes = 0
            self._resolve_stall(f"it was woken {MOST_IDLE_WAKES} times in a row and did nothing")

    def _resolve_stall(self, why: str) -> None:
        """Requests wait, and nothing will ever make the policy act: earliest deadline does, or none can."""
        cause = f"the policy has stalled: {len(self.engine.ready)} requests wait, nothing runs, {why}"
        now = self._clock.now()
        self._carry_out(self.engine.fall_back(cause, now), now)
        if not self.engine.running:
            waiting = [Cancel(request.id) for request in self.engine.ready]
            self._carry_out(self.engine.handle(waiting, now), now)
