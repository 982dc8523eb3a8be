"""List scheduling: what first-come, shortest-job, earliest-deadline and least-laxity have in common."""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Drop, Preempt
from headway.core.protocols import Capability, CostTable, View
from headway.core.request import Request
from headway.core.run import How
from headway.policies.base import Policy
from headway.policies.width import Width, fair_share, fastest, misfits, remaining_over_s, rest, widest

TOLERANCE = 1.25
"""A core keeps a request while each next block takes at most this much longer than on the best core."""


class ListPolicy(Policy):
    """Gives idle cores to ready requests in the order of `key`, layer by layer.

    The first request takes the idle core on which its next block is done first, and keeps it for as many
    blocks as that core suits (outputs then stay in SRAM where they fit). With `preemptive`, a request
    that sorts before a running one takes that one's place at its next block end; with `drops`, a
    request that can no longer meet its deadline even alone is given up. With another `width` than narrow
    runs are split over several cores (see `Width`); adaptive ones change theirs at block ends.
    """

    preemptive: bool = False
    drops: bool = False

    def __init__(self, width: Width = Width.NARROW) -> None:
        self.width = width
        if width is not Width.NARROW:
            self.needs = self.needs | {Capability.SPLIT}
        self._ends: dict[tuple[str, int, int], int] = {}
        self._alone: dict[tuple[str, int], float] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Fill the idle cores, then preempt."""
        idle = list(view.idle)
        most = len(idle) + (len(view.device.cores) if self.preemptive else 0)
        waiting: list[Request] = []
        for request in view.ready:
            if len(waiting) == most:
                break
            if self.drops and view.now + self.remaining_s(request, view) > request.deadline_s:
                yield Drop(request, "cannot meet its deadline any more")
            else:
                waiting.append(request)
        adaptive = self.width is Width.ADAPTIVE
        share = fair_share(len(waiting) + len(view.running), view) if adaptive else 1
        while waiting and idle:
            run = self.start(waiting[0], idle, share, view)
            if run is None:
                break
            del waiting[0]
            idle = [core for core in idle if core not in run.cores]
            yield run
        if self.preemptive and (waiting or adaptive):
            yield from self.preempt(waiting, idle, view)

    def start(self, request: Request, idle: list[Core], share: int, view: View) -> Dispatch | None:
        """The run that a request gets now, or None if it waits for more cores."""
        if self.width is Width.WIDE:
            everything = len(idle) == len(view.device.cores)
            return rest(request, widest(request, idle, view)) if everything else None
        if self.width is Width.ADAPTIVE:
            cores = fastest(request, idle[:share], view)
            if len(cores) > 1:
                return rest(request, cores)
        core = self.place(request, idle, view)
        return Dispatch((request,), range(request.next_block, self.end(request, core, view)), (core,))

    def remaining_s(self, request: Request, view: View) -> float:
        """Optimistic seconds of work left, in the widest run that it may get."""
        if self.width is Width.NARROW:
            return self._alone_s(request, view)
        over_s = remaining_over_s(request, view.device.cores, view)
        return over_s if self.width is Width.WIDE else min(over_s, self._alone_s(request, view))

    def _alone_s(self, request: Request, view: View) -> float:
        """The less of two: every block by itself on its best core, or all of them in one run on one core,
        which keeps outputs in SRAM and is dispatched once."""
        at = (request.model, request.next_block)
        known = self._alone.get(at)
        if known is None:
            table, device = view.table(request), view.device
            known = view.remaining_s(request)
            for kind in range(len(device.kinds)):
                whole = table.option(Mode.SERIAL, request.next_block, table.blocks, (kind,))
                known = min(known, whole.seconds(device.dram_bandwidth_bytes_s))
            self._alone[at] = known
        return known

    def place(self, request: Request, idle: list[Core], view: View) -> Core:
        """The idle core on which the request's next block ends first, SRAM contents regarded."""
        if len(idle) == 1:
            return idle[0]
        table = view.table(request)
        block, kind_of, bandwidth = (
            request.next_block,
            view.device.kind_of,
            view.device.dram_bandwidth_bytes_s,
        )
        best, best_s = idle[0], float("inf")
        for core in idle:
            option = table.serial[block][kind_of[core.index]]
            extra = view.extra_dram_bytes(request, block, Mode.SERIAL, (core,))
            seconds = option.fixed_s + max(option.compute_s, (option.dram_bytes + extra) / bandwidth)
            if seconds < best_s:
                best, best_s = core, seconds
        return best

    def end(self, request: Request, core: Core, view: View) -> int:
        """The block before which the request leaves this core again."""
        kind = view.device.kind_of[core.index]
        at = (request.model, request.next_block, kind)
        known = self._ends.get(at)
        if known is None:
            known = self._ends[at] = _suited_until(view.table(request), request.next_block, kind)
        return known

    def preempt(self, waiting: list[Request], idle: list[Core], view: View) -> Iterator[Decision]:
        """Stop those running requests that sort after waiting ones, at the end of their block; and those
        that should go on in another width."""
        running = view.running
        victims = [run for run in running if run.stopping is None]
        freed = len(running) - len(victims)
        victims.sort(key=lambda run: run.request.key, reverse=True)
        stopped = []
        for request, run in zip(waiting[freed:], victims, strict=False):
            if request.key >= run.request.key:
                break
            stopped.append(run)
        if self.width is Width.ADAPTIVE:
            stopped += [run for run in misfits(len(waiting), idle, view) if run not in stopped]
        for run in stopped:
            yield Preempt(run, How.DRAIN)


class PreemptiveListPolicy(ListPolicy):
    """A list policy that may preempt."""

    preemptive = True
    needs = frozenset({Capability.PREEMPT})


def _suited_until(table: CostTable, first: int, kind: int) -> int:
    end = first + 1
    while end < table.blocks and table.serial_s[end][kind] <= TOLERANCE * table.best_s[end]:
        end += 1
    return end
