"""Lucas: an online three-way choice between multi-core fusion, single-core fusion and layer-by-layer.

After the abstract of "Lucas" (ICPADS 2025), which gives the three-way decision and what it regards:
memory bandwidth, layers awaiting execution, and the cost of fusion. The formulas are a reconstruction:
a price for bandwidth, one for core scarcity, a guard on core-time area, and preemption at band
boundaries. `docs/lucas.md` states them and what each default was tuned on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest

from headway.core.block import Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Preempt, Wake
from headway.core.protocols import Capability, CostTable, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.base import Policy
from headway.policies.lucas_pricing import Pressure, cheapest
from headway.policies.registry import policy

JOBS_CONSIDERED = 8
"""How many waiting requests one decision looks at."""

THETA_PREEMPT = 0.25
"""A request whose laxity is below this share of its remaining work may preempt."""

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
        self._fuse = fuse
        self._pipeline = pipeline
        self._on_kind: dict[tuple[str, int], list[float]] = {}

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The latest start that still meets the deadline: those before now cannot be saved any more."""
        return (request.deadline_s - view.remaining_s(request),)

    def decide(self, view: View) -> Iterator[Decision]:
        """Launch what is worth launching, in order of savable laxity; then preempt; then set the next alarm."""
        order = self._order(view)
        idle = list(view.idle)
        running = view.running
        pressure = Pressure(view, len(view.ready))
        launched = False
        while idle and order:
            choice = self._choose(order, idle, pressure, view)
            if choice is None:
                if launched or running:
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
            yield from self._preempt(order, running, view)
            alarm = self._alarm(order, view)
            if alarm is not None:
                yield alarm

    # --- order -------------------------------------------------------------------------------------

    def _order(self, view: View) -> list[Request]:
        """Savable requests by laxity over weight, then late ones by remaining work, aged ones first."""
        ready, now = view.ready, view.now
        low, high = 0, len(ready)
        while low < high:
            middle = (low + high) // 2
            if ready[middle].key[0] < now:
                low = middle + 1
            else:
                high = middle
        savable = list(ready[low : low + JOBS_CONSIDERED])
        savable.sort(key=lambda r: (r.key[0] - now) / r.weight)
        if low == 0:
            return savable
        late = ready[:low]
        aged = [r for r in late if now - r.ready_since_s > AGEING * r.isolated_s]
        if aged:
            first = min(aged, key=lambda r: r.ready_since_s)
            rest = nsmallest(JOBS_CONSIDERED, (r for r in late if r is not first), key=view.remaining_s)
            return [first, *savable, *rest]
        return savable + nsmallest(JOBS_CONSIDERED, late, key=view.remaining_s)

    # --- choice ------------------------------------------------------------------------------------

    def _choose(
        self, order: list[Request], idle: list[Core], pressure: Pressure, view: View
    ) -> tuple[Request, Option, tuple[Core, ...]] | None:
        """The first request in order that has a run worth its core-time, and that run."""
        for request in order[:JOBS_CONSIDERED]:
            least = min((r.key[0] for r in order if r is not request and r.key[0] >= view.now), default=None)
            blocking_s = None if least is None else least - view.now
            found = cheapest(
                request, self._candidates(request, pressure, view), idle, pressure, blocking_s, view
            )
            if found is not None:
                return request, *found
        return None

    def _candidates(self, request: Request, pressure: Pressure, view: View) -> Iterator[Option]:
        table = view.table(request)
        yield from table.serial[request.next_block]
        if self._fuse:
            yield from table.stacks(request.next_block)
        if self._pipeline and pressure.pipelines_allowed:
            yield from table.pipelines(request.next_block)

    @staticmethod
    def _plain(request: Request, idle: list[Core], view: View) -> tuple[Request, Option, tuple[Core, ...]]:
        """The next layer on the fastest idle core: the guarantee of progress when nothing runs."""
        table, kind_of = view.table(request), view.device.kind_of
        core = min(idle, key=lambda c: table.serial_s[request.next_block][kind_of[c.index]])
        return request, table.serial[request.next_block][kind_of[core.index]], (core,)

    # --- preemption --------------------------------------------------------------------------------

    def _preempt(self, order: list[Request], running: Sequence[Run], view: View) -> Iterator[Decision]:
        """Stop runs with time to spare for waiting requests that are about to become late."""
        now = view.now
        pending = sum(run.stopping is not None for run in running)
        victims = [run for run in running if run.stopping is None]
        for request in order:
            laxity_s = request.key[0] - now
            remaining_s = view.remaining_s(request)
            if not 0.0 <= laxity_s < THETA_PREEMPT * remaining_s:
                continue
            if pending:
                pending -= 1
                continue
            victim = self._victim(request, laxity_s + remaining_s, victims, view)
            if victim is not None:
                victims.remove(victim)
                yield Preempt(victim, How.SPILL)

    def _victim(self, request: Request, time_left_s: float, victims: list[Run], view: View) -> Run | None:
        """The run with most to spare whose cores save the request if freed at the next safe point."""
        best, best_spare_s = None, 0.0
        for run in victims:
            needed_s = min(
                self._remaining_on(request, view.device.kind_of[core.index], view.table(request), view)
                for core in run.cores
            )
            if run.step_s + needed_s > time_left_s:
                continue
            held = run.request
            after_s = view.table(held).remaining_s[run.blocks.stop]
            laxity_s = held.deadline_s - view.now - (run.expected_end_s - view.now) - after_s
            if laxity_s < 0.0:
                return run  # it is late already and loses nothing more
            spare_s = laxity_s - needed_s - 2.0 * run.spill_bytes / view.device.dram_bandwidth_bytes_s
            if spare_s > best_spare_s:
                best, best_spare_s = run, spare_s
        return best

    def _remaining_on(self, request: Request, kind: int, table: CostTable, view: View) -> float:
        """Seconds of layer-by-layer work left if all of it ran on one kind of core."""
        at = (request.model, kind)
        sums = self._on_kind.get(at)
        if sums is None:
            sums = [0.0]
            for block in range(table.blocks - 1, -1, -1):
                sums.append(sums[-1] + table.serial_s[block][kind])
            sums.reverse()
            self._on_kind[at] = sums
        return sums[request.next_block]

    @staticmethod
    def _alarm(order: list[Request], view: View) -> Wake | None:
        """Wake when the first waiting request may preempt, or becomes late."""
        times: list[float] = []
        for request in order:
            urgent_s = request.key[0] - THETA_PREEMPT * view.remaining_s(request)
            times.extend(at for at in (urgent_s, request.key[0]) if at > view.now)
        return Wake(min(times) * (1.0 + 1e-12) + 1e-12) if times else None
