"""Dysta: the least remaining work first, corrected for what was measured, with a light urgency.

After "Sparse-DySta: Sparsity-Aware Dynamic and Static Scheduling for Sparse Multi-DNN Workloads" (MICRO 2023)
and its public code (SamsungLabs/Sparse-Multi-DNN-Scheduling): run the request with the least rem + beta
(max(0, slack - rem) + (waiting / isolated) / n), where rem is gamma times the sum of mean layer times and
gamma the mean ratio, over the layers run so far, of what was measured to what was expected; n counts
requests. There gamma is about the sparsity of activations; here it is about run times, co-runners included.

As published, waiting raises the score, which keeps what just ran (fewer switches). The quotient has no unit
among seconds; here it is multiplied by the isolated latency, so that it is the waiting itself. Port: the idle
cores go to the least scores, each request taking the fastest of them for its next layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import Outcome, Run
from headway.policies.base import Policy
from headway.policies.placement import Placement
from headway.policies.registry import policy

BETA = 0.01
"""Weight of slack and waiting (public code)."""

RUN_S = 0.25e-3
"""How long a run is at least (docs/policies.md, tuning)."""


@policy("dysta")
class Dysta(Policy):
    """Dysta (MICRO 2023): least remaining time as measured so far, with a little of slack and waiting."""

    def __init__(self, *, beta: float = BETA, quantum_s: float = RUN_S) -> None:
        self._beta = beta
        self._placement = Placement(quantum_s=quantum_s)
        self._ratios: dict[int, tuple[float, int]] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Give the idle cores to the least scores."""
        placement = self._placement
        placement.begin(view)
        if not placement.idle:
            return
        count = len(view.ready) + len(view.running)
        for request in sorted(view.ready, key=lambda r: (self._score(r, count, view), r.arrival_s, r.id)):
            if not placement.idle:
                return
            core = placement.fastest(request)
            if core is not None:
                yield placement.run(request, core)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Learn how a request's layers compare with what was expected of them."""
        table, kind = view.table(run.request), view.device.kind_of[run.cores[0].index]
        expected_s = sum(table.serial_s[block][kind] for block in run.blocks)
        if expected_s > 0.0:
            ratios, layers = self._ratios.get(run.request.id, (0.0, 0))
            more = len(run.blocks)
            self._ratios[run.request.id] = ratios + more * actual_s / expected_s, layers + more

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Forget its ratios."""
        self._ratios.pop(request.id, None)

    def _score(self, request: Request, count: int, view: View) -> float:
        ratios, layers = self._ratios.get(request.id, (1.0, 1))
        left_s = view.remaining_s(request) * ratios / layers
        spare_s = max(0.0, request.deadline_s - view.now - left_s)
        return left_s + self._beta * (spare_s + (view.now - request.ready_since_s) / count)
