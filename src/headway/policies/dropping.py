"""The early-drop rule that every policy can be run with: `NAME:drop` is policy NAME behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, cast

from headway.core.block import Mode
from headway.core.messages import Decision, Drop
from headway.core.protocols import Capability, CostTable, View
from headway.core.request import Request, State
from headway.core.run import Outcome, Run
from headway.policies.base import Policy
from headway.policies.spatial import Spatial

SUFFIX = ":drop"
"""What is put behind a policy's name."""

_SURE = 1.0 - 1e-9  # remaining times are sums of floats

REASON = "cannot meet its deadline any more"


class Dropping(Policy):
    """Another policy, with every waiting request dropped once it cannot meet its deadline any more.

    A request is hopeless when even its optimistic remaining work, in the fastest runs that the policy may
    use, with the whole device and its full bandwidth to itself, ends after the deadline. The policy does not
    see it any more. What runs is left alone. Amortised O(log n) per request that becomes ready.
    """

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.needs, self.at_block_ends = inner.needs, inner.at_block_ends
        self.needs_accelerator, self.needs_lanes = inner.needs_accelerator, inner.needs_lanes
        self.fixed_bands = inner.fixed_bands
        self._least: LeastWork | None = None
        self._latest: list[tuple[float, int, float, Request]] = []  # start, tie, since when it waits
        self._ties = count()

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The policy's own."""
        key = self.inner.key(request, view)
        if self._least is None:  # what a policy needs may depend on its device, which it has seen by now
            self.needs = self.inner.needs
            self._least = LeastWork(self.needs)
        latest_s = request.deadline_s - _SURE * self._least.remaining_s(request, view)
        heappush(self._latest, (latest_s, next(self._ties), request.ready_since_s, request))
        return key

    def decide(self, view: View) -> Iterable[Decision]:
        """Drops, then what the policy decides about the others."""
        hopeless: list[Request] = []
        while self._latest and self._latest[0][0] < view.now:
            _, _, since_s, request = heappop(self._latest)
            if request.state is State.READY and request.ready_since_s == since_s:
                hopeless.append(request)
        return self._drop(hopeless, view) if hopeless else self.inner.decide(view)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Passed on."""
        self.inner.on_finish(run, actual_s, view)

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Passed on."""
        self.inner.on_gone(request, reason, view)

    def _drop(self, hopeless: list[Request], view: View) -> Iterator[Decision]:
        for request in hopeless:
            yield Drop(request, REASON)
        rest = _Without(view, hopeless)
        if rest.ready or view.running:
            yield from self.inner.decide(cast(View, rest))


class LeastWork:
    """Optimistic seconds of work left: the fastest runs that a policy may use, with the device to itself.

    A bound, not a plan: each layer has its input in SRAM and leaves its output there where that is possible
    at all, on whichever core is best for it, and all of it pays for one dispatch.
    """

    def __init__(self, needs: frozenset[Capability]) -> None:
        self._needs = needs
        self._spatial = Spatial()
        self._left_s: dict[str, list[float]] = {}

    def remaining_s(self, request: Request, view: View) -> float:
        """Seconds from where the request stands; what a stopped run left done in its range counts."""
        left_s = self._left_s.get(request.model)
        if left_s is None:
            left_s = self._left_s[request.model] = self._of(request, view)
        seconds, partial = left_s[request.next_block], request.partial
        if partial is not None:
            seconds -= partial.done * (seconds - left_s[partial.end])
        return seconds

    def _of(self, request: Request, view: View) -> list[float]:
        table, bandwidth = view.table(request), view.device.dram_bandwidth_bytes_s
        dispatch_s = view.device.dispatch_s
        left_s = [0.0] * (table.blocks + 1)
        for block in range(table.blocks - 1, -1, -1):
            ways = [self._block_s(request, block, view) + left_s[block + 1]]
            longer = [
                *(table.stacks(block) if Capability.FUSE in self._needs else ()),
                *(table.pipelines(block) if Capability.PIPELINE in self._needs else ()),
            ]
            ways += [option.seconds(bandwidth) - dispatch_s + left_s[option.end] for option in longer]
            left_s[block] = min(ways)
        return [
            min(left + dispatch_s, *_whole_s(table, block, view)) if block < table.blocks else 0.0
            for block, left in enumerate(left_s)
        ]

    def _block_s(self, request: Request, block: int, view: View) -> float:
        """One block at its fastest, without its dispatch."""
        table, device = view.table(request), view.device
        ways = []
        for kind, option in enumerate(table.serial[block]):
            saved = table.kept_bytes[block][kind] + table.unwritten_bytes[block][kind]
            transfer_s = max(0.0, option.dram_bytes - saved) / device.dram_bandwidth_bytes_s
            ways.append(max(0.0, option.fixed_s - device.dispatch_s) + max(option.compute_s, transfer_s))
        if Capability.SPLIT in self._needs:
            ways += [
                self._spatial.block(request, cores, view, block)[0]
                for cores in range(2, len(device.cores) + 1)
            ]
        return min(ways)


def _whole_s(table: CostTable, block: int, view: View) -> list[float]:
    """The rest in one run on one core, by type: on lanes the only run whose parts do not add up."""
    return [
        table.option(Mode.SERIAL, block, table.blocks, (kind,)).seconds(view.device.dram_bandwidth_bytes_s)
        for kind in range(len(table.kinds))
    ]


class _Without:
    """A view without some of the waiting requests; everything else is the view's own."""

    def __init__(self, view: View, hidden: list[Request]) -> None:
        gone = {request.id for request in hidden}
        self._view = view
        self.ready = [request for request in view.ready if request.id not in gone]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)
