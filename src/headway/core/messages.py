"""What goes into the engine (events), what a policy returns (decisions), what comes out (commands)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.request import Request
from headway.core.run import How, Outcome, Run

# --- events: from the driver to the engine ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrive:
    """A request arrives, at its arrival time."""

    request: Request


class SafePoint(NamedTuple):
    """A run reached the end of a segment, or stopped where it was asked to.

    The counts are what was done since the previous safe point. `share` is how much of the range from
    `first_block` to `end_block` that was; below 1 only if the run stopped inside it. `end_s` is when it was
    where the driver hears of it later; None is the time at which the engine is told.
    `unspent_bytes` (0 or negative) is what the residency ledger gave back beyond all traffic there was.
    There is one for every layer that runs; a named tuple is made three times as fast as a frozen dataclass.
    """

    run_id: int
    first_block: int
    end_block: int
    start_s: float
    dram_bytes: float
    link_bytes: float
    energy_pj: float
    macs: float
    share: float = 1.0
    stopped: bool = False
    lost: bool = False  # killed: the share was computed but is thrown away
    end_s: float | None = None
    unspent_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Finish:
    """A run is over; `last` is what it did since its last safe point."""

    run_id: int
    last: SafePoint


@dataclass(frozen=True, slots=True)
class Failed:
    """A run broke; its request fails with that cause. Those of a batch are run once more, each alone."""

    run_id: int
    cause: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment at which the engine asked to be woken."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client withdrew a request."""

    request_id: int


Event = Arrive | SafePoint | Finish | Failed | Tick | Cancel

# --- decisions: from the policy to the engine ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Start now: these blocks of the request on these cores.

    Several requests are a batch: of one model, standing at the same block, each allowing that many.

    `cuts` are the first blocks of the second and later stages of a pipeline, in the order of `cores`.
    `band_rows` counts output rows of the last block per band (along the option's axis); None takes the
    fastest that fits.
    `bandwidth_cap_bytes_s` is the most memory traffic the run may cause; None for no cap.
    """

    requests: tuple[Request, ...]
    blocks: range
    cores: tuple[Core, ...]
    mode: Mode = Mode.SERIAL
    cuts: tuple[int, ...] = ()
    band_rows: int | None = None
    bandwidth_cap_bytes_s: float | None = None

    @property
    def batch(self) -> int:
        """How many requests run together."""
        return len(self.requests)


@dataclass(frozen=True, slots=True)
class Adjust:
    """Change how a run goes on; None leaves that as it is.

    `cores`: at its next block end the rest of its range goes on there, serially on one core, split over
    several. They are idle, the run's own, or given up by another run (asked to stop, or moving away from
    them). Until both are there the request waits, holding those that it has.
    `bandwidth_cap_bytes_s`: the most memory traffic it may cause from now on, above 0; math.inf lifts a cap.
    """

    run: Run
    cores: tuple[Core, ...] | None = None
    bandwidth_cap_bytes_s: float | None = None


@dataclass(frozen=True, slots=True)
class Preempt:
    """Ask a run to stop; its cores are free only after its safe point."""

    run: Run
    how: How = How.SPILL


@dataclass(frozen=True, slots=True)
class Drop:
    """Give a request up: at once if it waits, at the next safe point if it runs."""

    request: Request
    reason: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Decide again no later than this time, in seconds."""

    at_s: float


Decision = Dispatch | Adjust | Preempt | Drop | Wake

# --- commands: from the engine to the driver -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Start this run."""

    run: Run


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop this run: at the next safe point, at the end of its block or stack, or at once."""

    run: Run
    how: How


@dataclass(frozen=True, slots=True)
class Change:
    """The bandwidth cap of this run has changed."""

    run: Run


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick at that time, in seconds."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """A request is over; `batch` is with how many it ran at last, itself included."""

    request: Request
    outcome: Outcome
    reason: str = ""
    batch: int = 1


Command = Start | Change | Stop | WakeAt | Reply
