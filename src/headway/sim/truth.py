"""What really happens in the simulator: runs advance as a fluid and are re-timed when co-runners change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from headway.core.block import Mode, Option, Segment
from headway.core.device import Device
from headway.core.messages import Finish, SafePoint
from headway.core.protocols import Contention, CostTable, PairContention
from headway.core.run import How, Run
from headway.core.throttle import throttled_rates
from headway.sim.noise import Noise
from headway.sim.speed import Speed
from headway.sim.warm import WarmStarts

_WHOLE = 1.0 - 1e-9


class Active:
    """A run in progress: its segments, and how far the present one is.

    A segment takes `fixed_left_s`, then work (seconds at full speed, advanced at `rate`), then
    `tail_left_s` (a pipeline that drains after a stop). `target` is the share of its work at which it ends.
    `saved_bytes` is what the ledger still has to give back, 0 or negative. A stopped run that writes
    something back does that as its last work, with `point` to be told when it is written.
    """

    __slots__ = (
        "at",
        "demand",
        "done_s",
        "dram_bytes",
        "fixed_left_s",
        "noise",
        "option",
        "point",
        "rate",
        "resumed",
        "run",
        "saved_bytes",
        "segments",
        "stale",
        "start_s",
        "stop",
        "tail_left_s",
        "target",
        "updated_s",
        "version",
        "work_s",
    )

    def __init__(self, run: Run, option: Option, segments: Sequence[Segment], noise: Sequence[float]) -> None:
        self.run = run
        self.option = option
        self.segments = segments
        self.noise = noise
        self.at = 0
        self.version = 0
        self.stale = False  # its end is not scheduled yet, or no longer true
        self.stop: How | None = None
        self.point: SafePoint | None = None
        self.rate = 1.0
        self.resumed = run.resumed
        self.target = 1.0
        self.demand = self.work_s = self.done_s = self.dram_bytes = self.saved_bytes = 0.0
        self.fixed_left_s = self.tail_left_s = self.start_s = self.updated_s = 0.0


class FluidTruth:
    """The true progress of all runs on a device whose cores share one DRAM.

    Solo times are the cost table's times `noise`; each run advances at the rate that `contention` gives
    it among those that run, so that the traffic of all never exceeds the bandwidth. `schedule` is called
    with (time in seconds, active, version) for every expected end of a segment; an end whose version is
    no longer the active's is void. With `speed` all that is said takes longer while the machine is slow;
    with `warm` a run's dispatch takes less where its first core was busy until just before.
    """

    def __init__(
        self,
        device: Device,
        tables: Mapping[str, CostTable],
        contention: Contention,
        noise: Noise,
        schedule: Callable[[float, Active, int], None],
        speed: Speed | None = None,
        warm: WarmStarts | None = None,
    ) -> None:
        self._device = device
        self._kind_of = device.kind_of
        self._bandwidth = device.dram_bandwidth_bytes_s
        self._tables = tables
        self._contention = contention
        self._pairs = contention if isinstance(contention, PairContention) else None
        self._noise = noise
        self._schedule = schedule
        self._speed = speed
        self._warm = warm
        self._actives: dict[int, Active] = {}
        self._any_capped = False

    def start(self, run: Run, now: float) -> None:
        """Begin a run."""
        table = self._tables[run.request.model]
        noise = self._noise(run.request)
        if run.batch > 1:
            table = table.of_batch(run.batch)
            noise = _mean([self._noise(request) for request in run.requests])
        option = table.option(
            run.mode,
            run.blocks.start,
            run.blocks.stop,
            tuple([self._kind_of[core.index] for core in run.cores]),
            run.cuts,
            run.band_rows,
        )
        active = Active(run, option, table.segments(option), noise)
        self._actives[run.id] = active
        self._any_capped |= run.bandwidth_cap_bytes_s < math.inf
        self._enter(active, now, run.extra_dram_bytes)
        if self._warm is not None:
            active.fixed_left_s = max(0.0, active.fixed_left_s - self._warm.saved_s(run, now))
        active.fixed_left_s += run.decision_s

    def change(self, run: Run) -> None:
        """A run's bandwidth cap has changed."""
        self._any_capped |= run.bandwidth_cap_bytes_s < math.inf

    def stop(self, run: Run, how: How, now: float) -> None:
        """Make a run end early: at the next safe point, at the end of its block, or at once."""
        active = self._actives[run.id]
        if active.point is not None:
            return  # it has stopped and only writes back
        active.stop = how
        if how is How.DRAIN:
            return
        self._advance(active, now)
        segment = active.segments[active.at]
        whole = 1.0 - active.resumed
        progress = active.done_s / active.work_s if active.work_s > 0.0 else 0.0
        if how is How.KILL:
            active.target = progress
            active.fixed_left_s = 0.0
        else:
            step = int((active.resumed + whole * progress) * segment.steps + 1e-9) + 1
            target = (step / segment.steps - active.resumed) / whole
            if target >= _WHOLE:
                return  # the next safe point is the end of the segment
            active.target = target
            active.tail_left_s = active.option.drain_s
        active.stale = True

    def end_segment(self, active: Active, now: float) -> SafePoint | Finish | None:
        """The present segment of a run ended: say what was done, and go on to the next if there is one.

        None if it stopped and has something to write back first.
        """
        segment = active.segments[active.at]
        run = active.run
        if active.point is not None:
            self._leave(active, now)
            return active.point
        early = active.target < _WHOLE
        fraction = active.target if early else 1.0
        share = (1.0 - active.resumed) * fraction
        last = active.at + 1 == len(active.segments)
        stopped = early or (active.stop is not None and not last)
        dram_bytes = active.dram_bytes * fraction
        point = SafePoint(
            run.id,
            segment.first_block,
            segment.end_block,
            active.start_s,
            dram_bytes,
            segment.link_bytes * share,
            segment.energy_pj * share
            + (dram_bytes - segment.dram_bytes * share) * self._device.dram_energy_pj_per_byte,
            segment.macs * share,
            share,
            stopped,
            early and active.stop is How.KILL,  # one that comes at the very end finds the block done
            None,
            active.saved_bytes,
        )
        if stopped:
            write_bytes = self._write_back_bytes(active, early)
            if write_bytes > 0.0:
                self._write_back(active, point, write_bytes, now)
                return None
        if stopped or last:
            self._leave(active, now)
            return point if stopped else Finish(run.id, point)
        active.at += 1
        active.resumed = 0.0
        self._enter(active, now, active.saved_bytes)
        return point

    def _leave(self, active: Active, now: float) -> None:
        """A run is over, or has stopped and written what it had to: its cores are idle."""
        del self._actives[active.run.id]
        active.version += 1
        if self._warm is not None:
            self._warm.over(active.run, now)

    def _write_back_bytes(self, active: Active, early: bool) -> float:
        """What a stopped run must write so that its request can go on elsewhere.

        Inside a segment: the live line buffers. In a serial run besides, what one block left in SRAM for the
        next instead of writing it: at a block's end its output, where a kill threw a block away its input.
        """
        run = active.run
        if run.giving_up is not None:
            return 0.0
        if early and active.stop is How.SPILL:
            return run.spill_bytes
        if run.mode is not Mode.SERIAL:
            return 0.0
        segment = active.segments[active.at]
        next_block = segment.first_block if early else segment.end_block
        if next_block == run.blocks.start:
            return 0.0
        return self._tables[run.request.model].unwritten_bytes[next_block - 1][active.option.kinds[0]]

    def _write_back(self, active: Active, point: SafePoint, dram_bytes: float, now: float) -> None:
        """Let a stopped run write, in competition with the others."""
        active.point = point._replace(
            dram_bytes=point.dram_bytes + dram_bytes,
            energy_pj=point.energy_pj + dram_bytes * self._device.dram_energy_pj_per_byte,
        )
        active.work_s = dram_bytes / self._bandwidth
        active.demand = self._bandwidth
        active.target = 1.0
        active.fixed_left_s = active.tail_left_s = active.done_s = 0.0
        active.updated_s = now
        active.stale = True

    def settle(self, now: float) -> None:
        """After all starts, stops and ends of one instant: share the bandwidth anew, re-time what changed."""
        actives = self._actives.values()
        if self._pairs is not None:
            rates = self._pairs.rates_of(
                [active.segments[active.at] for active in actives], [active.run.request for active in actives]
            )
        elif self._any_capped:
            rates = throttled_rates(
                self._contention, [(each.demand, each.run.bandwidth_cap_bytes_s) for each in actives]
            )
        else:
            rates = self._contention.rates([active.demand for active in actives])
        for active, rate in zip(actives, rates, strict=True):
            if rate != active.rate:
                self._advance(active, now)
                active.rate = rate
            elif not active.stale:
                continue
            active.stale = False
            active.version += 1
            left_s = max(0.0, active.work_s * active.target - active.done_s) / rate
            if self._speed is None:
                end_s = now + active.fixed_left_s + left_s + active.tail_left_s
            else:
                end_s = self._speed.end_s(now, active.fixed_left_s + left_s + active.tail_left_s)
            self._schedule(end_s, active, active.version)

    def _enter(self, active: Active, now: float, extra_bytes: float) -> None:
        """Begin the segment at `active.at`, whose first `active.resumed` share is already done."""
        segment = active.segments[active.at]
        whole = 1.0 - active.resumed
        dram_bytes = segment.dram_bytes * whole + extra_bytes
        active.dram_bytes, active.saved_bytes = (dram_bytes, 0.0) if dram_bytes > 0.0 else (0.0, dram_bytes)
        noise = active.noise
        first, end = segment.first_block, segment.end_block
        factor = noise[first] if end - first == 1 else sum(noise[first:end]) / (end - first)
        active.work_s = max(segment.compute_s * whole, active.dram_bytes / self._bandwidth) * factor
        active.demand = active.dram_bytes / active.work_s if active.work_s > 0.0 else 0.0
        active.fixed_left_s = segment.fixed_s
        active.done_s = active.tail_left_s = 0.0
        active.target = 1.0
        active.start_s = active.updated_s = now
        active.stale = True

    def _advance(self, active: Active, now: float) -> None:
        """Bring a run's progress up to now at the rate it has had since it was last brought up."""
        if self._speed is None:
            elapsed_s = now - active.updated_s
        else:
            elapsed_s = self._speed.work_s(active.updated_s, now)
        active.updated_s = now
        fixed_s = min(elapsed_s, active.fixed_left_s)
        active.fixed_left_s -= fixed_s
        elapsed_s -= fixed_s
        work_s = min(elapsed_s * active.rate, active.work_s * active.target - active.done_s)
        if work_s > 0.0:
            active.done_s += work_s
            elapsed_s -= work_s / active.rate
        active.tail_left_s = max(0.0, active.tail_left_s - elapsed_s)


def _mean(factors: Sequence[Sequence[float]]) -> list[float]:
    """The noise of a batch: block by block the mean of its requests' factors."""
    return [sum(each) / len(each) for each in zip(*factors, strict=True)]
