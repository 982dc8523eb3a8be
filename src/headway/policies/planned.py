"""Earliest deadline first on lanes, planning a few requests ahead whether to be wide or narrow.

One request over all lanes ends soonest; requests side by side on single lanes get more done. Wide is for who
would otherwise be late, narrow for all other times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headway.core.messages import Decision, Dispatch, Drop
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.base import Policy
from headway.policies.batching import Queue
from headway.policies.lane_plan import (
    Drifts,
    Job,
    LeftOver,
    by_deadline,
    free_from,
    late,
    late_in_turn,
    stops,
)
from headway.policies.registry import policy
from headway.policies.width import batch_table, fair_share, fastest, rest

DEPTH: Final = 8
"""Waiting requests that are planned for; later ones wait unseen."""

CAUTION: Final = 1.05
"""Narrow runs are planned to take this much longer than they should: for longer than wide ones they are open
to arrivals and to what co-runners do. By bench/lanes.py, with 1.0 more of the short requests are late, with
1.1 and more too little is done side by side, and large requests are late for it."""


@policy("edf:planned")
class Planned(Policy):
    """Earliest deadline first with drops; each request is narrow unless a plan saves more by a wide one.

    Waiting and running requests are planned twice in the order of their deadlines: all on single lanes, and
    the first over as many lanes as make it fastest, the others after it, likewise or on single lanes. A
    request that would be late in a plan is left out of that plan. The first is wide if that saves more
    requests, or as many and no work is lost by it. Preempts at block ends; drops what even a wide run cannot
    save. What runs are believed to take is corrected by what the last ones did, wide and narrow ones apart:
    a machine that others use too drifts, and wide runs suffer most from it. A kind that did not run lately is
    believed to have drifted as all runs have, or the one just used would always look worse.

    A request that starts takes others of its model along, those that would have to wait, where they allow it
    and `batching` says that it is worth it.
    """

    needs = frozenset({Capability.SPLIT, Capability.PREEMPT, Capability.BATCH})

    def __init__(self) -> None:
        self._left = LeftOver()
        self._stretch: float | None = None
        self._drifts = Drifts()

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The absolute deadline."""
        return (request.deadline_s,)

    def decide(self, view: View) -> Iterator[Decision]:
        """Drop the hopeless, plan for the others, and bring the lanes in line with the plan."""
        running, now = view.running, view.now
        drifts = self._drifts.at(now)
        jobs = [self._going_on(run, drifts, view) for run in running if run.giving_up is None]
        most = len(jobs) + DEPTH
        for request in view.ready:
            if len(jobs) == most:
                break
            left = self._left.seconds(request, request.next_block, view)
            job = Job.of(request, None, now, left, drifts)
            if now + job.least_s > request.deadline_s:
                yield Drop(request, "cannot meet its deadline any more")
            else:
                jobs.append(job)
        if not jobs:
            return
        if len(jobs) > 1:
            jobs.sort(key=by_deadline)
        wide = jobs[0].lanes > 1 and self._wide_is_better(jobs, free_from(running, view), view)
        yield from self._carry_out(jobs, wide, drifts, running, view)

    def _carry_out(
        self,
        jobs: Sequence[Job],
        wide: bool,
        drifts: tuple[float, float],
        running: Sequence[Run],
        view: View,
    ) -> Iterator[Decision]:
        """Give the jobs lanes in order, the first as many as it shall have, and stop who is in the way."""
        lanes, idle = len(view.device.cores), list(view.idle)
        share = 1 if wide else fair_share(len(jobs), view)  # more than one if lanes would be left over
        wanted: dict[int, int] = {}  # lanes by request
        for position, job in enumerate(jobs):
            count = job.lanes if wide and position == 0 else 1
            if count > lanes:
                break
            lanes -= count
            wanted[job.id] = count
        yield from stops(jobs, wanted, share, running)
        of_narrow, of_wide = drifts
        if len(view.device.cores) > 1 and max([job.request.most_batch for job in jobs]) > 1:
            of_narrow *= self._stretched(jobs[0].request, view)
        queue = Queue(jobs, wanted, (of_narrow, of_wide), view)
        for job in jobs:
            count = wanted.get(job.id, 0)
            if job.run is None and 0 < count <= len(idle):
                cores = tuple(idle[:count]) if count > 1 else fastest(job.request, idle[:share], view)
                yield queue.start(rest(job.request, cores))
                del idle[: len(cores)]
            elif count > len(idle) and job.run is None:
                return  # lanes that come free are for this one

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Learn from a run how fast the machine is just now."""
        kinds = tuple([view.device.kind_of[core.index] for core in run.cores])
        table = batch_table(run.request, run.batch, view)
        option = table.option(run.mode, run.blocks.start, run.blocks.stop, kinds)
        believed_s = option.seconds(view.device.dram_bandwidth_bytes_s)
        narrow = len(run.cores) == 1
        if narrow and view.running:
            believed_s *= self._stretched(run.request, view)
        self._drifts.learn(actual_s / believed_s, narrow, view.now)

    # --- the plan ----------------------------------------------------------------------------------

    def _wide_is_better(self, jobs: Sequence[Job], free_s: list[float], view: View) -> bool:
        if len(jobs) == 1:
            return True
        first, lanes = jobs[0], len(free_s)
        stretch = self._stretched(first.request, view)
        late_narrow = late(jobs, free_s, stretch * CAUTION)
        together_s = sum([job.narrow_s for job in jobs]) * stretch / min(lanes, len(jobs))
        costs_work = together_s < sum([job.least_s for job in jobs])
        if late_narrow == 0 and costs_work:
            return False
        begin_s = max(first.from_s, sorted(free_s)[first.lanes - 1])
        end_s = begin_s + first.wide_s
        late_first = end_s > first.deadline_s
        now_s = begin_s if late_first else end_s
        narrow_after = late_first + late(jobs[1:], [max(now_s, at) for at in free_s], stretch * CAUTION)
        late_wide = late_first + late_in_turn(jobs[1:], now_s)
        least = min(narrow_after, late_wide)
        return least < late_narrow or (least == late_narrow and not costs_work)

    def _stretched(self, request: Request, view: View) -> float:
        """How much longer a narrow run takes while all other lanes are busy; the same for all on lanes."""
        if self._stretch is None:
            whole = range(request.blocks)
            runs = [Dispatch((request,), whole, (core,)) for core in view.device.cores]
            alone, beside = (view.estimate(runs[:1], beside=others) for others in ((), runs[1:]))
            self._stretch = max(1.0, beside[0].mean_s / alone[0].mean_s)
        return self._stretch

    def _going_on(self, run: Run, drifts: tuple[float, float], view: View) -> Job:
        request = run.request
        left = self._left.seconds(request, run.next_block + 1, view, run.batch)
        return Job.of(request, run, run.block_end_s, left, drifts)
