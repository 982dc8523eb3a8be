"""Lucas: an online three-way choice between multi-core fusion, single-core fusion and layer-by-layer.

After the abstract of "Lucas" (ICPADS 2025), which gives the three-way decision and what it regards:
memory bandwidth, layers awaiting execution, and the cost of fusion. The formulas are a reconstruction:
a price for bandwidth, one for core scarcity, a guard on core-time area, and preemption at band
boundaries. docs/lucas.md states them, and what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest

from headway.core.block import Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Preempt, Wake
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.base import Policy
from headway.policies.lucas_outlook import Outlook
from headway.policies.lucas_pricing import Pressure, cheapest
from headway.policies.registry import policy

JOBS_CONSIDERED = 8
"""How many waiting requests one decision looks at."""

THETA_PREEMPT = 0.5
"""A request may preempt when its laxity is below this share of its remaining work plus one safe point."""

AGEING = 10.0
"""A late request that waited this many isolated latencies goes first once."""


@policy("lucas")
@policy("lucas:lbl", fuse=False, pipeline=False)
@policy("lucas:scf", pipeline=False)
@policy("lucas:mcf", fuse=False)
class Lucas(Policy):
    """Chooses fusion over one core, over several, or none, by time, area and bandwidth under SLA urgency.

    `fuse=False` leaves out single-core fusion and `pipeline=False` multi-core fusion: the ablations.
    """

    needs = frozenset({Capability.FUSE, Capability.PIPELINE, Capability.PREEMPT})

    def __init__(self, *, fuse: bool = True, pipeline: bool = True) -> None:
        self._outlook = Outlook(fuse=fuse, pipeline=pipeline)

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The latest start that still meets the deadline on one core."""
        return (request.deadline_s - self._outlook.remaining_s(request, view, pipelines=False),)

    def decide(self, view: View) -> Iterator[Decision]:
        """Launch what is worth it, in order of virtual deadline; then preempt; then set the next alarm."""
        pressure = Pressure(view)
        order = self._order(view, pressure)
        idle = list(view.idle)
        launched = False
        while idle and order:
            choice = self._choose(order, idle, pressure, view)
            if choice is None:
                if launched or view.running:
                    break  # idling on purpose: nothing is worth its core-time now
                choice = self._plain(order[0], idle, view)
            request, option, cores = choice
            launched = True
            order.remove(request)
            for core in cores:
                idle.remove(core)
            pressure.launch(option, len(idle))
            yield Dispatch(
                (request,), range(option.first, option.end), cores, option.mode, option.cuts, option.band_rows
            )
        if order:
            yield from self._preempt(order, view)
            yield from self._alarm(order, view)

    # --- order -------------------------------------------------------------------------------------

    def _order(self, view: View, pressure: Pressure) -> list[Request]:
        """Savable requests by virtual deadline, then late ones by remaining work, an aged one first.

        A request is savable if the fastest runs that are allowed now still meet its deadline; pipelines
        count only while cores are not short of work. The virtual deadline divides the time from arrival
        to deadline by the weight. It does not move with time, as laxity does: ordered by laxity, requests
        of like urgency take turns at every layer, and all of them end late.
        """
        ready, now = view.ready, view.now
        if pressure.pipelines_allowed:
            savable = [request for request in ready if self._latest_start_s(request, view, pressure) >= now]
            late = [request for request in ready if self._latest_start_s(request, view, pressure) < now]
        else:
            at = _first_not_before(ready, now)
            savable, late = list(ready[at : at + 2 * JOBS_CONSIDERED]), list(ready[:at])
        savable.sort(key=_virtual_deadline)
        if not late:
            return savable
        aged = [request for request in late if now - request.ready_since_s > AGEING * request.isolated_s]
        first = min(aged, key=lambda request: request.ready_since_s, default=None)
        shortest = nsmallest(
            JOBS_CONSIDERED,
            (request for request in late if request is not first),
            key=lambda request: self._outlook.remaining_s(request, view, pipelines=False),
        )
        return ([first] if first is not None else []) + savable + shortest

    def _latest_start_s(self, request: Request, view: View, pressure: Pressure) -> float:
        """The latest start that still meets the deadline with the runs that are allowed now."""
        if not pressure.pipelines_allowed:
            return request.key[0]
        return request.deadline_s - self._outlook.remaining_s(request, view, pipelines=True)

    # --- choice ------------------------------------------------------------------------------------

    def _choose(
        self, order: list[Request], idle: list[Core], pressure: Pressure, view: View
    ) -> tuple[Request, Option, tuple[Core, ...]] | None:
        """The first request in order that has a run worth its core-time, and that run."""
        now = view.now
        for request in order[:JOBS_CONSIDERED]:
            starts = [other.key[0] for other in order if other is not request and other.key[0] >= now]
            pipelines = pressure.pipelines_allowed
            found = cheapest(
                request,
                self._outlook.options(
                    request.model, view.table(request), request.next_block, pipelines=pipelines
                ),
                laxity_s=self._latest_start_s(request, view, pressure) - now,
                remaining_s=self._outlook.remaining_s(request, view, pipelines=pipelines),
                blocking_s=min(starts) - now if starts else None,
                idle=idle,
                pressure=pressure,
                view=view,
            )
            if found is not None:
                return request, *found
        return None

    @staticmethod
    def _plain(request: Request, idle: list[Core], view: View) -> tuple[Request, Option, tuple[Core, ...]]:
        """The next layer on the fastest idle core: the guarantee of progress when nothing runs."""
        table, kind_of = view.table(request), view.device.kind_of
        core = min(idle, key=lambda c: table.serial_s[request.next_block][kind_of[c.index]])
        return request, table.serial[request.next_block][kind_of[core.index]], (core,)

    # --- preemption --------------------------------------------------------------------------------

    def _preempt(self, order: list[Request], view: View) -> Iterator[Decision]:
        """Stop runs with time to spare for waiting requests that are about to become late."""
        running = view.running
        pending = sum(run.stopping is not None for run in running)
        victims = [run for run in running if run.stopping is None]
        for request in order:
            laxity_s = request.key[0] - view.now
            remaining_s = self._outlook.remaining_s(request, view, pipelines=False)
            if not 0.0 <= laxity_s < THETA_PREEMPT * remaining_s + _longest_step_s(victims):
                continue
            if pending:
                pending -= 1
                continue
            victim = self._victim(request, laxity_s + remaining_s, victims, view)
            if victim is not None:
                victims.remove(victim)
                yield Preempt(victim, How.SPILL)

    def _victim(self, request: Request, time_left_s: float, victims: Sequence[Run], view: View) -> Run | None:
        """The run with most to spare whose cores save the request if freed at the next safe point."""
        best, best_spare_s = None, 0.0
        table, kind_of = view.table(request), view.device.kind_of
        for run in victims:
            needed_s = min(
                self._outlook.remaining_on_s(request, kind_of[core.index], table) for core in run.cores
            )
            if run.step_s + needed_s > time_left_s:
                continue
            held = run.request
            after_s = view.table(held).remaining_s[run.blocks.stop]
            laxity_s = held.deadline_s - run.expected_end_s - after_s
            if laxity_s < 0.0:
                return run  # it is late already and loses nothing more
            spare_s = laxity_s - needed_s - 2.0 * run.spill_bytes / view.device.dram_bandwidth_bytes_s
            if spare_s > best_spare_s:
                best, best_spare_s = run, spare_s
        return best

    def _alarm(self, order: list[Request], view: View) -> Iterator[Wake]:
        """Wake when the first waiting request may preempt, or becomes late."""
        times = []
        step_s = _longest_step_s(view.running)
        for request in order:
            remaining_s = self._outlook.remaining_s(request, view, pipelines=False)
            times += [request.key[0] - THETA_PREEMPT * remaining_s - step_s, request.key[0]]
        ahead = [at for at in times if at > view.now]
        if ahead:
            yield Wake(min(ahead) * (1.0 + 1e-12) + 1e-12)  # just past it, so that the tier has changed


def _longest_step_s(runs: Sequence[Run]) -> float:
    """The longest time between two safe points of these runs: how early a preemption must be asked for."""
    return max((run.step_s for run in runs), default=0.0)


def _virtual_deadline(request: Request) -> tuple[bool, float, int]:
    """Best effort after those with an SLA, then by arrival + (deadline - arrival) / weight."""
    ahead_s = (request.deadline_s - request.arrival_s) / request.weight
    return not request.strict, request.arrival_s + ahead_s, request.id


def _first_not_before(ready: Sequence[Request], now: float) -> int:
    """The position of the first request, in order of latest start, whose latest start is not past."""
    low, high = 0, len(ready)
    while low < high:
        middle = (low + high) // 2
        if ready[middle].key[0] < now:
            low = middle + 1
        else:
            high = middle
    return low
