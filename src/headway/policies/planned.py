"""Earliest deadline first on lanes, planning a few requests ahead whether to be wide or narrow.

One request over all lanes ends soonest; requests side by side on single lanes get more done. Wide is for who
would otherwise be late, narrow for all other times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp2
from typing import Final, NamedTuple

from headway.core.messages import Decision, Dispatch, Drop, Preempt
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.base import Policy
from headway.policies.registry import policy
from headway.policies.width import fair_share, fastest, remaining_over_s, rest

DEPTH: Final = 8
"""Waiting requests that are planned for; later ones wait unseen."""

CAUTION: Final = 1.2
"""Narrow runs are planned to take this much longer than they should: for longer than wide ones they are open
to arrivals and to what co-runners do. By bench/lanes.py, with less than 1.1 tight deadlines are missed, with
more than 1.4 too little is done side by side when there is much to do."""

GAIN: Final = 0.1
"""Weight of the last run in how much longer than believed runs take."""

MEMORY_S: Final = 1.0
"""After so long without a run to learn from, half of what was learnt is forgotten: if everything was dropped
because the machine was slow, nothing would otherwise show that it is not slow any more."""

MOST_DRIFT: Final = 4.0


class _Drift:
    """How much longer some runs take than they were believed to, by those that finished lately.

    `usual` is what that is believed to be where nothing was learnt lately.
    """

    __slots__ = ("_factor", "_learnt_s")

    def __init__(self) -> None:
        self._factor, self._learnt_s = 1.0, 0.0

    def at(self, now: float, usual: float = 1.0) -> float:
        """The factor now."""
        return usual + (self._factor - usual) * exp2((self._learnt_s - now) / MEMORY_S)

    def learn(self, ratio: float, now: float, usual: float = 1.0) -> None:
        """A run has taken that many times what it was believed to."""
        ratio = min(max(ratio, 1.0 / MOST_DRIFT), MOST_DRIFT)
        self._factor = (1.0 - GAIN) * self.at(now, usual) + GAIN * ratio
        self._learnt_s = now


class _Job(NamedTuple):
    """A request that waits, or goes on after the present block of its run, as the plan sees it."""

    deadline_s: float
    id: int
    request: Request
    run: Run | None
    from_s: float
    narrow_s: float
    wide_s: float
    least_s: float
    lanes: int


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
    """

    needs = frozenset({Capability.SPLIT, Capability.PREEMPT})

    def __init__(self) -> None:
        self._left: dict[tuple[str, int], tuple[float, float, int]] = {}
        self._stretch: float | None = None
        self._drift, self._narrow_drift, self._wide_drift = _Drift(), _Drift(), _Drift()
        self._drifts = (1.0, 1.0)

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The absolute deadline."""
        return (request.deadline_s,)

    def decide(self, view: View) -> Iterator[Decision]:
        """Drop the hopeless, plan for the others, and bring the lanes in line with the plan."""
        running, now = view.running, view.now
        usual = self._drift.at(now)
        self._drifts = self._narrow_drift.at(now, usual), self._wide_drift.at(now, usual)
        jobs = [self._going_on(run, view) for run in running if run.giving_up is None]
        most = len(jobs) + DEPTH
        for request in view.ready:
            if len(jobs) == most:
                break
            job = self._job(request, None, now, self._left_s(request, request.next_block, view))
            if now + job.least_s > request.deadline_s:
                yield Drop(request, "cannot meet its deadline any more")
            else:
                jobs.append(job)
        if not jobs:
            return
        if len(jobs) > 1:
            jobs.sort(key=_by_deadline)
        wide = jobs[0].lanes > 1 and self._wide_is_better(jobs, _free_from(running, view), view)
        yield from self._carry_out(jobs, wide, running, view)

    def _carry_out(
        self, jobs: Sequence[_Job], wide: bool, running: Sequence[Run], view: View
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
        someone_waits = any(job.run is None for job in jobs)
        for run in running:
            if run.stopping is not None:
                continue
            count = wanted.get(run.request.id, 0)
            in_the_way = count == 0 or (len(run.cores) > max(count, share) and someone_waits)
            if in_the_way or (len(run.cores) < count and run.blocks.stop - run.next_block > 1):
                yield Preempt(run, How.DRAIN)
        for job in jobs:
            count = wanted.get(job.id, 0)
            if job.run is None and 0 < count <= len(idle):
                cores = tuple(idle[:count]) if count > 1 else fastest(job.request, idle[:share], view)
                yield rest(job.request, cores)
                del idle[: len(cores)]
            elif count > len(idle) and job.run is None:
                return  # lanes that come free are for this one

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Learn from a run how fast the machine is just now."""
        kinds = tuple([view.device.kind_of[core.index] for core in run.cores])
        option = view.table(run.request).option(run.mode, run.blocks.start, run.blocks.stop, kinds)
        believed_s = option.seconds(view.device.dram_bandwidth_bytes_s)
        narrow = len(run.cores) == 1
        if narrow and view.running:
            believed_s *= self._stretched(run.request, view)
        ratio, now = actual_s / believed_s, view.now
        self._drift.learn(ratio, now)
        own = self._narrow_drift if narrow else self._wide_drift
        own.learn(ratio, now, self._drift.at(now))

    # --- the plan ----------------------------------------------------------------------------------

    def _wide_is_better(self, jobs: Sequence[_Job], free_s: list[float], view: View) -> bool:
        if len(jobs) == 1:
            return True
        first, lanes = jobs[0], len(free_s)
        stretch = self._stretched(first.request, view)
        late_narrow = _late(jobs, free_s, stretch * CAUTION)
        together_s = sum(job.narrow_s for job in jobs) * stretch / min(lanes, len(jobs))
        costs_work = together_s < sum(job.least_s for job in jobs)
        if late_narrow == 0 and costs_work:
            return False
        begin_s = max(first.from_s, sorted(free_s)[first.lanes - 1])
        end_s = begin_s + first.wide_s
        late_first = end_s > first.deadline_s
        now_s = begin_s if late_first else end_s
        narrow_after = late_first + _late(jobs[1:], [max(now_s, at) for at in free_s], stretch * CAUTION)
        late_wide = late_first + _late_in_turn(jobs[1:], now_s)
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

    # --- jobs --------------------------------------------------------------------------------------

    def _going_on(self, run: Run, view: View) -> _Job:
        request = run.request
        left = self._left_s(request, run.next_block + 1, view)
        return self._job(request, run, run.block_end_s, left)

    def _job(self, request: Request, run: Run | None, from_s: float, left: tuple[float, float, int]) -> _Job:
        narrow_s, wide_s, lanes = left
        of_narrow, of_wide = self._drifts
        narrow_s *= of_narrow
        if lanes == 1:
            return _Job(request.deadline_s, request.id, request, run, from_s, narrow_s, narrow_s, narrow_s, 1)
        wide_s *= of_wide
        least_s = narrow_s if narrow_s < wide_s else wide_s
        return _Job(request.deadline_s, request.id, request, run, from_s, narrow_s, wide_s, least_s, lanes)

    def _left_s(self, request: Request, first: int, view: View) -> tuple[float, float, int]:
        """Seconds of the blocks from there on, on one lane and on as many as are fastest, and how many."""
        at = (request.model, first)
        known = self._left.get(at)
        if known is None:
            if first >= request.blocks:
                known = (0.0, 0.0, 1)
            else:
                skip = first - request.next_block
                cores = view.device.cores
                narrow_s = view.table(request).remaining_s[first]
                wide_s, lanes = narrow_s, 1
                for count in range(2, len(cores) + 1):
                    over_s = remaining_over_s(request, cores[:count], view, skip=skip)
                    if over_s < wide_s:
                        wide_s, lanes = over_s, count
                known = (narrow_s, wide_s, lanes)
            self._left[at] = known
        return known


def _by_deadline(job: _Job) -> tuple[float, int]:
    return job.deadline_s, job.id


def _free_from(running: Sequence[Run], view: View) -> list[float]:
    """When each lane can take something else: now, or at the end of the block that runs on it."""
    free_s = [view.now] * len(view.device.cores)
    for run in running:
        for core in run.cores:
            free_s[core.index] = max(view.now, run.block_end_s)
    return free_s


def _late(jobs: Sequence[_Job], free_s: Sequence[float], stretch: float) -> int:
    """How many are late if each in turn takes the single lane that is free first."""
    free_s, late = list(free_s), 0
    for job in jobs:
        at_s = min(free_s)
        end_s = max(at_s, job.from_s) + job.narrow_s * stretch
        if end_s > job.deadline_s:
            late += 1
        else:
            free_s[free_s.index(at_s)] = end_s
    return late


def _late_in_turn(jobs: Sequence[_Job], now_s: float) -> int:
    """How many are late if one runs after the other, each over as many lanes as make it fastest."""
    late = 0
    for job in jobs:
        end_s = max(now_s, job.from_s) + job.least_s
        if end_s > job.deadline_s:
            late += 1
        else:
            now_s = end_s
    return late
