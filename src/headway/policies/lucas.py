"""Lucas: an online three-way choice between multi-core fusion, single-core fusion and layer-by-layer.

After the abstract of "Lucas" (ICPADS 2025), which gives the three-way decision and what it regards:
memory bandwidth, layers awaiting execution, and the cost of fusion. The formulas are a reconstruction:
a price for bandwidth, one for core scarcity, a guard on core-time area, and preemption at band
boundaries. docs/lucas.md states them, and what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Preempt, Wake
from headway.core.protocols import Capability, CostTable, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.base import Policy
from headway.policies.lucas_menu import Menu
from headway.policies.lucas_order import THETA_PREEMPT, Late, Place, by_virtual_deadline, first_from
from headway.policies.lucas_pricing import Pressure, Regards, cheapest
from headway.policies.lucas_runs import Allowed
from headway.policies.registry import policy

JOBS_CONSIDERED = 8
"""How many waiting requests one decision looks at."""

_MENUS: WeakKeyDictionary[CostTable, dict[Allowed, Menu]] = WeakKeyDictionary()
"""What was read out of a cost table serves every run that uses the table."""


@policy("lucas")
@policy("lucas:lbl", fuse=False, pipeline=False)
@policy("lucas:scf", pipeline=False)
@policy("lucas:mcf", fuse=False)
@policy("lucas:no-guard", guard=False)
@policy("lucas:no-bandwidth", bandwidth=False)
@policy("lucas:no-wait", waiting=False)
@policy("lucas:fixed-band", best_bands=False)
@policy("lucas:no-preempt", preempt=False)
@policy("lucas:oracle", estimator="foresight")
class Lucas(Policy):
    """Chooses fusion over one core, over several, or none, by time, area and bandwidth under SLA urgency.

    Each argument that is False leaves something out, for the ablations: single-core fusion (`fuse`),
    multi-core fusion (`pipeline`), the guard on core-time (`guard`), the share and the price of memory
    bandwidth (`bandwidth`), the layers that await execution (`waiting`), the best number of bands
    (`best_bands`), preemption (`preempt`), which begins at a laxity of `preempts_at` times the remaining
    work. With the `estimator` "foresight" it is the oracle, which knows the true solo times of every request.
    """

    needs = frozenset({Capability.FUSE, Capability.PIPELINE, Capability.PREEMPT})

    def __init__(
        self,
        *,
        fuse: bool = True,
        pipeline: bool = True,
        guard: bool = True,
        bandwidth: bool = True,
        waiting: bool = True,
        best_bands: bool = True,
        preempt: bool = True,
        preempts_at: float = THETA_PREEMPT,
        estimator: str = "default",
    ) -> None:
        self.estimator = estimator
        self.fixed_bands = not best_bands
        self._preempts_at = preempts_at
        self._allowed = Allowed(fuse=fuse, pipeline=pipeline, best_bands=best_bands)
        self._regards = Regards(guard=guard, bandwidth=bandwidth, waiting=waiting)
        self._preempts = preempt
        self._late = Late()
        self._menus: WeakKeyDictionary[CostTable, Menu] = WeakKeyDictionary()

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The latest start that still meets the deadline on one core; see Place."""
        place = Place.of(
            request, self._menu(request, view).remaining_s[request.next_block], self._preempts_at
        )
        self._late.add(request, place)
        return place

    def decide(self, view: View) -> Iterator[Decision]:
        """Launch what is worth it, in order of virtual deadline; then preempt; then set the next alarm."""
        now = view.now
        pressure = Pressure(view, self._regards)
        at = first_from(view.ready, now)
        ahead = list(view.ready[at : at + 2 * JOBS_CONSIDERED + pressure.idle])
        if pressure.idle and view.ready:
            order = self._order(ahead, at, view, pressure)
            nothing_runs = not view.running
            while pressure.idle and order:
                choice = self._choose(order, ahead, pressure, view)
                if choice is None:
                    if not nothing_runs:
                        break  # idling on purpose: nothing is worth its core-time now
                    choice = _plain(order[0], pressure, view)
                request, option, cores = choice
                nothing_runs = False
                order.remove(request)
                if request in ahead:
                    ahead.remove(request)
                pressure.launch(option, cores)
                blocks = range(option.first, option.end)
                yield Dispatch((request,), blocks, cores, option.mode, option.cuts, option.band_rows)
        yield from self._preempt(ahead, pressure, view)

    def _menu(self, request: Request, view: View) -> Menu:
        """The runs of a request's model."""
        table = view.table(request)
        menu = self._menus.get(table)
        if menu is None:
            shared = _MENUS.setdefault(table, {})
            menu = shared.get(self._allowed)
            if menu is None:
                menu = Menu(table, view.device.dram_bandwidth_bytes_s, self._allowed)
                shared[self._allowed] = menu
            self._menus[table] = menu
        return menu

    # --- order -------------------------------------------------------------------------------------

    def _order(self, ahead: Sequence[Request], at: int, view: View, pressure: Pressure) -> list[Request]:
        """Savable requests by virtual deadline, then late ones by remaining work, an aged one first.

        A request is savable if the fastest runs that are allowed now still meet its deadline; pipelines
        count only while cores are not short of work. `ahead` are the most urgent requests that one core each
        can save, from position `at` of those that wait. The virtual deadline does not move with time, as
        laxity does: ordered by laxity, requests of like urgency take turns at every layer, and all of them
        end late.
        """
        now, most = view.now, JOBS_CONSIDERED + pressure.idle
        savable = list(ahead)
        if pressure.pipelines_allowed:
            savable += [
                request
                for request in view.ready[max(0, at - most) : at]
                if request.deadline_s - self._menu(request, view).fastest_s(request.next_block) >= now
            ]
        savable.sort(key=by_virtual_deadline)
        self._late.forget(len(view.ready))
        past = view.ready[:at]
        first = self._late.aged(now)
        if first in savable or first not in past:
            first = None
        if len(savable) < most:
            late = self._late.shortest(most, now)
            if not set(past).issuperset(late):  # some are being dropped in this very answer
                late = sorted(past, key=_remaining_s)[:most]
            savable += [request for request in late if request is not first and request not in savable]
        return savable if first is None else [first, *savable]

    # --- choice ------------------------------------------------------------------------------------

    def _choose(
        self, order: Sequence[Request], ahead: Sequence[Request], pressure: Pressure, view: View
    ) -> tuple[Request, Option, tuple[Core, ...]] | None:
        """The first request in order that has a run worth its core-time, and that run."""
        now = view.now
        for request in order[:JOBS_CONSIDERED]:
            menu = self._menu(request, view)
            latest_start_s, remaining_s, *_ = request.key
            if pressure.pipelines_allowed:
                remaining_s = menu.fastest_s(request.next_block)
                latest_start_s = request.deadline_s - remaining_s
            blocking_s = float("inf")
            for other in ahead:
                if other is not request:
                    blocking_s = other.key[0] - now
                    break
            found = cheapest(
                request,
                menu,
                pressure,
                laxity_s=latest_start_s - now,
                remaining_s=remaining_s,
                blocking_s=blocking_s,
                view=view,
            )
            if found is not None:
                return request, *found
        return None

    # --- preemption --------------------------------------------------------------------------------

    def _preempt(self, waiting: Sequence[Request], pressure: Pressure, view: View) -> Iterator[Decision]:
        """Stop runs with time to spare for waiting requests that are about to become late, and wake when the
        next one may do so, or, while a core idles on purpose, when one becomes late."""
        now, alarm_s = view.now, float("inf")
        if self._preempts and waiting:
            running = view.running
            soon_s = now + max([_stopping_s(run, view) for run in running], default=0.0)
            pressed = []
            for request in waiting:
                from_s = request.key[2]
                if from_s < soon_s:
                    pressed.append(request)
                elif from_s - soon_s < alarm_s:
                    alarm_s = from_s - soon_s
            alarm_s += now
            if pressed and running:
                yield from self._stops(pressed, running, view)
        if pressure.idle:
            for request in waiting:
                latest_start_s = request.key[0]
                if now < latest_start_s < alarm_s:
                    alarm_s = latest_start_s
        if alarm_s < float("inf"):
            yield Wake(alarm_s * (1.0 + 1e-12) + 1e-12)  # just past it, so that the tier has changed

    def _stops(self, pressed: list[Request], running: Sequence[Run], view: View) -> Iterator[Preempt]:
        """The runs to be stopped for requests that are about to become late."""
        now = view.now
        victims = [_victim(run, view) for run in running if run.stopping is None]
        pending = len(running) - len(victims)
        most_s = max([victim.spare_s for victim in victims], default=0.0)
        pressed.sort(key=by_virtual_deadline)
        for request in pressed[pending:]:  # the cores that come free anyway serve the first ones
            latest_start_s, remaining_s, *_ = request.key
            if most_s <= remaining_s:
                continue  # none can spare even the least time that it needs
            victim = self._yielding(request, latest_start_s - now + remaining_s, victims, view)
            if victim is not None:
                victims.remove(victim)
                most_s = max([victim.spare_s for victim in victims], default=0.0)
                yield Preempt(victim.run, How.SPILL)

    def _yielding(
        self, request: Request, time_left_s: float, victims: Sequence[_Victim], view: View
    ) -> _Victim | None:
        """The run with most to spare whose cores save the request if freed at the next safe point."""
        best, best_spare_s = None, 0.0
        menu, block = self._menu(request, view), request.next_block
        needed_s = [menu.on_kind_s(block, kind) for kind in range(len(view.device.kinds))]
        for victim in victims:
            _, stopping_s, spare_s, kinds = victim
            least_s = needed_s[kinds[0]] if len(kinds) == 1 else min([needed_s[kind] for kind in kinds])
            if stopping_s + least_s <= time_left_s and spare_s - least_s > best_spare_s:
                best, best_spare_s = victim, spare_s - least_s
        return best


