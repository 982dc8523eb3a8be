"""MoCA: fixed groups of cores, memory-bound beside compute-bound, and bandwidth by score.

After "MoCA: Memory-Centric, Adaptive Execution for Multi-Tenant Deep Neural Networks" (HPCA 2023) and its
public code (ucb-bar/MoCA, SeahK/gemmini-rocc-tests-moca-ae): eight tiles in four groups; whenever a group
drains, the request with the largest priority + waiting / isolated goes to it as a whole, split over the
group; a memory-heavy one is put off, while another memory-heavy one runs, for one of the next few that is
not. At every layer start the bandwidth is partitioned by score (partition.py).

Port: every core is a group, since splitting costs more here than it gains (docs/policies.md); `moca:groups`
has four groups of neighbouring cores, as published. The code's queues in front of busy groups come to the
same as giving a group its request when it drains. A request takes the drained group on which it is fastest.
Memory-heavy as remembered: more than half of the bandwidth on average. For the partition the policy wakes at
the believed ends of layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from headway.core.block import Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.partition import FLOOR, LIMIT, LayerStarts, Partition
from headway.policies.registry import policy
from headway.policies.spatial import Spatial, mode

GROUPS = 4
"""Groups of cores (public code)."""

LOOK_AHEAD = 3
"""How many requests are looked at for one that is not memory-heavy (public code)."""

HEAVY = 0.5
"""Share of the bandwidth above which a request is memory-heavy (paper, as remembered)."""


@policy("moca")
@policy("moca:groups", groups=GROUPS)
@policy("moca:static", throttle=False)
class Moca(Policy):
    """MoCA (HPCA 2023): requests on groups of cores by priority and waiting, bandwidth partitioned by
    score."""

    needs = frozenset({Capability.SPLIT})

    def __init__(
        self,
        *,
        throttle: bool = True,
        groups: int | None = None,
        heavy: float = HEAVY,
        limit: float = LIMIT,
        floor: float = FLOOR,
    ) -> None:
        self._throttle = throttle
        self._heavy_share = heavy
        self._groups = groups
        self.at_block_ends = throttle
        if throttle:
            self.needs = self.needs | {Capability.THROTTLE}
        self._starts = LayerStarts()
        self._partition = Partition(Spatial(), limit=limit, floor=floor)

    def decide(self, view: View) -> Iterator[Decision]:
        """Fill the groups that are drained, then partition the bandwidth among those that run."""
        self._partition.begin(view)
        idle = set(view.idle)
        drained = [group for group in _groups(self._groups, view) if idle.issuperset(group)]
        queue = nlargest(len(drained) + LOOK_AHEAD, view.ready, key=lambda request: _rank(request, view))
        heavy = any(self._heavy(run.bandwidth_bytes_s, view) for run in view.running)
        fresh = self._starts.fresh(view)
        while drained and queue:
            request, group, option = self._next(queue, drained, heavy, view)
            heavy = heavy or self._heavy(_bandwidth_bytes_s(option, view), view)
            queue.remove(request)
            drained.remove(group)
            cap = self._partition.start(request, option) if self._throttle else None
            blocks = range(request.next_block, request.blocks)
            yield Dispatch((request,), blocks, group, mode(group), bandwidth_cap_bytes_s=cap)
        if self._throttle:
            yield from self._partition.adjust(fresh)

    def _next(
        self, queue: list[Request], drained: list[tuple[Core, ...]], heavy: bool, view: View
    ) -> tuple[Request, tuple[Core, ...], Option]:
        """The first in the queue, or one soon after it that leaves more bandwidth, with its group."""
        found = [(request, *_fastest(request, drained, view)) for request in queue[:LOOK_AHEAD]]
        if heavy:
            for request, group, option in found:
                if not self._heavy(_bandwidth_bytes_s(option, view), view):
                    return request, group, option
        return found[0]

    def _heavy(self, bandwidth_bytes_s: float, view: View) -> bool:
        return bandwidth_bytes_s > self._heavy_share * view.device.dram_bandwidth_bytes_s


def _groups(count: int | None, view: View) -> list[tuple[Core, ...]]:
    cores = view.device.cores
    size = 1 if count is None else max(1, len(cores) // count)
    return [cores[at : at + size] for at in range(0, len(cores), size)]


def _rank(request: Request, view: View) -> tuple[float, float, int]:
    isolated_s = request.isolated_s
    waited = (view.now - request.arrival_s) / isolated_s if isolated_s > 0.0 else 0.0
    return request.priority + waited, -request.arrival_s, -request.id


def _fastest(
    request: Request, drained: list[tuple[Core, ...]], view: View
) -> tuple[tuple[Core, ...], Option]:
    table, kind_of, bandwidth = (
        view.table(request),
        view.device.kind_of,
        view.device.dram_bandwidth_bytes_s,
    )
    options = [
        table.option(
            mode(group), request.next_block, request.blocks, tuple([kind_of[core.index] for core in group])
        )
        for group in drained
    ]
    best = min(range(len(drained)), key=lambda at: options[at].seconds(bandwidth))
    return drained[best], options[best]


def _bandwidth_bytes_s(option: Option, view: View) -> float:
    seconds = option.seconds(view.device.dram_bandwidth_bytes_s)
    return option.dram_bytes / seconds if seconds > 0.0 else 0.0
