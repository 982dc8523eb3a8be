"""What the engine, its policies and its drivers expect of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from headway.core.block import Mode, Option, Segment
from headway.core.device import Core, Device
from headway.core.messages import Arrive, Decision, Dispatch, Event, Reply
from headway.core.request import Request
from headway.core.run import How, Outcome, Run


class Capability(StrEnum):
    """What a policy may use; the engine refuses decisions that need more than the policy declares."""

    FUSE = "fuse"
    PIPELINE = "pipeline"
    SPLIT = "split"
    PREEMPT = "preempt"
    THROTTLE = "throttle"
    REALLOCATE = "reallocate"
    BATCH = "batch"


class CostTable(Protocol):
    """The costs of one model on one device, computed once and only read afterwards.

    Indices: `block` in [0, blocks), `kind` a position in `kinds`. All sequences are plain Python lists or
    tuples so that a look-up costs well under a microsecond. `most_batch` is how many requests may run
    together as one batch.
    """

    most_batch: int
    blocks: int
    kinds: tuple[str, ...]
    serial_s: Sequence[
        Sequence[float]
    ]  # [block][kind], alone with the full bandwidth, nothing in SRAM before
    serial: Sequence[Sequence[Option]]  # [block][kind], the same as options
    best_s: Sequence[float]  # [block], the least of serial_s over the kinds
    remaining_s: Sequence[float]  # [block], sum of best_s from there on; one longer than blocks, last 0
    kept_bytes: Sequence[Sequence[float]]  # [block][kind], DRAM reads saved if the previous output is in SRAM
    unwritten_bytes: Sequence[
        Sequence[float]
    ]  # [block][kind], DRAM writes saved if only the next block, run there next, reads the output

    def stacks(self, block: int) -> Sequence[Option]:
        """Every fused stack on one core that starts there, fits, and saves bytes over its serial run."""
        ...

    def pipelines(self, block: int) -> Sequence[Option]:
        """The pipelines over several cores that start there and fit, stage cuts and band height chosen."""
        ...

    def option(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...] = (),
        band_rows: int | None = None,
    ) -> Option:
        """The cost of running that range that way. Raises ValueError saying why if it cannot be run so."""
        ...

    def segments(self, option: Option) -> Sequence[Segment]:
        """The stretches of constant demand that an option consists of, in order."""
        ...

    def of_batch(self, size: int) -> CostTable:
        """The costs of so many requests that run together. Raises ValueError if that many cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a dispatch is believed to take.

    `mean_s` and `upper_s` are seconds from now to its end beside the runs named in the question;
    `others_end_s` are their mean ends, in seconds from now, in the order given; `others_upper_s` their upper
    ones, empty where an estimator has none. `bandwidth_bytes_s` is the traffic it wants at full speed.
    `source` tells where the numbers come from, `tier` how much experience is in them, from 0 (the graph only)
    to 3 (overlaps of its own).
    """

    mean_s: float
    upper_s: float
    source: str
    bandwidth_bytes_s: float
    dram_bytes: float
    sram_bytes: float
    energy_pj: float
    others_end_s: tuple[float, ...] = ()
    others_upper_s: tuple[float, ...] = ()
    tier: int = 3


class Contention(Protocol):
    """What co-runners do to each other, used by belief and truth alike."""

    def rates(self, demands: Sequence[float]) -> list[float]:
        """The share of full speed, in (0, 1], of each run, given the bytes/s it would take at full speed."""
        ...


@runtime_checkable
class PairContention(Contention, Protocol):
    """Contention that depends on who runs beside whom: it is asked with `rates_of` in place of `rates`."""

    def rates_of(self, segments: Sequence[Segment], requests: Sequence[Request]) -> list[float]:
        """The share of full speed of each run, above 0, given the segment that it is in, and its request.

        It may be above 1 only in belief, of a run that is faster than its table says.
        """
        ...


class Estimator(Protocol):
    """Belief about costs."""

    def table(self, request: Request) -> CostTable:
        """The cost table of a request: that of its model, unless more is known of this one."""
        ...

    def option(self, dispatch: Dispatch) -> Option:
        """The option that a dispatch asks for. Raises ValueError if it cannot be run so."""
        ...

    def estimate(
        self,
        dispatches: Sequence[Dispatch],
        beside: Sequence[Run | Dispatch],
        extra_bytes: Sequence[float],
        now: float,
    ) -> list[Estimate]:
        """Estimates of several dispatches, each beside the same others."""
        ...


@runtime_checkable
class Observer(Protocol):
    """An estimator that learns from what happens.

    The engine hands it every row that it writes, in order, when it writes it. What is learnt must be a
    function of those rows alone, so that reading a log again teaches the same.
    """

    def observe(self, row: LogRow) -> None:
        """Learn from a row."""
        ...


class LogRow(NamedTuple):
    """One row of the event log. Fields that an event does not have stay None."""

    time_s: float
    event: str  # arrive, start, progress, adjust, stop, finish, reply, end
    request: int | None = None
    tenant: str | None = None
    model: str | None = None
    run: int | None = None
    first_block: int | None = None
    end_block: int | None = None
    mode: str | None = None
    cores: str | None = None  # core indices joined by "+"
    start_s: float | None = None  # start of the stretch that a progress row reports
    deadline_s: float | None = None
    isolated_s: float | None = None
    expected_end_s: float | None = None
    share: float | None = None
    dram_bytes: float | None = None
    link_bytes: float | None = None
    energy_pj: float | None = None
    macs: float | None = None
    outcome: str | None = None
    reason: str | None = None
    bandwidth_cap_bytes_s: float | None = None  # of a run from this start or adjust on, if it has one


class Sink(Protocol):
    """Takes the log."""

    def add(self, row: LogRow) -> None:
        """Append a row."""
        ...


class Clock(Protocol):
    """The time of a driver, in seconds."""

    def now(self) -> float: ...


class Executor(Protocol):
    """Runs blocks on the cores of a live device.

    A core is a lane: on a CPU a pinned set of threads, where preparing opens sessions; on a GPU a stream,
    where preparing captures a graph for each block and batch and `start` enqueues them. What crosses from
    block to block (boundary buffers in the device's memory) belongs to a request and stays from run to run
    until the request is over.

    After every block it posts a SafePoint with the times at which the block began and ended, at the end of
    the range a Finish. A stretch begins where the one before it ended, the first at the run's `started_s`.
    An error or a time-out posts Failed with its cause; the core is then free for the next run.

    One whose attribute `lends_threads` is true posts on threads that may be kept for a moment: the driver may
    decide there, and call `start`, `stop` and `release` before `post` returns. Without it the driver's own
    thread does.
    """

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        """Where events go, and the clock whose times they carry; called by each driver before it starts.

        `post` may be called from any thread.
        """
        ...

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Make ready to run the model's blocks on these cores together, so that no request pays for it.

        Raises HeadwayError if they cannot run so.
        """
        ...

    def start(self, run: Run) -> None:
        """Begin a run on its cores, which are free; returns at once."""
        ...

    def stop(self, run: Run, how: How) -> None:
        """Make a run end: at the end of its block (spill, drain) or in the middle of it (kill).

        Where blocks are enqueued ahead and cannot be taken back, as on a stream, it ends behind those.
        It posts a SafePoint that is marked as stopped, or Finish if it was at its end already.
        """
        ...

    def release(self, request: Request) -> None:
        """A request is over: what is kept for it is free."""
        ...

    def close(self) -> None:
        """End all threads and give everything back."""
        ...


@dataclass(frozen=True, slots=True)
class Skip:
    """A request that is not sent (the child of a dropped parent): counted and logged as dropped."""

    request: Request
    reason: str


class Source(Protocol):
    """Where requests come from. It may react to replies, drops included."""

    def first(self) -> Iterable[Arrive]:
        """Arrivals that depend on nothing, in order of time."""
        ...

    def after(self, reply: Reply, now: float) -> Iterable[Arrive | Skip]:
        """Arrivals that a reply causes, none earlier than now."""
        ...


class View(Protocol):
    """What a policy sees: read-only, valid during one call of decide."""

    @property
    def now(self) -> float:
        """The only time a policy knows, in seconds."""
        ...

    @property
    def device(self) -> Device: ...

    @property
    def ready(self) -> Sequence[Request]:
        """Requests that wait, sorted by the policy's key, then arrival, then id."""
        ...

    @property
    def idle(self) -> Sequence[Core]:
        """Cores without a run, and not reserved for one that moves, by index."""
        ...

    @property
    def running(self) -> Sequence[Run]:
        """Runs in the order they started."""
        ...

    @property
    def moving(self) -> Sequence[Run]:
        """Runs that an Adjust has stopped and whose requests wait for the last of their `moving_to`."""
        ...

    def table(self, request: Request) -> CostTable:
        """The cost table of the request's model."""
        ...

    def estimate(
        self, candidates: Sequence[Dispatch], beside: Sequence[Run | Dispatch] | None = None
    ) -> Sequence[Estimate]:
        """Estimates of candidates, each beside what runs now, or beside a hypothetical set."""
        ...

    def extra_dram_bytes(self, request: Request, first: int, mode: Mode, cores: Sequence[Core]) -> float:
        """What the residency ledger adds to (or saves from) the traffic of starting there."""
        ...

    def remaining_s(self, request: Request) -> float:
        """Optimistic seconds of work left: every remaining block on its best core at full bandwidth."""
        ...

    def bandwidth_free(self) -> float:
        """DRAM bytes per second that the running set, within its caps, does not ask for; negative if it asks
        for more."""
        ...

    def memory_free(self, core: Core) -> float:
        """SRAM bytes of a core that hold no output that waits for the next layer."""
        ...


@runtime_checkable
class Policy(Protocol):
    """A scheduler. Only `decide` is required; `headway.policies.Policy` gives defaults for the rest."""

    needs: frozenset[Capability]
    at_block_ends: bool  # whether decide is called, too, when a run goes on to its next block
    needs_accelerator: bool  # whether it is refused on lanes
    needs_lanes: bool  # whether it is refused on accelerators

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """Its place in `ready`, computed when it becomes ready."""
        ...

    def decide(self, view: View) -> Iterable[Decision]:
        """What to do now. All of it is collected before any of it is applied."""
        ...

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Called after each finished run."""
        ...

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Called for each request that is over, however it ended."""
        ...
