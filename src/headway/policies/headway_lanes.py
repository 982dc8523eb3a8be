"""Headway's half for lanes: alone and fast, or side by side and more in all.

A request alone on the device ends soonest, over several lanes if they speed it up; two side by side get more
done, if they do not disturb each other too much. At each decision (docs/headway-policy.md):

1. Admission. Waiting and running requests are taken in order of deadline, as if they ran one after the other,
   with some credit for what running side by side gains; whenever one would be late, the one with most work
   left per unit of value is left out (`headway_outlook`).
2. Alone or side by side. Two plans are walked through: all on single lanes, stretched by the losses of pairs;
   and the first alone, the others afterwards. It is alone if the requests that this saves, in expectation,
   are worth more than the work that it costs. That is the more, the more there is to do.
3. Partner. Beside the first goes the next one, or another that disturbs it clearly less; so many of its
   blocks, found by bisection, that the first is through in time by the estimator's upper bound.
4. A run that starts takes along others of its model that would have to wait, where they allow it, that saves
   work and makes nobody late (`batching`).
5. Nothing waits for a barrier: a lane that comes free is given away at once, and runs in the way stop at the
   end of their block. What cannot be in time any more is dropped.
6. Best effort that waits behind strict requests gets a small share of the lanes (`headway_ageing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Drop, Wake
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import Outcome, Run
from headway.policies.base import Policy
from headway.policies.batching import Queue
from headway.policies.headway_ageing import Ageing, slice_of
from headway.policies.headway_load import Load
from headway.policies.headway_outlook import VALUE_POWER, Outlook, admitted
from headway.policies.headway_pairs import PairLosses, best_partner, partner_end
from headway.policies.lane_plan import Drifts, Job, LeftOver, by_deadline, free_from, stops
from headway.policies.width import batch_table, fair_share, fastest, rest

DEPTH: Final = 12
"""Waiting requests that are planned for; later ones wait unseen."""

CANDIDATES: Final = 6
"""Of how many the partner of the first is chosen."""

LEAST_GAIN: Final = 0.04
"""Requests are run one after the other unless side by side they take less by so large a share of their time;
and a partner takes another's turn only if its loss is less by as much."""

LEAST_WAIT_S: Final = 1e-4
"""Looks ahead are at least so far apart: when one is due moves a little with every decision."""


