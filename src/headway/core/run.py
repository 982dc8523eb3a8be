"""A run: some blocks of a request, or of several together, on some cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.core.block import Mode, Option, Segment
from headway.core.device import Core
from headway.core.request import Request

REALLOCATED: Final = "reallocate"
"""In the log the cause of a stop after which a request goes on on other cores."""


class How(StrEnum):
    """How a run is preempted."""

    SPILL = "spill"  # stop at the next safe point, write live line buffers, keep what is done
    DRAIN = "drain"  # run to the end of the block or stack, then free the cores
    KILL = "kill"  # stop at once, rows of the current block or stack are lost


class Outcome(StrEnum):
    """How a request ended."""

    DONE = "done"
    DROPPED = "dropped"
    REJECTED = "rejected"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class Run:
    """What a Dispatch became. Policies read it; only the engine changes it.

    `expected_end_s`, `block_end_s` (end of the segment that runs now) and `step_s` (time between two
    safe points) are beliefs, revised at every safe point. `spill_bytes` is what a stop at a band
    boundary must write, `bandwidth_bytes_s` the memory traffic it wants per second, caps aside. `resumed` is
    the share of the first segment that an earlier, stopped run already did. `extra_dram_bytes` is what the
    residency ledger adds to the first segment, or saves (inputs still in SRAM: negative). `stopping`
    holds how it was asked to stop. `segments` are those of its option, `segment` the position of the one that
    runs now; the later ones are believed to take `later_fixed_s` and, at full speed, `later_busy_s`. The
    present one is past its fixed part at `busy_from_s`, then believed to go at `rate` of its full speed.

    `requests` are those that wait for what it makes, `batch` is how many it started with: one of several may
    be given up while the others go on.

    `bandwidth_cap_bytes_s` bounds its memory traffic; infinite without a cap. `moving_to` are the cores on
    which its request goes on after the next block end. `decision_s` is what the decision to start it took:
    its cores wait that long before it begins.
    """

    id: int
    requests: tuple[Request, ...]
    blocks: range
    cores: tuple[Core, ...]
    mode: Mode
    cuts: tuple[int, ...]
    band_rows: int | None
    started_s: float
    expected_end_s: float
    block_end_s: float
    step_s: float
    bandwidth_bytes_s: float
    extra_dram_bytes: float = 0.0
    spill_bytes: float = 0.0
    resumed: float = 0.0
    next_block: int = 0
    core_names: str = ""  # indices of its cores joined by "+", as the log has them
    segments: Sequence[Segment] = ()
    segment: int = 0
    later_fixed_s: float = 0.0
    later_busy_s: float = 0.0
    busy_from_s: float = 0.0
    rate: float = 1.0
    bandwidth_cap_bytes_s: float = math.inf
    decision_s: float = 0.0
    moving_to: tuple[Core, ...] | None = None
    stopping: How | None = None
    giving_up: tuple[Outcome, str] | None = None  # how its requests end at the next safe point, and why
    batch: int = 1

    @classmethod
    def of(
        cls,
        id: int,
        requests: tuple[Request, ...],
        option: Option,
        cores: tuple[Core, ...],
        *,
        started_s: float,
        extra_dram_bytes: float,
        resumed: float,
    ) -> Run:
        """A run of an option that starts now; its beliefs are still to be filled in."""
        return cls(
            id,
            requests,
            range(option.first, option.end),
            cores,
            option.mode,
            option.cuts,
            option.band_rows,
            started_s=started_s,
            expected_end_s=0.0,
            block_end_s=0.0,
            step_s=0.0,
            bandwidth_bytes_s=0.0,
            extra_dram_bytes=extra_dram_bytes,
            spill_bytes=option.spill_bytes,
            resumed=resumed,
            next_block=option.first,
            core_names="+".join([str(core.index) for core in cores]),
            batch=len(requests),
        )

    @property
    def request(self) -> Request:
        """The first of its requests."""
        return self.requests[0]

    @property
    def asked_bytes_s(self) -> float:
        """The memory traffic per second that it asks for: what it wants, within its cap."""
        return min(self.bandwidth_bytes_s, self.bandwidth_cap_bytes_s)
