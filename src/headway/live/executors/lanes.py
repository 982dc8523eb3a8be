"""Lanes on a CPU: a worker thread for each, pinned to the lane's processors; what it runs is a subclass's."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, Final

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.messages import Event, Failed, Finish, SafePoint
from headway.core.protocols import Clock
from headway.core.request import Request
from headway.core.run import How, Run
from headway.live.clock import WallClock
from headway.live.processors import CAN_PIN, check_lanes, staying_on
from headway.live.thread_ranks import give_way

_CHECKS_PER_TIMEOUT: Final = 8
_CLOSE_WAIT_S: Final = 5.0
_point: Final = tuple.__new__  # of all fields, in order: half of the time of SafePoint's own function


def safe_point(
    run: Run, block: int, start_s: float, end_s: float, *, stopped: bool = False, lost: bool = False
) -> SafePoint:
    """What a run reports at a block's end; killed within it, everything of that block is lost."""
    share = 0.0 if lost else 1.0
    return _point(
        SafePoint,
        (run.id, block, block + 1, start_s, 0.0, 0.0, 0.0, 0.0, share, stopped, lost, end_s, 0.0),
    )


def lone_run(
    id: int, request: Request, cores: Sequence[Core], now: float, others: Sequence[Request] = ()
) -> Run:
    """A run of all blocks of a request, or of a batch with others, that no engine knows of."""
    return Run(
        id=id,
        requests=(request, *others),
        blocks=range(request.blocks),
        cores=tuple(cores),
        mode=Mode.SPLIT if len(cores) > 1 else Mode.SERIAL,
        cuts=(),
        band_rows=None,
        started_s=now,
        expected_end_s=now,
        block_end_s=now,
        step_s=0.0,
        bandwidth_bytes_s=0.0,
        batch=1 + len(others),
    )


class Active:
    """A run in progress on a lane, as the threads around it see it.

    `began_s` is when its present block began, by the clock; None between blocks. `interruption` is whatever
    a subclass needs for ending a block early.
    """

    __slots__ = ("began_s", "block", "interruption", "run", "stop", "timed_out")

    def __init__(self, run: Run, interruption: Any) -> None:
        self.run = run
        self.block = run.blocks.start
        self.began_s: float | None = None
        self.stop: How | None = None
        self.timed_out = False
        self.interruption = interruption


