"""Where a scenario's requests come from."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.config.arrivals import Closed, OpenArrivals
from headway.config.tenants import Tenant
from headway.core.messages import Arrive, Reply
from headway.core.request import Request
from headway.core.run import Outcome
from headway.workload.arrivals import arrival_times, think_time_s

IDS_PER_TENANT = 10**9


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """One tenant's requests: what each looks like, and when they come.

    `model` is the name under which the engine knows the model, `blocks` its length. `relative_deadline_s`
    and `expires_after_s` count from the arrival; None never expires.
    """

    tenant: str
    model: str
    blocks: int
    isolated_s: float
    relative_deadline_s: float
    arrivals: OpenArrivals | Closed
    priority: int = 0
    weight: float = 1.0
    strict: bool = True
    expires_after_s: float | None = None

    @classmethod
    def of(cls, tenant: Tenant, model: str, blocks: int, isolated_s: float) -> TenantLoad:
        """The load that a scenario's tenant asks for, given what is known of its model."""
        deadline_s = tenant.sla.relative_deadline_s(isolated_s)
        return cls(
            tenant=tenant.name,
            model=model,
            blocks=blocks,
            isolated_s=isolated_s,
            relative_deadline_s=deadline_s,
            arrivals=tenant.arrivals,
            priority=tenant.priority,
            weight=tenant.weight,
            strict=tenant.strict,
            expires_after_s=tenant.expires_after_s(deadline_s),
        )


class ScenarioSource:
    """The arrivals of several tenants, up to a time or a number. One source serves one run.

    A request's id is its tenant's position x 10^9 + its index, so ids do not depend on the policy. For a
    closed loop the index is round x clients + client.

    A number counts arrivals over all tenants in order of time. With closed loops it counts them as they are
    issued, which only their own replies decide.

    Args:
        tenants: the loads, each tenant once.
        seed: of all streams.
        duration_s: arrivals at this time or later do not happen.
        count: the number of arrivals. Exactly one of the two is given.
    """

    def __init__(
        self,
        tenants: Sequence[TenantLoad],
        seed: int,
        *,
        duration_s: float | None = None,
        count: int | None = None,
    ) -> None:
        if (duration_s is None) == (count is None):
            raise ValueError("exactly one of duration_s and count is needed")
        self._tenants = tuple(tenants)
        self._position = {load.tenant: position for position, load in enumerate(self._tenants)}
        if len(self._position) != len(self._tenants):
            raise ValueError("a tenant is named twice")
        self._seed = seed
        self._duration_s = float("inf") if duration_s is None else duration_s
        self._left = float("inf") if count is None else count

    def first(self) -> Iterator[Arrive]:
        """Arrivals that depend on nothing, in order of time, made as they are asked for."""
        times = heapq.merge(*(self._times(position) for position in range(len(self._tenants))))
        for arrival_s, position, index in times:
            if arrival_s >= self._duration_s or self._left <= 0:
                return
            self._left -= 1
            yield self._arrive(position, index, arrival_s)

    def after(self, reply: Reply, now: float) -> Iterator[Arrive]:
        """The next request of a closed loop's client, once its last one is over, however it ended.

        A client that was turned away comes back no sooner than the model takes alone; without think time it
        would otherwise come back forever at the same instant.
        """
        position = self._position[reply.request.tenant]
        load = self._tenants[position]
        process = load.arrivals
        if not isinstance(process, Closed) or self._left <= 0:
            return
        index = reply.request.index + process.clients
        rounds, client = divmod(index, process.clients)
        pause_s = think_time_s(process, self._seed, load.tenant, client, rounds)
        if reply.outcome is not Outcome.DONE:
            pause_s = max(pause_s, load.isolated_s)
        if now + pause_s < self._duration_s:
            self._left -= 1
            yield self._arrive(position, index, now + pause_s)

    def _times(self, position: int) -> Iterator[tuple[float, int, int]]:
        """Arrival time, tenant's position and index: unique, so that ties are settled by position."""
        load = self._tenants[position]
        if isinstance(load.arrivals, Closed):
            clients = range(load.arrivals.clients)
            starts = [think_time_s(load.arrivals, self._seed, load.tenant, client, 0) for client in clients]
            yield from sorted((start, position, client) for client, start in enumerate(starts))
        else:
            for index, arrival_s in enumerate(arrival_times(load.arrivals, self._seed, load.tenant)):
                yield arrival_s, position, index

    def _arrive(self, position: int, index: int, arrival_s: float) -> Arrive:
        load = self._tenants[position]
        expires_s = None if load.expires_after_s is None else arrival_s + load.expires_after_s
        return Arrive(
            Request(
                id=position * IDS_PER_TENANT + index,
                tenant=load.tenant,
                index=index,
                model=load.model,
                arrival_s=arrival_s,
                deadline_s=arrival_s + load.relative_deadline_s,
                blocks=load.blocks,
                isolated_s=load.isolated_s,
                priority=load.priority,
                weight=load.weight,
                strict=load.strict,
                expires_s=expires_s,
            )
        )
