"""When a run is believed to end: from the segments of its option, revised at every safe point.

All of it is O(1) per safe point, and no second fluid simulation: a run is believed to keep the share of its
full speed that the present co-runners leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headway.core.block import Option, Segment
from headway.core.device import Core
from headway.core.messages import Event, SafePoint
from headway.core.request import Partial, Request
from headway.core.run import Run


class Left(NamedTuple):
    """What is left of an option: seconds that nothing stretches, seconds at full speed, and bytes."""

    fixed_s: float
    busy_s: float
    dram_bytes: float

    @property
    def bandwidth_bytes_s(self) -> float:
        """The memory traffic it wants per second at full speed."""
        return self.dram_bytes / self.busy_s if self.busy_s > 0.0 else 0.0


def left_behind(run: Run, point: SafePoint, done: float) -> Partial:
    """What a run leaves behind that stopped inside a range; `done` is the share of it that is finished."""
    kinds = tuple(core.kind for core in run.cores)
    first, end = point.first_block, point.end_block
    return Partial(first, end, run.mode, run.cuts, run.band_rows, kinds, done, run.spill_bytes)


def resumption(request: Request, option: Option, cores: Sequence[Core]) -> tuple[float, float]:
    """How much of an option's first segment a stopped run of the request has done already, and how many bytes
    of line buffers must be read back to go on there."""
    partial = request.partial
    if partial is None or not partial.resumed_by(
        option.first, option.end, option.mode, option.cuts, option.band_rows, tuple(c.kind for c in cores)
    ):
        return 0.0, 0.0
    return partial.done, partial.spilled_bytes


def left_of(
    option: Option, segments: Sequence[Segment], resumed: float, extra_bytes: float, bandwidth_bytes_s: float
) -> Left:
    """An option without the `resumed` share of its first segment, with the ledger's bytes added."""
    compute_s, dram_bytes = option.compute_s, option.dram_bytes + extra_bytes
    if resumed:
        first = segments[0]
        dram_bytes -= resumed * first.dram_bytes
        # Of several segments an option adds up the larger of compute and transfer, of one it does not.
        compute_s -= resumed * (
            first.compute_s if len(segments) == 1 else _busy_s(first, 1.0, 0.0, bandwidth_bytes_s)
        )
    dram_bytes = max(0.0, dram_bytes)
    return Left(option.fixed_s, max(compute_s, dram_bytes / bandwidth_bytes_s), dram_bytes)


def expect_first(
    run: Run, segments: Sequence[Segment], left: Left, bandwidth_bytes_s: float, rate: float, now: float
) -> None:
    """Fill in what is believed of a run that starts now and runs at that share of its full speed."""
    first = segments[0]
    busy_s = _busy_s(first, 1.0 - run.resumed, run.extra_dram_bytes, bandwidth_bytes_s)
    run.bandwidth_bytes_s = left.bandwidth_bytes_s
    run.later_fixed_s = left.fixed_s - first.fixed_s
    run.later_busy_s = left.busy_s - busy_s if len(segments) > 1 else 0.0
    fixed_s = first.fixed_s + run.decision_s
    _expect(run, fixed_s, busy_s, first.steps * (1.0 - run.resumed), rate, now)


def passed_points(events: Sequence[Event]) -> set[int]:
    """The positions of safe points behind which their runs reach another one in the same call, with nothing
    but safe points of runs that go on in between.

    Live, several wait for the next event that can make a policy act; nobody asks what was believed between.
    """
    passed: set[int] = set()
    seen: set[int] = set()
    for position in range(len(events) - 1, -1, -1):
        event = events[position]
        if not isinstance(event, SafePoint) or event.stopped:
            seen.clear()
        elif event.run_id in seen:
            passed.add(position)
        else:
            seen.add(event.run_id)
    return passed


def go_past(run: Run, bandwidth_bytes_s: float) -> None:
    """Take a segment that is over already from what is believed to be left: the one at `run.segment`."""
    segment = run.segments[run.segment]
    compute_s, transfer_s = segment.compute_s, segment.dram_bytes / bandwidth_bytes_s
    run.later_fixed_s -= segment.fixed_s
    run.later_busy_s -= compute_s if compute_s > transfer_s else transfer_s


def expect_next(run: Run, bandwidth_bytes_s: float, rate: float, now: float) -> None:
    """Revise what is believed of a run that has ended a segment and begins the one at `run.segment`."""
    segment = run.segments[run.segment]
    compute_s, transfer_s = segment.compute_s, segment.dram_bytes / bandwidth_bytes_s
    busy_s = compute_s if compute_s > transfer_s else transfer_s
    run.later_fixed_s -= segment.fixed_s
    run.later_busy_s -= busy_s
    _expect(run, segment.fixed_s, busy_s, segment.steps, rate, now)


def expect_anew(run: Run, rate: float, now: float) -> None:
    """Revise what is believed of a run whose rate changes inside a segment.

    One that is behind what is believed of its segment is still believed to end it any moment.
    """
    left_s = run.block_end_s - now
    fixed_s = min(left_s, max(0.0, run.busy_from_s - now))
    busy_s = (left_s - fixed_s) * run.rate
    step_s = run.step_s * ((fixed_s + busy_s / rate) / left_s if left_s > 0.0 else 1.0)
    _expect(run, fixed_s, busy_s, 1.0, rate, now)
    run.step_s = step_s


def _expect(run: Run, fixed_s: float, busy_s: float, steps: float, rate: float, now: float) -> None:
    seconds = fixed_s + busy_s / rate
    run.rate = rate
    run.busy_from_s = now + fixed_s
    run.block_end_s = now + seconds
    run.step_s = seconds / (steps if steps > 1.0 else 1.0)
    later_s = run.later_fixed_s + run.later_busy_s / rate
    run.expected_end_s = run.block_end_s + (later_s if later_s > 0.0 else 0.0)


def _busy_s(segment: Segment, share: float, extra_bytes: float, bandwidth_bytes_s: float) -> float:
    dram_bytes = max(0.0, segment.dram_bytes * share + extra_bytes)
    return max(segment.compute_s * share, dram_bytes / bandwidth_bytes_s)
