"""The exact optimum of small instances: the most requests on time, by constraint programming.

Needs OR-Tools (`pip install "headway[bounds]"`).

What is modelled: every request is cut into runs of consecutive blocks, each in a way that the cost table
offers (serial over any range, fused, pipeline, split over any cores) on cores of the right kinds; a run
begins when the one before it has ended, holds its cores from beginning to end, and lasts as long as it
would alone, with the given factors on its blocks. With `share_bandwidth` runs may overlap only while the mean
traffic of all of them together is at most the bandwidth; without it they do not notice each other.

What is not: stopping a run inside a block or stack, what one run leaves in SRAM for another, and runs that
go on more slowly because they share bandwidth. With bandwidth shared the optimum is therefore one of
schedules in which nobody is ever slowed down.

Times are whole ticks, runs rounded down and deadlines up, so that rounding never makes a request late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from headway.core.block import Mode, Option
from headway.core.device import Core, Device
from headway.core.errors import HeadwayError
from headway.core.protocols import CostTable
from headway.core.request import Request

MOST_REQUESTS: Final = 10
MOST_RUNS: Final = 20_000
_TICKS: Final = 1 << 28  # from the first arrival to the last deadline


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the optimal schedule."""

    request: int
    option: Option
    cores: tuple[int, ...]
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Optimum:
    """The most requests that can be on time.

    `on_time` are the ids of those in the schedule found, `most` the proven upper limit; `proven` if they are
    as many.
    """

    on_time: frozenset[int]
    most: int
    runs: tuple[PlannedRun, ...]

    @property
    def proven(self) -> bool:
        """Whether the schedule is optimal."""
        return len(self.on_time) == self.most


def optimum(
    device: Device,
    tables: Mapping[str, CostTable],
    requests: Sequence[Request],
    factors: Callable[[Request], Sequence[float]] | None = None,
    *,
    share_bandwidth: bool = False,
    effort: float = 60.0,
) -> Optimum:
    """Solve an instance of at most ten requests.

    Args:
        device: with a few cores.
        tables: by model.
        requests: their models, arrivals and deadlines are read.
        factors: on the solo times of a request's blocks; none by default.
        share_bandwidth: see the module.
        effort: the most work, in the solver's deterministic seconds, which are counted and not measured;
            after that the best schedule found and the limit proven so far are returned.

    Raises HeadwayError without OR-Tools, and for an instance that is too large.
    """
    cp_model = _solver()
    if len(requests) > MOST_REQUESTS:
        raise HeadwayError(
            f"exact optimum: found {len(requests)} requests; accepted: at most {MOST_REQUESTS}"
        )
    if not requests:
        return Optimum(frozenset(), 0, ())
    begin_s = min(request.arrival_s for request in requests)
    tick_s = (max(request.deadline_s for request in requests) - begin_s) / _TICKS
    if not 0.0 < tick_s < math.inf:
        raise HeadwayError("exact optimum: accepted: requests with finite deadlines after the first arrival")
    model: Any = cp_model.CpModel()
    on_core: list[list[Any]] = [[] for _ in device.cores]
    traffic: list[tuple[Any, int]] = []
    done = []
    chosen: list[tuple[Any, Any, Any, Request, Option, tuple[int, ...]]] = []
    for request in requests:
        factor = (1.0,) * request.blocks if factors is None else factors(request)
        due = math.ceil((request.deadline_s - begin_s) / tick_s)
        arrival = math.floor((request.arrival_s - begin_s) / tick_s)
        if due < arrival:
            done.append(model.new_constant(0))
            continue
        at = [model.new_int_var(arrival, due, "") for _ in range(request.blocks + 1)]  # start of each block
        arcs: list[list[Any]] = [[] for _ in at]  # runs that begin at a block, less those that end there
        ends: list[list[Any]] = [[] for _ in at]
        lengths: list[Any] = []
        for option, cores in _runs(tables[request.model], device):
            length_s = _seconds(tables[request.model], option, factor, device.dram_bandwidth_bytes_s)
            length = math.floor(length_s / tick_s)
            if arrival + length > due:
                continue
            taken = model.new_bool_var("")
            start = model.new_int_var(arrival, due, "")
            end = model.new_int_var(arrival, due, "")
            interval = model.new_optional_interval_var(start, length, end, taken, "")
            model.add(start >= at[option.first]).only_enforce_if(taken)
            model.add(end <= at[option.end]).only_enforce_if(taken)
            for core in cores:
                on_core[core].append(interval)
            if share_bandwidth and option.dram_bytes > 0.0:
                mean = option.dram_bytes / length_s / device.dram_bandwidth_bytes_s
                traffic.append((interval, math.floor(mean * 1_000_000)))
            arcs[option.first].append(taken)
            ends[option.end].append(taken)
            lengths.append(length * taken)
            chosen.append((taken, start, end, request, option, cores))
            if len(chosen) > MOST_RUNS:
                raise HeadwayError(
                    f"exact optimum: more than {MOST_RUNS} possible runs;"
                    " accepted: fewer requests, blocks or cores"
                )
        on_time = model.new_bool_var("")
        model.add(sum(arcs[0]) == on_time)
        model.add(sum(ends[request.blocks]) == on_time)
        for block in range(1, request.blocks):
            model.add(sum(arcs[block]) == sum(ends[block]))
        # Follows from the starts and ends, but makes the choice of runs a shortest path for the relaxation.
        model.add(sum(lengths) <= due - arrival)
        done.append(on_time)
    for intervals in on_core:
        model.add_no_overlap(intervals)
    if traffic:
        model.add_cumulative([interval for interval, _ in traffic], [mean for _, mean in traffic], 1_000_000)
    model.maximize(sum(done))
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = effort  # a clock would make the answer depend on the machine
    solver.parameters.num_workers = 1  # the same schedule every time
    solver.parameters.random_seed = 1
    solver.solve(model)
    runs = tuple(
        PlannedRun(
            request.id,
            option,
            cores,
            begin_s + tick_s * solver.value(start),
            begin_s + tick_s * solver.value(end),
        )
        for taken, start, end, request, option, cores in chosen
        if solver.value(taken)
    )
    finished = frozenset(
        request.id for request, variable in zip(requests, done, strict=True) if solver.value(variable)
    )
    return Optimum(finished, int(solver.best_objective_bound + 1e-6), runs)


