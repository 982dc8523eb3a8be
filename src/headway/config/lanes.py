"""Descriptions of devices with lanes: a machine whose threads run models for real, or are simulated."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headway.config.quantities import Duration, Overhead
from headway.config.validation import Name, Strict, mistake
from headway.core.device import Device

MOST_LANES = 256
MOST_THREADS = 1024  # of one lane

All = Literal["all"]

MOST_STREAMS = 32

Deviation = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A standard deviation of an overlap loss."""


class Lanes(Strict):
    """How the machine's threads are made into lanes.

    `all` takes what the other number leaves: of 8 threads {count: all, threads_per_lane: 2} makes 4 lanes,
    {count: 1, threads_per_lane: all} one wide lane.
    """

    count: Annotated[
        Annotated[int, Field(ge=1, le=MOST_LANES)] | All,
        Field(description="How many run at the same time."),
    ] = "all"
    threads_per_lane: Annotated[
        Annotated[int, Field(ge=1, le=MOST_THREADS)] | All,
        Field(description="Threads that a block has on one lane."),
    ] = 1

    @model_validator(mode="after")
    def _check(self) -> Lanes:
        if self.count == "all" and self.threads_per_lane == "all":
            raise mistake("found 'all' for both; accepted: a number for one of them", "threads_per_lane")
        return self

    def numbers(self, threads: int) -> tuple[int, int]:
        """Lanes, and threads of each, on a machine with that many threads; at least one of either."""
        if isinstance(self.count, int):
            each = self.threads_per_lane
            return self.count, each if isinstance(each, int) else max(1, threads // self.count)
        assert isinstance(self.threads_per_lane, int)
        return min(MOST_LANES, max(1, threads // self.threads_per_lane)), self.threads_per_lane


class LaneHardware(Strict):
    """A device with lanes: each runs one block at a time on threads of its own.

    What blocks, dispatches and switches take is measured, so that it is not said here.
    """

    name: Name
    source: Annotated[str, Field(description="Where the numbers come from.")] = ""
    assumptions: Annotated[str, Field(description="Which numbers are recalled or assumed.")] = ""
    lanes: Lanes
    isolation: Annotated[
        Literal["none", "process"],
        Field(description="Whether lanes that run for real live in a process of their own, which may die."),
    ] = "none"
    overlap: Annotated[
        Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | Literal["measured", "predicted"],
        Field(
            description="Overlap loss w: two runs on two lanes together take the longer one's time and w"
            " times the shorter one's. A number or measured is the same for all; predicted is by pairs of"
            " blocks, from what they compute and move."
        ),
    ] = "measured"
    overlap_deviation: Annotated[
        Deviation,
        Field(
            description="In the simulator: how far the true losses of pairs stray from what is believed at"
            " first, as a standard deviation of w."
        ),
    ] = 0.0
    overlap_noise: Annotated[
        Deviation, Field(description="In the simulator: how far w strays from meeting to meeting.")
    ] = 0.0

    def device(self) -> Device:
        """The device that the engine works with; `all` is filled in from this machine's threads."""
        count, threads_per_lane = self.lanes.numbers(machine_threads())
        return Device.of_lanes(self.name, count, threads_per_lane, self.source)

    @property
    def overlap_w(self) -> float | None:
        """The overlap loss, or None if it is to be measured or predicted."""
        return None if isinstance(self.overlap, str) else self.overlap

    def to_mapping(self) -> dict[str, Any]:
        """Plain data that loads again to an equal description."""
        return self.model_dump(mode="json", exclude_none=True)


class StreamHardware(Strict):
    """A simulated GPU whose streams each run one block at a time.

    What blocks take and ask for is predicted for that GPU in float32; nothing is measured, so that it can be
    simulated without the device and cannot run for real.
    """

    name: Name
    source: Annotated[str, Field(description="Where the numbers come from.")] = ""
    assumptions: Annotated[str, Field(description="Which numbers are recalled or assumed.")] = ""
    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS, description="How many run at the same time.")] = 2
    gpu: Annotated[
        str, Field(min_length=1, max_length=64, description="A GPU that the latency predictor knows.")
    ]
    block: Annotated[
        Duration, Field(description="What blocks should take; a model has at most 64 of them.")
    ] = 0.2e-3
    dispatch_overhead: Annotated[
        Overhead, Field(description="Paid once for every run, before its first block.")
    ] = 20e-6
    overlap: Annotated[
        Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | Literal["predicted"],
        Field(
            description="Overlap loss w: two runs on two streams together take the longer one's time and w"
            " times the shorter one's. predicted is by pairs of blocks, from what they compute and move."
        ),
    ] = "predicted"
    overlap_deviation: Annotated[
        Deviation,
        Field(
            description="How far the true losses of pairs stray from what is believed at first, as a standard"
            " deviation of w."
        ),
    ] = 0.1
    overlap_noise: Annotated[Deviation, Field(description="How far w strays from meeting to meeting.")] = 0.03

    def device(self) -> Device:
        """The device that the engine works with: a lane for each stream."""
        return Device.of_lanes(self.name, self.streams, 1, self.source)

    @property
    def overlap_w(self) -> float | None:
        """The overlap loss, or None if it is to be predicted."""
        return None if isinstance(self.overlap, str) else self.overlap

    def to_mapping(self) -> dict[str, Any]:
        """Plain data that loads again to an equal description."""
        return self.model_dump(mode="json", exclude_none=True)


def machine_threads() -> int:
    """Threads of this machine that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
