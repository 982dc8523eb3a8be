"""Headway's half for accelerators: Lucas's choice of runs for those requests that can be on time together.

Lucas takes each request by itself: while its fastest runs would still meet its deadline it comes in order of
deadline, and where there is too much to do all of them begin and many end late. Headway decides first who is
served (docs/headway-policy.md tells what each part brought):

1. Admission. Waiting and running requests that can still be saved are planned in order of deadline by the
   rule of Moore and Hodgson (`headway_admission`): whenever one would be late, the one with most work per
   unit of weight is left out. It is decided anew each time, so one left out comes back when there is room.
2. Choice. Admitted requests are served in order of deadline by Lucas's choice between fusion over several
   cores, over one, and layer by layer.
3. Those left out and late ones fill cores that stay idle, the shortest first.
4. Yielding. If admitted requests wait and no core is idle, runs that are late or left out stop at their next
   safe point, the longest first. Beyond that Lucas's preemption holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from typing import cast

from headway.core.block import Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Preempt
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.headway_admission import OVERLAP, STRETCH, Least, Load, left_out
from headway.policies.lucas import JOBS_CONSIDERED, Lucas
from headway.policies.lucas_order import Place, first_from
from headway.policies.lucas_pricing import Pressure

HORIZON = 40
"""How many savable requests one decision plans for, those that must start first; the others wait unseen."""

WORTH_STOPPING = 3.0
"""A run yields if it would go on for more than this many times the way to its next safe point."""


class OnCores(Lucas):
    """Serves those requests that can be on time together, in the runs that Lucas would choose.

    Each argument that is False leaves something out, for the ablations: `admission`, so that every request is
    served that can be saved by itself; `yielding` of runs that are late or left out. `stretch` and `overlap`
    say how long the work of all is taken to last (`headway_admission`).
    """

    def __init__(
        self,
        *,
        admission: bool = True,
        yielding: bool = True,
        stretch: float = STRETCH,
        overlap: float = OVERLAP,
    ) -> None:
        super().__init__()
        self._stretch, self._overlap = stretch, overlap
        self._admission = admission
        self._yields = yielding
        self._leasts: dict[str, Least] = {}

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The latest start that still meets the deadline on one core, and what else its order depends on."""
        block, least = request.next_block, self._least(request, view)
        place = Place.of(request, least.alone_s[block], self._preempts_at)
        return (*place[:3], *Load.of(request, least.cores_s[block], least.memory_s[block]))

    def decide(self, view: View) -> Iterator[Decision]:
        """Admit, launch what is worth it, let runs yield, preempt, and set the next alarm."""
        pressure = Pressure(view, self._regards)
        savable, late = self._savable(view, pressure)
        going_on, lost = self._going_on(view)
        plan = [*cast("list[Load]", [request.key[3:] for request in savable]), *going_on.values()]
        plan.sort()
        out: set[int] = set()
        if self._admission and len(savable) + len(view.running) > len(view.device.cores):
            out = left_out(plan, view.now, stretch=self._stretch, overlap=self._overlap)
        admitted = [request for request in savable if request.id not in out] if out else savable
        ahead = admitted[: 2 * JOBS_CONSIDERED + pressure.idle]
        if pressure.idle and view.ready:
            waiting = {request.id: request for request in admitted}
            by_deadline = (waiting[load[2]] for load in plan if load[2] in waiting)
            order = list(islice(by_deadline, JOBS_CONSIDERED + pressure.idle))
            if len(order) < JOBS_CONSIDERED:
                rest = [*[request for request in savable if request.id in out], *late]
                order += nsmallest(JOBS_CONSIDERED, rest, key=_remaining_s)
            yield from self._launches(order, ahead, pressure, view)
        stopped: list[Run] = []
        if self._yields and ahead and not pressure.idle:
            given_up = [run for run, load in going_on.items() if load.id in out]
            stopped = _yielding(lost, given_up, len(ahead), view)
        for run in stopped:
            yield Preempt(run, How.SPILL)
        for decision in self._preempt(ahead, pressure, view):
            if not (isinstance(decision, Preempt) and decision.run in stopped):
                yield decision

    def _least(self, request: Request, view: View) -> Least:
        """The least that a request's model takes."""
        least = self._leasts.get(request.model)
        if least is None:
            device, menu = view.device, self._menu(request, view)
            least = Least(menu, len(device.cores), device.dram_bandwidth_bytes_s)
            self._leasts[request.model] = least
        return least

    # --- who is served -----------------------------------------------------------------------------

    def _savable(self, view: View, pressure: Pressure) -> tuple[list[Request], list[Request]]:
        """Waiting requests that the fastest runs allowed now still save, by latest start, and late ones."""
        now, ready = view.now, view.ready
        at = first_from(ready, now)
        late, savable = list(ready[:at]), list(ready[at : at + HORIZON])
        if late and pressure.pipelines_allowed:
            hasty = [
                request
                for request in late
                if request.deadline_s - self._menu(request, view).fastest_s(request.next_block) >= now
            ]
            savable = [*hasty, *savable]
            late = [request for request in late if request not in hasty]
        return savable, late

    def _going_on(self, view: View) -> tuple[dict[Run, Load], list[Run]]:
        """What runs take until their requests are done, and the runs of requests that cannot be saved."""
        now, bandwidth = view.now, view.device.dram_bandwidth_bytes_s
        cores, running = len(view.device.cores), view.running
        going_on: dict[Run, Load] = {}
        lost: list[Run] = []
        for run in running:
            request, block = run.request, run.blocks.stop
            least = self._least(request, view)
            if run.expected_end_s + least.alone_s[block] > request.deadline_s:
                lost.append(run)
                continue
            rest_s = max(0.0, run.expected_end_s - now)
            share = min(run.bandwidth_bytes_s / bandwidth, 1.0 / len(running))
            cores_s = least.cores_s[block] + rest_s * len(run.cores) / cores
            going_on[run] = Load.of(request, cores_s, least.memory_s[block] + rest_s * share)
        return going_on, lost

    # --- what is launched and what stops -----------------------------------------------------------

    def _launches(
        self, order: list[Request], ahead: list[Request], pressure: Pressure, view: View
    ) -> Iterator[Dispatch]:
        """Runs for idle cores, in that order; what is launched is taken out of both lists."""
        nothing_runs = not view.running
        while pressure.idle and order:
            choice = self._choose(order, ahead, pressure, view)
            if choice is None:
                if not nothing_runs:
                    return  # nothing is worth its core-time now
                choice = _next_layer(order[0], pressure, view)
            request, option, cores = choice
            nothing_runs = False
            order.remove(request)
            if request in ahead:
                ahead.remove(request)
            pressure.launch(option, cores)
            blocks = range(option.first, option.end)
            yield Dispatch((request,), blocks, cores, option.mode, option.cuts, option.band_rows)


def _remaining_s(request: Request) -> float:
    return request.key[1]


def _next_layer(request: Request, pressure: Pressure, view: View) -> tuple[Request, Option, tuple[Core, ...]]:
    """The next layer on the fastest idle core: the guarantee of progress when nothing runs."""
    seconds = view.table(request).serial_s[request.next_block]
    kind = min((kind for kind, free in enumerate(pressure.free) if free), key=lambda kind: seconds[kind])
    return request, view.table(request).serial[request.next_block][kind], (pressure.free[kind][0],)


def _yielding(lost: list[Run], given_up: list[Run], waiting: int, view: View) -> list[Run]:
    """The runs that stop for so many requests that wait: late ones first, the longest of them first."""
    needed = waiting - sum(run.stopping is not None for run in view.running)
    if needed <= 0:
        return []
    found = sorted(lost, key=lambda run: -run.expected_end_s) + given_up
    return [
        run
        for run in found
        if run.stopping is None and run.expected_end_s - view.now > WORTH_STOPPING * run.step_s
    ][:needed]