def _solver() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise HeadwayError(
            'the exact optimum needs OR-Tools, which is not installed: pip install "headway[bounds]"'
        ) from None
    return cp_model


def _runs(table: CostTable, device: Device) -> Iterator[tuple[Option, tuple[int, ...]]]:
    """Every option that the table offers, on every choice of cores for it."""
    kind_of = device.kind_of
    everywhere = [
        group for size in range(2, len(device.cores) + 1) for group in combinations(device.cores, size)
    ]
    for first in range(table.blocks):
        for end in range(first + 1, table.blocks + 1):
            for core in device.cores:
                yield table.option(Mode.SERIAL, first, end, (kind_of[core.index],)), (core.index,)
            for group in everywhere:
                kinds = tuple(kind_of[core.index] for core in group)
                try:
                    option = table.option(Mode.SPLIT, first, end, kinds)
                except ValueError:  # not offered
                    continue
                yield option, tuple(core.index for core in group)
        for option in (*table.stacks(first), *table.pipelines(first)):
            for cores in _placements(option.kinds, device.cores, kind_of):
                yield option, cores


def _placements(
    kinds: tuple[int, ...], cores: Sequence[Core], kind_of: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """The sets of cores of those kinds; which of two alike does which stage makes no difference."""
    for group in combinations(cores, len(kinds)):
        if sorted(kind_of[core.index] for core in group) == sorted(kinds):
            yield tuple(core.index for core in group)


def _seconds(table: CostTable, option: Option, factors: Sequence[float], bandwidth_bytes_s: float) -> float:
    """How long a run lasts alone with the factors that truth draws, as the simulator has it."""
    total_s = 0.0
    for segment in table.segments(option):
        transfer_s = segment.dram_bytes / bandwidth_bytes_s
        blocks = range(segment.first_block, segment.end_block)
        factor = sum(factors[block] for block in blocks) / len(blocks)
        total_s += segment.fixed_s + max(factor * max(segment.compute_s, transfer_s), transfer_s)
    return total_s