def _remaining_s(request: Request) -> float:
    return request.key[1]


class _Victim(NamedTuple):
    """A run that could be stopped: the longest that this takes, the time it can spare beyond what
    stopping and going on costs (inf if it is late already and loses nothing more), and the kinds of its
    cores."""

    run: Run
    stopping_s: float
    spare_s: float
    kinds: tuple[int, ...]


def _victim(run: Run, view: View) -> _Victim:
    held, device = run.request, view.device
    laxity_s = held.deadline_s - run.expected_end_s - view.table(held).remaining_s[run.blocks.stop]
    spare_s = laxity_s - 2.0 * run.spill_bytes / device.dram_bandwidth_bytes_s
    kinds = tuple([device.kind_of[core.index] for core in run.cores])
    return _Victim(run, _stopping_s(run, view), spare_s if laxity_s >= 0.0 else float("inf"), kinds)


def _stopping_s(run: Run, view: View) -> float:
    """Seconds in which a run has certainly stopped: up to its next safe point, and until a pipeline has
    drained."""
    if run.mode is not Mode.PIPELINE:
        return run.step_s
    kinds = tuple([view.device.kind_of[core.index] for core in run.cores])
    table, blocks = view.table(run.request), run.blocks
    option = table.option(run.mode, blocks.start, blocks.stop, kinds, run.cuts, run.band_rows)
    return run.step_s + option.drain_s


def _plain(request: Request, pressure: Pressure, view: View) -> tuple[Request, Option, tuple[Core, ...]]:
    """The next layer on the fastest idle core: the guarantee of progress when nothing runs."""
    serial = view.table(request).serial_s[request.next_block]
    kind = min((kind for kind, free in enumerate(pressure.free) if free), key=lambda kind: serial[kind])
    return request, view.table(request).serial[request.next_block][kind], (pressure.free[kind][0],)
