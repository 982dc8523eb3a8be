"""The engine: a pure function from events and a time to commands, sole owner of requests and cores.

It never sleeps, reads a clock, draws a random number or runs a model. A driver gives it events and
carries out its commands; the policy sees its state through a View and answers with decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress

from headway.core.beginning import begin
from headway.core.block import Option
from headway.core.checks import (
    BadDecision,
    PolicyError,
    check_adjust,
    check_dispatch,
    check_drop,
    check_preempt,
    check_wake,
    require_able,
)
from headway.core.counsel import Counsel
from headway.core.decision_time import DecisionCharge, DecisionTimes
from headway.core.device import Device
from headway.core.expectation import expect_anew, expect_next, go_past, left_behind, passed_points
from headway.core.fallback import earliest_deadline
from headway.core.journal import Journal
from headway.core.messages import (
    Adjust,
    Arrive,
    Cancel,
    Change,
    Command,
    Decision,
    Dispatch,
    Drop,
    Event,
    Failed,
    Finish,
    Preempt,
    Reply,
    SafePoint,
    Start,
    Stop,
    Tick,
    Wake,
    WakeAt,
)
from headway.core.moves import Moves
from headway.core.protocols import Capability, Contention, Estimator, Observer, Policy, Sink
from headway.core.request import Request, State
from headway.core.residency import Ledger
from headway.core.run import REALLOCATED, How, Outcome, Run
from headway.core.running import RunningSet
from headway.core.view import EngineView
from headway.core.waiting import Alarms, ReadyQueue

_END_STATE = {
    Outcome.DONE: State.DONE,
    Outcome.DROPPED: State.DROPPED,
    Outcome.REJECTED: State.DROPPED,
    Outcome.CANCELLED: State.CANCELLED,
    Outcome.FAILED: State.FAILED,
}

_WHOLE = 1.0 - 1e-9  # shares are sums of floats
_NONE: Set[int] = frozenset()


class Engine:
    """Applies events, asks the policy, checks its answer, returns commands.

    All events of one call are applied before one `decide`. Decisions are checked in order, each against
    the state that earlier ones left; the first bad one raises BadDecision and voids the rest. With
    `forgiving` a policy's exception and a bad decision are counted in `faults` instead, and for that one
    time earliest deadline decides. Times are seconds; they must not decrease from call to call.

    With `charge` each decision takes time: the runs that it starts hold their cores from now on and begin to
    work that much later, whereas stops, drops and adjustments take effect at once, and decisions do not wait
    for each other. `decision_times` records how long the policy really took.

    An estimator that is an Observer hears of every row of the log.

    Raises HeadwayError for a policy that needs what the device cannot do.
    """

    def __init__(
        self,
        device: Device,
        policy: Policy,
        estimator: Estimator,
        contention: Contention,
        sink: Sink,
        *,
        forgiving: bool = False,
        charge: DecisionCharge | None = None,
        decision_times: DecisionTimes | None = None,
    ) -> None:
        require_able(device, policy)
        self.device = device
        self.policy = policy
        self.estimator = estimator
        self.journal = Journal(sink, estimator if isinstance(estimator, Observer) else None)
        self.now = 0.0
        self.ledger = Ledger(device)
        self._queue = ReadyQueue()
        self.ready = self._queue.requests
        self.moves = Moves(device.cores)
        self.idle = self.moves.idle
        self.running = RunningSet(contention, throttles=Capability.THROTTLE in policy.needs)
        self.requests: dict[int, Request] = {}
        self.decisions = 0
        self._charge = charge
        self._decision_s = 0.0
        self._counsel = Counsel(policy, decision_times, forgiving=forgiving)
        self.faults = self._counsel.faults
        self._next_run_id = 0
        self._alarms = Alarms()
        self._commands: list[Command] = []
        self.view = EngineView(self)

    # --- events ------------------------------------------------------------------------------------

    def handle(self, events: Sequence[Event], now: float) -> list[Command]:
        """Apply the events of one instant, let the policy decide if anything it could act on changed."""
        self.now = now
        self._commands = []
        consult = False
        passed = passed_points(events) if len(events) > 2 else _NONE
        for position, event in enumerate(events):
            if isinstance(event, SafePoint):
                consult |= self._on_safe_point(event, passed=position in passed)
            elif isinstance(event, Finish):
                self._on_finish(event)
                consult = True
            elif isinstance(event, Arrive):
                self._on_arrive(event.request)
                consult = True
            elif isinstance(event, Tick):
                self._on_tick()
                consult = True
            elif isinstance(event, Cancel):
                consult |= self._on_cancel(event)
            else:
                self._on_failed(event)
                consult = True
        if self.moves.by_request:
            for dispatch in self.moves.take_complete():
                self._start(dispatch, self.estimator.option(dispatch), 0.0)
        if consult and (self.ready or self.running):
            self._consult()
        return self._commands

    def _on_arrive(self, request: Request) -> None:
        self.requests[request.id] = request
        self.journal.arrived(request, self.now)
        if request.expires_s is not None:
            self._alarms.expire(request.id, request.expires_s)
            self._wake(request.expires_s)
        self._make_ready(request)

    def _on_cancel(self, event: Cancel) -> bool:
        """Give the request up, unless its reply crossed the cancellation."""
        request = self.requests.get(event.request_id)
        if request is None:
            return False
        self._give_up(request, Outcome.CANCELLED, "cancelled by the client")
        return True

    def _on_tick(self) -> None:
        for request_id in self._alarms.due(self.now):
            request = self.requests.get(request_id)
            if request is not None and not request.started:
                self._give_up(request, Outcome.DROPPED, "expired before it started")

    def _on_safe_point(self, event: SafePoint, *, passed: bool) -> bool:
        """Account for what was done; True if the policy is to be asked. A point that is `passed` has another
        one of the run behind it, before which nobody looks: then what is believed needs no revision."""
        run = self.running[event.run_id]
        self.journal.progressed(run, event, self.now)
        if event.stopped:
            self.journal.stopped(run, str(run.stopping if run.moving_to is None else REALLOCATED), self.now)
            self._requeue(run, event)
            return True
        run.next_block = event.end_block
        for request in run.requests:
            request.next_block = event.end_block
        run.resumed = 0.0
        run.segment += 1
        if passed:
            go_past(run, self.device.dram_bandwidth_bytes_s)
            return self.policy.at_block_ends
        at_s = self.now if event.end_s is None else event.end_s
        self.running.went_on()
        expect_next(run, self.device.dram_bandwidth_bytes_s, self.running.rate(run), at_s)
        return self.policy.at_block_ends

    def _on_finish(self, event: Finish) -> None:
        run = self.running[event.run_id]
        self.journal.progressed(run, event.last, self.now)
        self.journal.finished(run, self.now)
        if run.moving_to is not None:
            self.moves.end(run.request)
        self._release(run, run.blocks.stop, event.last.unspent_bytes)
        self._counsel.finished(run, self)
        for request in run.requests:
            request.next_block = run.blocks.stop
            if request.next_block == request.blocks:
                self._reply(request, Outcome.DONE, "", run.batch)
            else:
                self._after_run(run, request)

    def _on_failed(self, event: Failed) -> None:
        run = self.running[event.run_id]
        self.journal.stopped(run, "failed", self.now)
        self.moves.end(run.request)
        self._release(run, None)
        for request in run.requests:
            if run.batch > 1 and run.giving_up is None:
                request.most_batch, request.next_block = 1, 0  # once more from the start, alone
                self._after_run(run, request)
            else:
                self._reply(request, Outcome.FAILED, event.cause)

    def _requeue(self, run: Run, event: SafePoint) -> None:
        done = 0.0 if event.lost else run.resumed + event.share
        at_block_end = done >= _WHOLE
        self._release(run, event.end_block if at_block_end else None, event.unspent_bytes)
        partial = left_behind(run, event, done) if 0.0 < done < _WHOLE and run.batch == 1 else None
        for request in run.requests:
            request.next_block = event.end_block if at_block_end else event.first_block
            request.partial = partial
            self._after_run(run, request)

    def _after_run(self, run: Run, request: Request) -> None:
        """A run is over and its request is not: it ends if it was given up, else moves or waits again."""
        if run.giving_up is not None:
            self._reply(request, *run.giving_up)
            return
        if run.moving_to is not None:
            request.to(State.MOVING, self.now)
            return
        request.to(State.READY, self.now)
        self._make_ready(request)

    # --- state -------------------------------------------------------------------------------------

    def _make_ready(self, request: Request) -> None:
        request.ready_since_s = self.now
        request.key = self._counsel.key(request, self)
        self._queue.add(request)

    def _release(self, run: Run, end_block: int | None, unspent_bytes: float = 0.0) -> None:
        """Free a run's cores; `end_block` is given if it ended at a block's end: its output may stay."""
        self.running.leave(run)
        self.moves.free(run.cores)
        if end_block is not None:
            table = self.estimator.table(run.request)
            self.ledger.end(run.request, table, end_block, run.cores, unspent_bytes)

    def _reply(self, request: Request, outcome: Outcome, reason: str, batch: int = 1) -> None:
        request.to(_END_STATE[outcome], self.now)
        self.journal.replied(request, outcome, reason, self.now)
        del self.requests[request.id]
        self._commands.append(Reply(request, outcome, reason, batch))
        self._counsel.gone(request, outcome, self)

    def _give_up(self, request: Request, outcome: Outcome, reason: str) -> None:
        run = self.running.of(request)
        self.moves.end(request)
        if run is None:
            if request.state is State.READY:
                self._queue.remove(request)
            self._reply(request, outcome, reason)
            return
        if len(run.requests) > 1:
            self.running.part(run, request)
            self._reply(request, outcome, reason)
            return
        run.giving_up = (outcome, reason)
        self._stop(run, How.SPILL)

    def _stop(self, run: Run, how: How) -> None:
        if run.stopping is not None and run.stopping is not How.DRAIN:
            return  # it already stops as early as it can
        run.stopping = how
        for request in run.requests:
            if request.state is State.RUNNING:
                request.to(State.STOPPING, self.now)
        self._commands.append(Stop(run, how))

    def _wake(self, at_s: float) -> None:
        if self._alarms.set(at_s):
            self._commands.append(WakeAt(at_s))

    # --- decisions ---------------------------------------------------------------------------------

    def fall_back(self, cause: str, now: float) -> list[Command]:
        """Count a fault of the policy that the driver found, and let earliest deadline decide."""
        self.now = now
        self._commands = []
        self._fall_back(cause)
        return self._commands

    def _consult(self) -> None:
        self.decisions += 1
        if self._charge is not None:
            self._decision_s = self._charge.seconds(len(self.ready), len(self.idle))
        try:
            self._apply(self._counsel.answer(self))
        except PolicyError as error:
            if not self._counsel.forgiving:
                raise
            self._fall_back(str(error))

    def _fall_back(self, cause: str) -> None:
        self.faults.add(self.now, cause)
        self.faults.fallbacks += 1
        for decision in list(earliest_deadline(self.view)):
            with suppress(BadDecision):  # that core cannot run it, the next one may
                self._dispatch(decision)

    def _apply(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Dispatch):
                self._dispatch(decision)
            elif isinstance(decision, Adjust):
                check_adjust(self, decision)
                self._adjust(decision)
            elif isinstance(decision, Preempt):
                check_preempt(self, decision)
                self.moves.end(decision.run.request)
                self._stop(decision.run, decision.how)
            elif isinstance(decision, Drop):
                check_drop(self, decision)
                self._give_up(decision.request, Outcome.DROPPED, decision.reason)
            elif isinstance(decision, Wake):
                check_wake(self, decision)
                self._wake(decision.at_s)
            else:
                raise BadDecision(f"returned {decision!r}; accepted: Dispatch, Adjust, Preempt, Drop, Wake")

    def _dispatch(self, decision: Dispatch) -> None:
        option = check_dispatch(self, decision)
        for request in decision.requests:
            self._queue.remove(request)
        for core in decision.cores:
            self.idle.remove(core)
        self._start(decision, option, self._decision_s)

    def _start(self, dispatch: Dispatch, option: Option, decision_s: float) -> None:
        """Start a run on cores that are in nobody's hands."""
        for request in dispatch.requests:
            request.to(State.RUNNING, self.now)
        run = begin(self, self._next_run_id, dispatch, option, decision_s)
        self._next_run_id += 1
        self.journal.started(run, self.now)
        self._commands.append(Start(run))

    def _adjust(self, decision: Adjust) -> None:
        run, cores, cap_bytes_s = decision.run, decision.cores, decision.bandwidth_cap_bytes_s
        before = run.bandwidth_cap_bytes_s, run.moving_to
        if cap_bytes_s is not None and cap_bytes_s != run.bandwidth_cap_bytes_s:
            run.bandwidth_cap_bytes_s = cap_bytes_s
            self.running.recapped()
            expect_anew(run, self.running.rate(run), self.now)
            self._commands.append(Change(run))
        if cores is not None and (run.moving_to is not None or set(cores) != set(run.cores)):
            self.moves.begin(run, cores)
            if run.stopping is None:
                self._stop(run, How.DRAIN)
        if (run.bandwidth_cap_bytes_s, run.moving_to) != before:
            self.journal.adjusted(run, self.now)