class OnLanes(Policy):
    """Serves those requests that can be on time together, each alone or beside the partner that suits it.

    Each argument that is False leaves something out, for the ablations: `admission`, so that every request is
    served that can be saved by itself; `yielding` of runs to more urgent requests. With `barrier` lanes are
    given away only when all of them are idle, as Abacus and SKADI do; without `margins` means stand in for
    upper bounds.
    """

    needs = frozenset({Capability.SPLIT, Capability.PREEMPT, Capability.BATCH})

    def __init__(
        self, *, admission: bool = True, yielding: bool = True, barrier: bool = False, margins: bool = True
    ) -> None:
        self._admission = admission
        self._yields = yielding and not barrier
        self._barrier = barrier
        self._margins = margins
        self._left = LeftOver()
        self._drifts = Drifts()
        self._load = Load()
        self._losses = PairLosses()
        self._work_value: dict[str, float] = {}  # by model
        self._outlook = Outlook(self._losses.of, self._value, margins=margins)
        self._served_s: dict[str, float] = {}  # lane time of best-effort tenants
        self._ageing = Ageing()
        self._slice: int | None = None  # the best-effort request that is served before strict ones
        self._wake_s = -inf  # when the next look is due

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """Strict requests by deadline, then best effort by arrival."""
        self._losses.see(request, view)
        if not request.started:
            narrow_s, wide_s, _ = self._left.seconds(request, 0, view)
            work_s = min(narrow_s, wide_s)
            worth = self._work_value[request.model] = work_s**VALUE_POWER
            self._load.arrived(work_s, request.weight * worth, view.now)
        return (0.0, request.deadline_s) if request.strict else (1.0, request.arrival_s)

    def decide(self, view: View) -> Iterator[Decision]:
        """Drop the hopeless, admit, plan for the others, and bring the lanes in line with the plan."""
        running = view.running
        if self._barrier and running:
            return
        now, drifts = view.now, self._drifts.at(view.now)
        waiting = view.ready
        self._ageing.see(bool(waiting) and not waiting[-1].strict, len(view.device.cores), now)
        jobs = [self._going_on(run, drifts, view) for run in running if run.giving_up is None]
        most = len(jobs) + DEPTH
        for request in waiting:
            if len(jobs) == most:
                break
            left = self._left.seconds(request, request.next_block, view)
            job = Job.of(request, None, now, left, drifts)
            if not request.strict:
                jobs.append(job._replace(deadline_s=inf))
            elif now + job.least_s > request.deadline_s:
                yield Drop(request, "cannot meet its deadline any more")
            else:
                jobs.append(job)
        if not jobs:
            return
        out: list[Job] = []
        gain = 0.0
        if len(jobs) > 1:
            jobs.sort(key=by_deadline if jobs[-1].request.strict else self._by_deficit)
            gain = self._gain(jobs, view)
            if self._admission:
                ids = admitted(jobs, self._value, gain, now)
                if ids and len(ids) < len(jobs):
                    out = [job for job in jobs if job.id not in ids]
                    jobs = [job for job in jobs if job.id in ids]
                    gain = self._gain(jobs, view)
        alone = len(jobs) == 1 or len(view.device.cores) == 1 or self._arrange(jobs, gain, running, view)
        aged = self._aged(jobs, out, drifts, view) if jobs[0].request.strict else None
        if aged is not None:
            jobs = [aged, *(job for job in jobs if job.id != aged.id)]
            out = [job for job in out if job.id != aged.id]
        yield from self._carry_out(jobs, out, alone and aged is None, aged, drifts, running, view)
        latest_s = inf
        for job in jobs:
            if job.run is None and now < (at_s := job.deadline_s - job.least_s) < latest_s:
                latest_s = at_s
        latest_s = max(latest_s, now + LEAST_WAIT_S)
        if latest_s < inf and not now < self._wake_s <= latest_s:
            self._wake_s = latest_s
            yield Wake(latest_s)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Learn how fast the machine is just now, and who had how much of it."""
        self._losses.finished()
        kinds = tuple([view.device.kind_of[core.index] for core in run.cores])
        table = batch_table(run.request, run.batch, view)
        option = table.option(run.mode, run.blocks.start, run.blocks.stop, kinds)
        believed_s = option.seconds(view.device.dram_bandwidth_bytes_s)
        narrow = len(run.cores) == 1
        if narrow:
            model = run.request.model
            others = [self._losses.of(model, other.request.model) for other in view.running]
            believed_s *= 1.0 + sum(others)
        self._drifts.learn(actual_s / believed_s, narrow, view.now)
        if self._slice == run.request.id:
            self._slice = None
        if not run.request.strict:
            self._ageing.had(actual_s * len(run.cores))
        for request in run.requests if not run.request.strict else ():
            tenant = request.tenant
            least_s = min(self._served_s.values(), default=0.0)
            used_s = actual_s * len(run.cores) / request.weight / len(run.requests)
            self._served_s[tenant] = self._served_s.get(tenant, least_s) + used_s

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Whatever ends a request ends its slice."""
        if self._slice == request.id:
            self._slice = None

    # --- the plan ----------------------------------------------------------------------------------

    def _value(self, job: Job) -> float:
        request = job.request
        return request.weight * self._work_value[request.model]

    def _gain(self, jobs: Sequence[Job], view: View) -> float:
        """The share of time that all of them side by side save over one after the other."""
        serial_s = sum([job.least_s for job in jobs])
        return 1.0 - self._together_s(jobs, view) / serial_s if serial_s > 0.0 else 0.0

    def _together_s(self, jobs: Sequence[Job], view: View) -> float:
        """What all of them take side by side if all lanes are busy all the time."""
        beside = min(len(view.device.cores), len(jobs))
        model = jobs[0].request.model
        w = self._losses.of(model, jobs[1].request.model) if len(jobs) > 1 else 0.0
        return sum([job.narrow_s for job in jobs]) * (1.0 + w * (beside - 1)) / beside

    def _arrange(self, jobs: list[Job], gain: float, running: Sequence[Run], view: View) -> bool:
        """Whether the first is to run alone; if not, the best partner for it is put behind it."""
        if gain < LEAST_GAIN:
            return True
        now, first, lanes = view.now, jobs[0], len(view.device.cores)
        free_s = free_from(running, view)
        at_s = min(free_s)
        busy = [
            (run.block_end_s - at_s, run.request.id, run.request.model)
            for run in running
            for _ in run.cores
            if run.block_end_s > at_s
        ]
        price = self._load.price()
        lost = self._outlook.side_by_side(jobs, lanes, at_s, busy, now)
        if lost > 0.0:
            begin_s = max(first.from_s, sorted(free_s)[first.lanes - 1])
            late_first = self._outlook.lateness(begin_s + first.wide_s, first.deadline_s, now)
            then_s = begin_s + (1.0 - late_first) * first.wide_s
            beside_after = self._outlook.side_by_side(jobs[1:], lanes, then_s, (), now)
            lost_first = late_first * self._value(first)
            alone = lost_first + min(beside_after, self._outlook.in_turn(jobs[1:], then_s, now))
            if lost - alone > price * gain * first.wide_s:
                return True
        position, less_w = best_partner(first, jobs[1 : 1 + CANDIDATES], self._losses, LEAST_GAIN)
        if position:
            partner = jobs[1 + position]
            order = [first, partner, *jobs[1 : 1 + position], *jobs[2 + position :]]
            saved_s = less_w * min(first.narrow_s, partner.narrow_s)
            if self._outlook.side_by_side(order, lanes, at_s, busy, now) - lost <= price * saved_s:
                jobs[:] = order
        return False

    def _aged(
        self, jobs: Sequence[Job], out: Sequence[Job], drifts: tuple[float, float], view: View
    ) -> Job | None:
        """The best effort that has its turn before strict requests now, if any."""
        if self._slice is not None:
            return next((job for job in (*jobs, *out) if job.run is not None and job.id == self._slice), None)
        if not self._ageing.due:
            return None
        found = [
            Job.of(request, None, view.now, self._left.seconds(request, request.next_block, view), drifts)
            for request in view.ready
            if not request.strict
        ]
        return min([job._replace(deadline_s=inf) for job in found], key=self._by_deficit)

    def _carry_out(
        self,
        jobs: Sequence[Job],
        out: Sequence[Job],
        alone: bool,
        aged: Job | None,
        drifts: tuple[float, float],
        running: Sequence[Run],
        view: View,
    ) -> Iterator[Decision]:
        """Give lanes to jobs in order, all to the first if it runs alone, and stop who is in the way. If the
        first is `aged`, it gets a slice."""
        idle = list(view.idle)
        everyone = [*jobs, *out]
        share = 1 if alone else fair_share(len(jobs), view)  # more than one if lanes would be left over
        if alone:
            wanted = {jobs[0].id: jobs[0].lanes}
        else:
            wanted = {job.id: 1 for job in everyone[: len(view.device.cores)]}
        if self._yields:
            yield from stops(everyone, wanted, share, running)
        beside: Run | Dispatch | None = next((job.run for job in jobs[:1]), None)
        of_narrow, of_wide = drifts
        if len(wanted) > 1 and max([job.request.most_batch for job in everyone]) > 1:
            of_narrow *= 1.0 + self._losses.of(everyone[0].request.model, everyone[1].request.model)
        queue = Queue(everyone, wanted, (of_narrow, of_wide), view)
        for job in everyone:
            count = wanted.get(job.id, 0)
            if job.run is not None or not count:
                continue
            if count > len(idle):
                return  # lanes that come free are for this one
            if job is aged:
                self._slice, beside = job.id, slice_of(job.request, idle.pop(0), view)
                yield beside
                continue
            cores = tuple(idle[:count]) if count > 1 else fastest(job.request, idle[:share], view)
            dispatch = rest(job.request, cores)
            if job is jobs[0]:
                beside = dispatch
            elif beside is not None and len(cores) == 1:
                dispatch = self._until_first_is_through(dispatch, jobs[0], beside, cores[0], view)
            yield queue.start(dispatch)
            del idle[: len(cores)]

    def _until_first_is_through(
        self, dispatch: Dispatch, first: Job, beside: Run | Dispatch, core: Core, view: View
    ) -> Dispatch:
        """The run of a partner, no longer than lets the first be in time; a look only if time is short."""
        within_s = first.deadline_s - view.now
        request = dispatch.requests[0]
        w = self._losses.of(first.request.model, request.model)
        if within_s > 1.5 * (first.from_s - view.now + first.narrow_s) * (1.0 + w):
            return dispatch
        end = partner_end(request, core, beside, within_s, view, margins=self._margins)
        return Dispatch((request,), range(request.next_block, max(end, request.next_block + 1)), (core,))

    def _going_on(self, run: Run, drifts: tuple[float, float], view: View) -> Job:
        request = run.request
        left = self._left.seconds(request, run.next_block + 1, view, run.batch)
        job = Job.of(request, run, run.block_end_s, left, drifts)
        return job if request.strict else job._replace(deadline_s=inf)

    def _by_deficit(self, job: Job) -> tuple[float, float, float, int]:
        """Deadlines, then the best-effort tenant that had least of the lanes, then arrivals."""
        request = job.request
        return job.deadline_s, self._served_s.get(request.tenant, 0.0), request.arrival_s, job.id