class LaneExecutor(ABC):
    """An executor whose cores are lanes: sets of processors, of which each has one worker thread.

    The worker stays on its lane's first processor. A run on several lanes is led by the worker of the first;
    all other processors are left to the threads with which that run's sessions were opened.

    Args:
        lanes: for each core, by index, the numbers of its processors.
        timeout_s: a block that takes longer is ended and its request failed; None waits for ever.
        pin: whether threads stay on their lane's processors; False leaves it to the system, as does a system
            that cannot.

    Raises:
        HeadwayError: a lane without processors, one processor in two lanes, or one that this process may not
            use.
    """

    lends_threads = True

    def __init__(
        self, lanes: Sequence[Sequence[int]], *, timeout_s: float | None = None, pin: bool = True
    ) -> None:
        self.lanes = tuple(tuple(lane) for lane in lanes)
        self.timeout_s = timeout_s
        self.pinned = pin and CAN_PIN
        check_lanes(self.lanes, pinned=self.pinned)
        self._post: Callable[[Event], None] = _not_connected
        self._clock: Clock = WallClock()
        self._actives: dict[int, Active] = {}
        self._queues: list[SimpleQueue[Active | None]] = [SimpleQueue() for _ in self.lanes]
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connected = self._watching = False
        self._spares: list[Any] = []

    # --- the Executor protocol ---------------------------------------------------------------------

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        """Where events go, and the clock whose times they carry; the first call starts the threads."""
        self._post, self._clock = post, clock
        if self._connected:
            return
        self._connected = True
        for index in range(len(self.lanes)):
            self._spawn(f"lane {index}", self._work, index)
        self._watch_blocks()

    @abstractmethod
    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Make ready to run the model's blocks on these cores together."""

    def start(self, run: Run) -> None:
        """Begin a run on its lanes, which are free."""
        active = Active(run, self._spares.pop() if self._spares else self._interruption())
        self._actives[run.id] = active
        self._queues[run.cores[0].index].put(active)
        self._spares.append(self._interruption())  # while the lane works

    def stop(self, run: Run, how: How) -> None:
        """Make a run end at the end of its block, or (kill) in the middle of it where that can be done."""
        active = self._actives.get(run.id)
        if active is None:
            return  # its last event is on its way
        if active.stop is not How.KILL:  # nothing is gentler than what was asked before
            active.stop = how
        if how is How.KILL and self._is_repeatable(run):
            self._interrupt(active)

    @abstractmethod
    def release(self, request: Request) -> None:
        """A request is over: what is kept for it is free."""

    def close(self) -> None:
        """Interrupt what runs, end all threads, and give everything back."""
        self._closing.set()
        for active in list(self._actives.values()):
            active.stop = How.KILL
            self._interrupt(active)
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_WAIT_S)  # a kernel that does not heed the interruption dies with the process

    def rehearse(
        self, request: Request, cores: Sequence[Core], others: Sequence[Request] = ()
    ) -> list[float]:
        """Run all blocks of a request, or of a batch with others, now, on this thread; returns the seconds of
        each.

        Everything that lies between two safe points of a real run is in them; handing the run to a lane is
        not. The thread is kept where the first lane's worker would be.

        Raises:
            HeadwayError: a block failed.
        """
        posted: list[Event] = []
        run = lone_run(-1, request, cores, 0.0, others)
        post, self._post = self._post, posted.append
        self._watch_blocks()
        active = self._actives[run.id] = Active(run, self._interruption())
        try:
            with self._on(self.lanes[cores[0].index][:1]):
                run.started_s = self._clock.now()
                posted.append(self._carry_out(active))
        finally:
            self._post = post
            del self._actives[run.id]
        points = [event.last if isinstance(event, Finish) else event for event in posted]
        failed = [point.cause for point in points if isinstance(point, Failed)]
        if failed:
            raise HeadwayError(failed[0])
        return [
            point.end_s - point.start_s
            for point in points
            if isinstance(point, SafePoint) and point.end_s is not None
        ]

    # --- for subclasses ----------------------------------------------------------------------------

    def width(self, cores: Sequence[Core]) -> int:
        """How many threads these lanes have together."""
        return sum(len(self.lanes[core.index]) for core in cores)

    @abstractmethod
    def _begin(self, run: Run) -> Any:
        """What is needed to run a run's blocks. Raises an exception where the request cannot go on."""

    @abstractmethod
    def _run_block(self, job: Any, block: int, active: Active) -> None:
        """Run one block. Raises an exception if it fails or was interrupted."""

    @abstractmethod
    def _end(self, run: Run) -> None:
        """The last block of its requests has run: take their results."""

    def _is_repeatable(self, run: Run) -> bool:
        """Whether a block that is broken off leaves its inputs as they were, so that it can be run again."""
        return True

    def _interruption(self) -> Any:
        """Made for each run, and used by `_interrupt`."""
        return threading.Event()

    def _interrupt(self, active: Active) -> None:
        """Make the present block fail soon; called from another thread than the one that runs it."""
        active.interruption.set()

    def _on(self, processors: Sequence[int]) -> AbstractContextManager[None]:
        """Keep this thread, and those that it starts meanwhile, on these processors, if that is wanted."""
        return staying_on(processors if self.pinned else ())

    # --- threads -----------------------------------------------------------------------------------

    def _spawn(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name=f"headway {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch_blocks(self) -> None:
        if self.timeout_s is not None and not self._watching:
            self._watching = True
            self._spawn("block time-outs", self._watch, self.timeout_s)

    def _work(self, index: int) -> None:
        give_way()
        with self._on(self.lanes[index][:1]):
            while (active := self._queues[index].get()) is not None:
                last = self._carry_out(active)
                del self._actives[active.run.id]
                self._post(last)

    def _carry_out(self, active: Active) -> Event:
        """Run blocks until the run is over or stopped; returns its last event."""
        run, now = active.run, self._clock.now
        start_s, table_end = run.started_s, run.request.blocks
        try:
            job = self._begin(run)
            for block in run.blocks:
                active.block, active.began_s = block, now()
                self._run_block(job, block, active)
                active.began_s = None
                if block + 1 == table_end:
                    self._end(run)
                end_s = now()
                if block + 1 == run.blocks.stop:
                    return Finish(run.id, safe_point(run, block, start_s, end_s))
                stopped = active.stop is not None
                point = safe_point(run, block, start_s, end_s, stopped=stopped)
                if stopped:
                    return point
                self._post(point)
                start_s = end_s
        except Exception as error:
            active.began_s = None
            if active.stop is How.KILL and not active.timed_out:
                return safe_point(run, active.block, start_s, now(), stopped=True, lost=True)
            return Failed(run.id, self._cause(active, error))
        raise AssertionError("a run has at least one block")

    def _cause(self, active: Active, error: Exception) -> str:
        if active.timed_out:
            return f"block {active.block} of {active.run.request.model} ran for more than {self.timeout_s} s"
        if isinstance(error, HeadwayError):
            return str(error)
        return f"block {active.block} of {active.run.request.model}: {type(error).__name__}: {error}"

    def _watch(self, timeout_s: float) -> None:
        while not self._closing.wait(timeout_s / _CHECKS_PER_TIMEOUT):
            now = self._clock.now()
            for active in list(self._actives.values()):
                began_s = active.began_s
                if began_s is not None and now - began_s > timeout_s:
                    active.timed_out = True
                    self._interrupt(active)


def _not_connected(event: Event) -> None:
    raise AssertionError("an executor is connected before its first run starts")
