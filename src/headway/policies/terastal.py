"""Terastal's virtual budgets: a deadline for every layer, and patience for the core that suits it.

After "Terastal" (RTCSA 2026), of which only the abstract is known: each layer gets a share of the model's
deadline from its latencies on all accelerators, and online layer, accelerator and variant are chosen
together. This is a stand-in without layer variants, inferred from that: layer l has budget D t_l / sum t,
with D the relative deadline and t_l the mean of its latencies over all cores, and its virtual deadline is the
arrival plus all budgets up to it. Waiting layers go in order of virtual deadline; each prefers its fastest
core, else takes the fastest idle core on which it meets its virtual deadline, else it waits if a core of its
preferred type frees before its latest start there, and otherwise takes the fastest idle one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from headway.core.device import Core
from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.placement import QUANTUM_S, Placement
from headway.policies.registry import policy


@policy("terastal")
class Terastal(Policy):
    """Terastal (RTCSA 2026) without variants: virtual deadlines per layer, cores chosen to meet them.

    Without `patience` a layer never waits for a core of its preferred type.
    """

    def __init__(self, *, patience: bool = True, quantum_s: float = QUANTUM_S) -> None:
        self._patience = patience
        self._placement = Placement(quantum_s=quantum_s)
        self._shares: dict[str, list[float]] = {}

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The virtual deadline of the next layer."""
        return (self._due_s(request, request.next_block, view),)

    def decide(self, view: View) -> Iterator[Decision]:
        """Give each layer, in order of virtual deadline, the core that suits it in time."""
        placement = self._placement
        placement.begin(view)
        for request in view.ready:
            if not placement.idle:
                return
            core = self._core(request, view)
            if core is not None:
                yield placement.run(request, core)

    def _core(self, request: Request, view: View) -> Core | None:
        row, kind_of = view.table(request).serial_s[request.next_block], view.device.kind_of
        preferred = row.index(min(row))
        core = self._placement.fastest(request)
        if core is None or kind_of[core.index] == preferred:
            return core
        due_s = request.key[0]
        if not self._patience or view.now + self._placement.seconds(request, core) <= due_s:
            return core
        frees_s = [
            run.expected_end_s
            for run in view.running
            if any(kind_of[held.index] == preferred for held in run.cores)
        ]
        return None if frees_s and min(frees_s) <= due_s - row[preferred] else core

    def _due_s(self, request: Request, block: int, view: View) -> float:
        """The virtual deadline of a block."""
        shares = self._shares.get(request.model)
        if shares is None:
            table, kind_of = view.table(request), view.device.kind_of
            sums = list(accumulate(sum(row[kind] for kind in kind_of) for row in table.serial_s))
            shares = self._shares[request.model] = [each / sums[-1] if sums[-1] else 1.0 for each in sums]
        return request.arrival_s + (request.deadline_s - request.arrival_s) * shares[block]
