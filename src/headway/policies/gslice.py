"""Reactive sharing: tenants get shares of the device, corrected by the latencies that were measured.

After the idea of GSLICE (SoCC 2020), which tunes the share of a GPU that each model has from its measured
latency and its SLO, without any model of performance. Batches stay at one; steps, window and least share are
ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.messages import Decision
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.base import Policy
from headway.policies.registry import policy
from headway.policies.width import rest, widest

WINDOW = 10
"""Requests of a tenant between two corrections of its share."""

STEP = 1.25
"""The most by which one correction multiplies or divides a share."""

LEAST = 0.05
"""No share falls below this, before shares are scaled to add up to one."""


@policy("gslice")
class Gslice(Policy):
    """GSLICE-like reactive sharing: each tenant's share of the cores follows its latency over its SLO.

    A tenant runs on at most its share of the cores, rounded and at least one, in order of arrival and never
    preempted; of several tenants whose turn it could be, the one goes first that has had the least core time
    for its share. After every WINDOW requests a tenant's share is multiplied by the mean of latency over
    SLO, within STEP. Neither deadlines nor estimates decide an order.
    """

    needs = frozenset({Capability.SPLIT})

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self._used_s: dict[str, float] = {}  # core time
        self._ratios: dict[str, list[float]] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Give idle cores to tenants that have fewer than their share."""
        waiting: dict[str, list[Request]] = {}
        for request in view.ready:
            self._admit(request.tenant)
            waiting.setdefault(request.tenant, []).append(request)
        held = dict.fromkeys(self.shares, 0)
        for run in view.running:
            held[run.request.tenant] += len(run.cores)
        idle = list(view.idle)
        turns = {tenant: iter(requests) for tenant, requests in waiting.items()}
        while idle and turns:
            tenant = min(turns, key=lambda name: (self._used_s[name] / self.shares[name], name))
            allowed = self._cores(tenant, view) - held[tenant]
            next_one = next(turns[tenant], None) if allowed > 0 else None
            if next_one is None:
                del turns[tenant]
                continue
            cores = widest(next_one, idle[:allowed], view)
            held[tenant] += len(cores)
            idle = [core for core in idle if core not in cores]
            yield rest(next_one, cores)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Charge the core time; correct the share when enough latencies have been seen."""
        request = run.request
        self._admit(request.tenant)
        self._used_s[request.tenant] += len(run.cores) * actual_s
        if run.blocks.stop < request.blocks:
            return
        ratios = self._ratios[request.tenant]
        ratios.append((view.now - request.arrival_s) / (request.deadline_s - request.arrival_s))
        if len(ratios) == WINDOW:
            factor = sum(ratios) / WINDOW
            ratios.clear()
            self.shares[request.tenant] *= min(max(factor, 1.0 / STEP), STEP)
            self._scale()

    def _cores(self, tenant: str, view: View) -> int:
        return max(1, round(self.shares[tenant] * len(view.device.cores)))

    def _admit(self, tenant: str) -> None:
        """A new tenant gets an even share, and has had as much core time for it as the one that had least."""
        if tenant in self.shares:
            return
        least = min((self._used_s[name] / share for name, share in self.shares.items()), default=0.0)
        share = 1.0 / (len(self.shares) + 1)
        for name in self.shares:
            self.shares[name] *= 1.0 - share
        self.shares[tenant] = share
        self._used_s[tenant] = least * share
        self._ratios[tenant] = []

    def _scale(self) -> None:
        raised = {name: max(LEAST, share) for name, share in self.shares.items()}
        total = sum(raised.values())
        self.shares = {name: share / total for name, share in raised.items()}
