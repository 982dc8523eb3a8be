"""Layerweaver: weave layers so that neither the compute nor the memory timeline idles.

After "Layerweaver: Maximizing Resource Utilization of Neural Processing Units via Layer-Wise Scheduling"
(HPCA 2021), as remembered: keep the ends of a compute timeline and of a memory timeline, and append, of every
model's next layer, the one that makes them idle least; so compute-bound layers go beside memory-bound ones.
`layerweaver:plus` is Layerweaver+ (IEICE 2022), known from its abstract: least idle time normally, least
slack when a deadline is at risk. When that is is not in the abstract; here, when a request's slack is
positive and below its remaining work.

Port: one memory timeline for all, since cores share the DRAM, and one compute timeline per core. Here a
layer's transfers overlap its own computing, so that on core c the compute timeline idles from tc + C until
the layer's bytes are there, at tm' = max(tm, now) + D / B; and the memory timeline idles from tm' until the
first core has ended what it has. Both are seconds and weigh the same. Buffers that are full cannot occur.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.device import Core
from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.placement import Placement
from headway.policies.registry import policy

AT_RISK = 1.0
"""A deadline is at risk when the slack is below this share of the remaining work (ours)."""

RUN_S = 0.7e-3
"""How long a run is at least (docs/policies.md, tuning)."""


@policy("layerweaver")
@policy("layerweaver:plus", deadlines=True)
class Layerweaver(Policy):
    """Layerweaver (HPCA 2021): the layer that leaves least idle time on the compute and memory timelines."""

    def __init__(
        self, *, deadlines: bool = False, at_risk: float = AT_RISK, quantum_s: float = RUN_S
    ) -> None:
        self._deadlines = deadlines
        self._risky_share = at_risk
        self._placement = Placement(quantum_s=quantum_s)
        self._memory_until_s = 0.0

    def decide(self, view: View) -> Iterator[Decision]:
        """Append one layer after the other while there are idle cores."""
        placement, now = self._placement, view.now
        placement.begin(view)
        self._memory_until_s = max(self._memory_until_s, now)
        compute_until_s = [now] * len(view.device.cores)
        for run in view.running:
            for held in run.cores:
                compute_until_s[held.index] = max(now, run.expected_end_s)
        waiting = list(view.ready)
        while waiting and placement.idle:
            at_risk = [r for r in waiting if self._at_risk(r, view)] if self._deadlines else []
            chosen = (
                self._most_urgent(at_risk, view)
                if at_risk
                else self._least_idle(waiting, compute_until_s, view)
            )
            if chosen is None:
                return
            request, core = chosen
            compute_s, transfer_s = self._demand(request, core, view)
            self._memory_until_s += transfer_s
            compute_until_s[core.index] = max(now + compute_s, self._memory_until_s)
            waiting.remove(request)
            yield placement.run(request, core)

    def _least_idle(
        self, waiting: list[Request], compute_until_s: list[float], view: View
    ) -> tuple[Request, Core] | None:
        best_s, best = float("inf"), None
        for request in waiting:
            core = self._placement.fastest(request)
            if core is None:
                continue
            compute_s, transfer_s = self._demand(request, core, view)
            memory_s = self._memory_until_s + transfer_s
            computed_s = view.now + compute_s
            others = [
                until for at, until in enumerate(compute_until_s) if at != core.index and until > view.now
            ]
            first_s = min([*others, max(computed_s, memory_s)])
            idle_s = max(0.0, memory_s - computed_s) + max(0.0, first_s - memory_s)
            if idle_s < best_s:
                best_s, best = idle_s, (request, core)
        return best

    def _most_urgent(self, at_risk: list[Request], view: View) -> tuple[Request, Core] | None:
        for request in sorted(at_risk, key=lambda request: request.deadline_s - view.remaining_s(request)):
            core = self._placement.fastest(request)
            if core is not None:
                return request, core
        return None

    def _at_risk(self, request: Request, view: View) -> bool:
        left_s = view.remaining_s(request)
        return 0.0 <= request.deadline_s - view.now - left_s < self._risky_share * left_s

    def _demand(self, request: Request, core: Core, view: View) -> tuple[float, float]:
        """Seconds that a request's next layer computes on a core, and for which it has the memory busy."""
        option = view.table(request).serial[request.next_block][view.device.kind_of[core.index]]
        _, dram_bytes = self._placement.priced(request, core)
        return option.fixed_s + option.compute_s, dram_bytes / view.device.dram_bandwidth_bytes_s
