"""XRBench's greedy schedulers: the whole model on the best idle core, late frames are dropped.

After "XRBench: An Extended Reality Machine Learning Benchmark Suite for the Metaverse" (MLSys 2023) and its
public code: a model is dispatched as a whole to the idle accelerator with the least latency (or energy-delay
product), in order of arrival, and a frame is dropped if its deadline is past before it starts. Nothing needed
porting.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.block import Mode
from headway.core.messages import Decision, Dispatch, Drop
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.herald import Metric
from headway.policies.registry import policy


@policy("xrbench", metric=Metric.LATENCY)
@policy("xrbench:edp", metric=Metric.EDP)
class XrBench(Policy):
    """XRBench's greedy (MLSys 2023): whole models on the best idle core, late ones are dropped."""

    def __init__(self, *, metric: Metric) -> None:
        self._metric = metric
        self._costs: dict[tuple[str, int], list[float]] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Drop what is late, then give the idle cores away in order of arrival."""
        idle, kind_of = list(view.idle), view.device.kind_of
        for request in view.ready:
            if not request.started and request.deadline_s < view.now:
                yield Drop(request, "not started by its deadline")
            elif idle:
                costs = self._costs_of(request, view)
                core = min(idle, key=lambda core: costs[kind_of[core.index]])
                idle.remove(core)
                yield Dispatch((request,), range(request.next_block, request.blocks), (core,))

    def _costs_of(self, request: Request, view: View) -> list[float]:
        """Latency or energy-delay product of the rest of a request by core type."""
        at = (request.model, request.next_block)
        known = self._costs.get(at)
        if known is None:
            table, bandwidth = view.table(request), view.device.dram_bandwidth_bytes_s
            known = self._costs[at] = []
            for kind in range(len(view.device.kinds)):
                option = table.option(Mode.SERIAL, request.next_block, table.blocks, (kind,))
                energy_pj = option.energy_pj if self._metric is Metric.EDP else 1.0
                known.append(option.seconds(bandwidth) * energy_pj)
        return known
