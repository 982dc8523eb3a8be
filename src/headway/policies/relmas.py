"""RELMAS without its learnt policy: list scheduling by slack, once per period, under projected bandwidth.

After "RELMAS" (DAC 2024, arXiv 2404.08950), of which the abstract is known: in periodic cycles an agent gives
every ready layer a priority and a sub-accelerator, from latencies and bandwidths per sub-accelerator and from
deadlines. This is a stand-in for the agent, inferred from that: at the start of a cycle the layers that fall
into it are taken by least slack, and each goes to the core on which it would finish first, with the bandwidth
that the layers before it on the other cores leave, but at least a fair share. Within the cycle a core runs
the first of its layers that is ready; a request that arrives waits for the next cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from headway.core.block import Mode
from headway.core.messages import Decision, Wake
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.placement import QUANTUM_S, Placement
from headway.policies.registry import policy

PERIOD_S = 0.1e-3
"""Length of a cycle: the paper's is not known, this one was tuned (docs/policies.md)."""


@policy("relmas")
class Relmas(Policy):
    """RELMAS stand-in (DAC 2024): per period, layers by least slack on the core that ends them first."""

    def __init__(self, *, period_s: float = PERIOD_S, quantum_s: float = QUANTUM_S) -> None:
        self._period_s = period_s
        self._cycle = -1
        self._placement = Placement(guard=False, quantum_s=quantum_s)
        self._queues: list[list[tuple[int, int]]] = []  # by core: request id and first block of its runs

    def decide(self, view: View) -> Iterator[Decision]:
        """Plan if a cycle begins, start what is planned on idle cores, and come back for the next cycle."""
        placement = self._placement
        placement.begin(view)
        cycle = int(view.now / self._period_s * (1.0 + 1e-12))
        if cycle != self._cycle:
            self._cycle = cycle
            self._plan(view)
        waiting = {(request.id, request.next_block): request for request in view.ready}
        for core in view.idle:
            queue = self._queues[core.index]
            at = next((at for at, planned in enumerate(queue) if planned in waiting), None)
            if at is not None:
                yield placement.run(waiting.pop(queue.pop(at)), core)
        if waiting:
            yield Wake((cycle + 1) * self._period_s)

    def _plan(self, view: View) -> None:
        """Fill every core's queue with what it should start in this cycle."""
        cores, kind_of, now = view.device.cores, view.device.kind_of, view.now
        bandwidth = view.device.dram_bandwidth_bytes_s
        until_s = (self._cycle + 1) * self._period_s
        free_s, demand = [now] * len(cores), [0.0] * len(cores)
        present: list[tuple[Request, int, float]] = [(r, r.next_block, now) for r in view.ready]
        for run in view.running:
            end_s = max(now, run.expected_end_s)
            present.append((run.request, run.blocks.stop, end_s))
            for held in run.cores:
                free_s[held.index], demand[held.index] = end_s, run.bandwidth_bytes_s / len(run.cores)
        self._queues = [[] for _ in cores]
        heap = [
            _entry(request, block, at_s, view) for request, block, at_s in present if block < request.blocks
        ]
        heapify(heap)
        while heap and min(free_s) < until_s:
            _, _, block, at_s, request = heappop(heap)
            table = view.table(request)
            total, best = sum(demand), (float("inf"), 0, 0, 0.0)
            for core in cores:
                kind = kind_of[core.index]
                end = self._placement.end(request, block, kind)
                option = table.option(Mode.SERIAL, block, end, (kind,))
                share = max(bandwidth - total + demand[core.index], bandwidth / len(cores))
                seconds = option.seconds(share)
                finish_s = max(free_s[core.index], at_s) + seconds
                rate = option.dram_bytes / seconds if seconds > 0.0 else 0.0
                # Runs may differ in length with the core: what is left after each counts as well.
                best = min(best, (finish_s + table.remaining_s[end], core.index, end, rate))
            _, index, end, rate = best
            start_s = max(free_s[index], at_s)
            if start_s >= until_s:
                continue
            finish_s = best[0] - table.remaining_s[end]
            self._queues[index].append((request.id, block))
            free_s[index], demand[index] = finish_s, rate
            if end < request.blocks:
                heappush(heap, _entry(request, end, finish_s, view))


def _entry(request: Request, block: int, at_s: float, view: View) -> tuple[float, int, int, float, Request]:
    """A request's next run in order of slack; ids differ, so that requests are never compared."""
    slack_s = request.deadline_s - at_s - view.table(request).remaining_s[block]
    return slack_s, request.id, block, at_s, request
