"""K-EDF: the k earliest deadlines run, everything else is suspended.

After XSched (OSDI 2025) and its public code (XpuOS/xsched, sched/src/policy/kedf.cpp): sort the queues by
deadline, resume the first k, suspend the rest; k is given by the user. Ported to cores: k requests run at
once, each on a core, and what is suspended stops at the end of its layer, as there between commands. With k
the number of cores (the default) it differs from `edf` only by the area guard; fewer leave cores idle and
bandwidth to those that run.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest

from headway.core.messages import Decision, Preempt
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How
from headway.policies.base import Policy
from headway.policies.placement import Placement
from headway.policies.registry import policy


@policy("kedf")
@policy("kedf:half", share=0.5)
class KEdf(Policy):
    """K-EDF (XSched, OSDI 2025): the k earliest deadlines run, all others are suspended at their layer's end.

    `share` is k as a share of the cores, rounded up.
    """

    needs = frozenset({Capability.PREEMPT})

    def __init__(self, *, share: float = 1.0) -> None:
        self._share = share
        self._placement = Placement()

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The absolute deadline."""
        return (request.deadline_s,)

    def decide(self, view: View) -> Iterator[Decision]:
        """Start those of the k earliest that wait, suspend the others that run."""
        placement, running = self._placement, view.running
        placement.begin(view)
        k = -int(-self._share * len(view.device.cores) // 1)
        present = [*(run.request for run in running), *view.ready[:k]]
        chosen = {request.id for request in nsmallest(k, present, key=_deadline)}
        starts = k - len(running)
        for request in view.ready[:k]:
            core = placement.fastest(request) if starts > 0 and request.id in chosen else None
            if core is not None:
                starts -= 1
                yield placement.suited(request, core)
        for run in running:
            if run.request.id not in chosen and run.stopping is None:
                yield Preempt(run, How.DRAIN)


def _deadline(request: Request) -> tuple[float, float, int]:
    return request.deadline_s, request.arrival_s, request.id
