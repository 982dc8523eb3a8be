"""Blocks and the ways of running them.

A block is the smallest thing that is scheduled: one layer on a simulated accelerator, a group of
operators on a live device. A model is a chain of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Mode(StrEnum):
    """How a range of blocks runs."""

    SERIAL = "serial"  # block after block on one core
    FUSED = "fused"  # depth-first bands through the whole range on one core
    PIPELINE = "pipeline"  # bands through stages on several cores
    SPLIT = "split"  # each block spread over all the cores


class Pressure(NamedTuple):
    """Which block a segment on lanes is, and what it asks of what lanes share while it runs alone.

    `model`, `block` and `lanes` (over how many it is spread) tell it apart from all others. The rest are
    shares of what the whole device has: `compute` of its peak operations, `memory` of its bandwidth,
    `occupancy` of its places for threads; `gap` is the share of its time in which it asks for nothing, such
    as launches; `cache` is what it touches over the last cache that all share. `slowdowns` are by how much
    fixed kernels beside it that use up compute, memory and cache stretch it; 1 where that was not measured.
    """

    model: str
    block: int
    lanes: int
    compute: float
    memory: float
    occupancy: float
    gap: float
    cache: float = 0.0
    slowdowns: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a run during which its demand is constant.

    It takes `fixed_s`, which nothing stretches, then `compute_s` at full speed; over that second part
    `dram_bytes` cross the memory interface, so that with bandwidth b the stretch takes
    fixed_s + max(compute_s, dram_bytes / b). Its end and `steps - 1` evenly spaced points before it are
    safe points. Counts are for the whole segment, recomputed rows included. `pressure` is there on lanes
    where what runs do to each other depends on who they are.
    """

    first_block: int
    end_block: int
    fixed_s: float
    compute_s: float
    dram_bytes: float
    steps: int = 1
    link_bytes: float = 0.0
    energy_pj: float = 0.0
    macs: float = 0.0
    pressure: Pressure | None = None

    def solo_s(self, bandwidth_bytes_s: float) -> float:
        """Seconds alone on the device with that bandwidth."""
        return self.fixed_s + max(self.compute_s, self.dram_bytes / bandwidth_bytes_s)


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run blocks [first, end): what it costs, and what a Dispatch needs to ask for it.

    `kinds` are positions in the device's list of core types, one per core and in stage order for a
    pipeline. Times and bytes are those of the sum of its segments. `serial_dram_bytes` is what the same
    blocks move when run one after the other on the first core, with outputs kept in SRAM where they fit.
    `sram_bytes` is the most that any one core must hold. `drain_s` is how long after a stop request at a
    safe point the last core is free (a pipeline drains first). `band_rows` counts along `axis` ("rows" or
    "columns"), which is always the same for a range, so that a Dispatch need not name it.
    """

    mode: Mode
    first: int
    end: int
    kinds: tuple[int, ...]
    cuts: tuple[int, ...]
    band_rows: int | None
    steps: int
    fixed_s: float
    compute_s: float
    dram_bytes: float
    link_bytes: float
    sram_bytes: float
    energy_pj: float
    macs: float
    serial_dram_bytes: float
    spill_bytes: float = 0.0
    drain_s: float = 0.0
    axis: str = "rows"

    def __hash__(self) -> int:
        # What was asked for tells options of a table apart, and hashing every cost takes longer than that.
        return hash((self.mode, self.first, self.end, self.kinds, self.cuts, self.band_rows))

    def seconds(self, bandwidth_bytes_s: float) -> float:
        """Latency when the run gets that much memory bandwidth."""
        return self.fixed_s + max(self.compute_s, self.dram_bytes / bandwidth_bytes_s)
