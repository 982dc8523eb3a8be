"""Herald: each layer goes to the core with the least metric, unless that core has more to do than others.

After "Heterogeneous Dataflow Accelerators for Multi-DNN Workloads" (HPCA 2021; Maelstrom is its accelerator).
The paper schedules offline, as remembered: layers in depth-first or breadth-first order of the models, each
to the core with the least energy-delay product (or latency), with load balancing. The rule of balance is that
of XRBench's public code (DoLatencyBalanceAssignment): the core with the least load takes the layer instead,
if it costs less than twice as much there.

Port: online, at each decision with the cores' expected ready times as their loads. A layer whose core is busy
waits for it, and counts as load on it for the requests after it. The paper's pass that slides layers into
gaps afterwards has no counterpart: nothing is fixed beforehand. Depth-first is the order of arrival,
breadth-first takes first the request that has the fewest layers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from headway.core.device import Core
from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.placement import Placement
from headway.policies.registry import policy

IMBALANCE = 2.0
"""The least loaded core takes a layer that costs it less than this many times the least cost (XRBench's
code)."""


class Metric(StrEnum):
    """What is least on the core of a layer."""

    EDP = "edp"  # energy times latency
    LATENCY = "latency"


class Order(StrEnum):
    """Which layer is assigned first."""

    DEPTH = "depth"
    BREADTH = "breadth"


@policy("herald")
@policy("herald:latency", metric=Metric.LATENCY)
@policy("herald:breadth", order=Order.BREADTH)
class Herald(Policy):
    """Herald (HPCA 2021), online: the core with the least energy-delay product, balanced by load."""

    def __init__(
        self, *, metric: Metric = Metric.EDP, order: Order = Order.DEPTH, imbalance: float = IMBALANCE
    ) -> None:
        self._metric = metric
        self._order = order
        self._imbalance = imbalance
        self._placement = Placement(guard=False)

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The arrival, after the number of layers done if breadth comes first."""
        return (
            (request.arrival_s,)
            if self._order is Order.DEPTH
            else (float(request.next_block), request.arrival_s)
        )

    def decide(self, view: View) -> Iterator[Decision]:
        """Assign waiting layers in order, and start those whose core is idle, until none is."""
        placement, cores = self._placement, view.device.cores
        placement.begin(view)
        load_s = [0.0] * len(cores)
        for run in view.running:
            for held in run.cores:
                load_s[held.index] = max(0.0, run.expected_end_s - view.now)
        for request in view.ready:
            if not placement.idle:
                return
            core, seconds = self._assigned(request, load_s, view)
            load_s[core.index] += seconds
            if core in placement.idle:
                yield placement.run(request, core)

    def _assigned(self, request: Request, load_s: list[float], view: View) -> tuple[Core, float]:
        """The core of a request's next layer, and its seconds there."""
        table, kind_of = view.table(request), view.device.kind_of
        costs: list[float] = []
        seconds: list[float] = []
        for core in view.device.cores:
            seconds.append(self._placement.seconds(request, core))
            energy_pj = table.serial[request.next_block][kind_of[core.index]].energy_pj
            costs.append(seconds[-1] * energy_pj if self._metric is Metric.EDP else seconds[-1])
        cores = range(len(costs))
        best = min(cores, key=lambda at: (costs[at], load_s[at]))
        least = min(cores, key=lambda at: (load_s[at], costs[at]))
        if load_s[best] > load_s[least] and costs[least] < self._imbalance * costs[best]:
            best = least
        return view.device.cores[best], seconds[best]
