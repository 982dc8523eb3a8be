"""Where a scenario's requests come from."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headway.config.arrivals import After, AnyArrivals, Closed, MocaStream, Streams
from headway.config.batching import Batching
from headway.config.priorities import DrawnPriority
from headway.config.tenants import Tenant
from headway.core.messages import Arrive, Reply
from headway.core.protocols import Skip
from headway.core.request import Request
from headway.core.run import Outcome
from headway.workload.arrivals import arrival_times, think_time_s
from headway.workload.cascades import Cascades
from headway.workload.draws import DrawnPriorities
from headway.workload.streams import StreamMember, stream_times

IDS_PER_TENANT = 10**9


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """One tenant's requests: what each looks like, and when they come.

    `model` is the name under which the engine knows the model, `blocks` its length. `relative_deadline_s`
    and `expires_after_s` count from the arrival, in a cascade from that at its root; None never expires.
    """

    tenant: str
    model: str
    blocks: int
    isolated_s: float
    relative_deadline_s: float
    arrivals: AnyArrivals
    priority: int | DrawnPriority = 0
    weight: float = 1.0
    strict: bool = True
    expires_after_s: float | None = None
    batching: Batching | None = None

    @classmethod
    def of(
        cls,
        tenant: Tenant,
        model: str,
        blocks: int,
        isolated_s: float,
        arrivals: AnyArrivals | None = None,
    ) -> TenantLoad:
        """The load that a scenario's tenant asks for, given what is known of its model.

        `arrivals` are the tenant's with the path of a trace's file, as `Scenario.arrivals_of` has them.
        """
        deadline_s = tenant.sla.relative_deadline_s(isolated_s)
        return cls(
            tenant=tenant.name,
            model=model,
            blocks=blocks,
            isolated_s=isolated_s,
            relative_deadline_s=deadline_s,
            arrivals=tenant.arrivals if arrivals is None else arrivals,
            priority=tenant.priority,
            weight=tenant.weight,
            strict=tenant.strict,
            expires_after_s=tenant.expires_after_s(deadline_s),
            batching=tenant.batching,
        )

    @property
    def mean_priority(self) -> float:
        """The priority of its requests, on average where it is drawn for each."""
        return self.priority.classes.mean if isinstance(self.priority, DrawnPriority) else self.priority

    def faster(self, factor: float) -> TenantLoad:
        """The same with its arrival times, if it has any of its own, divided by `factor`."""
        if isinstance(self.arrivals, (Closed, After, MocaStream)):
            return self
        return replace(self, arrivals=self.arrivals.faster(factor))


def stream_members(loads: Sequence[TenantLoad]) -> list[StreamMember]:
    """The tenants whose requests the scenario's streams draw."""
    return [
        StreamMember(position, load.arrivals.share, load.isolated_s)
        for position, load in enumerate(loads)
        if isinstance(load.arrivals, MocaStream)
    ]


class ScenarioSource:
    """The arrivals of several tenants, up to a time or a number. One source serves one run.

    A request's id is its tenant's position x 10^9 + its index, so ids do not depend on the policy. For a
    closed loop the index is round x clients + client, in a cascade it is that of the request at the root.

    A number counts arrivals over all tenants in order of time, those that cascades cause apart. With closed
    loops it counts them as they are issued, which only their own replies decide.

    Args:
        tenants: the loads, each tenant once.
        seed: of all streams of draws.
        duration_s: arrivals at this time or later do not happen; what they cause later does.
        count: the number of arrivals. Exactly one of the two is given.
        streams: what draws the requests of tenants with moca-streams.
    """

    def __init__(
        self,
        tenants: Sequence[TenantLoad],
        seed: int,
        *,
        duration_s: float | None = None,
        count: int | None = None,
        streams: Streams | None = None,
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
        self._streams = Streams() if streams is None else streams
        self._cascades = Cascades([(load.tenant, load.arrivals) for load in self._tenants], seed)
        self._roots_s: dict[int, float] = {}  # of requests in a cascade, when the one at its root arrived
        self._priorities = [
            DrawnPriorities(load.priority.classes, seed, load.tenant)
            if isinstance(load.priority, DrawnPriority)
            else None
            for load in self._tenants
        ]

    def first(self) -> Iterator[Arrive]:
        """Arrivals that depend on nothing, in order of time, made as they are asked for."""
        for arrival_s, position, index in self._first():
            yield Arrive(self._request(position, index, arrival_s, arrival_s))

    def after(self, reply: Reply, now: float) -> Iterator[Arrive | Skip]:
        """What a reply causes: the next request of a closed loop's client, and children in cascades.

        The client's next request comes once its last one is over, however it ended. A client that was turned
        away comes back no sooner than the model takes alone; without think time it would otherwise come back
        forever at the same instant.

        Children of a request that is done come at once. Those of one that ended otherwise are skipped, with
        all that would have followed, and so are those that have expired by then.
        """
        request = reply.request
        position = self._position[request.tenant]
        yield from self._next_of_client(position, reply, now)
        if self._cascades.causes(position):
            root_s = self._roots_s.pop(request.id, request.arrival_s)
            why = f"its parent {request.tenant} was {reply.outcome.value}"
            yield from self._caused(
                position, request.index, root_s, now, None if reply.outcome is Outcome.DONE else why
            )

    def expected(self) -> int | None:
        """How many requests there will be, skipped ones included; None where closed loops decide.

        A source that was asked this has given its arrivals away: make another one for a run.
        """
        if any(isinstance(load.arrivals, Closed) for load in self._tenants):
            every = all(isinstance(load.arrivals, Closed) for load in self._tenants)
            return int(self._left) if every and self._left < float("inf") else None
        return sum(1 + self._cascades.descendants(position, index) for _, position, index in self._first())

    def _first(self) -> Iterator[tuple[float, int, int]]:
        """Arrival time, tenant's position and index: unique, so that ties are settled by position."""
        members = stream_members(self._tenants)
        sources = [self._times(position) for position in range(len(self._tenants))]
        if members:
            sources.append(stream_times(self._streams, members, self._seed))
        for arrival_s, position, index in heapq.merge(*sources):
            if arrival_s >= self._duration_s or self._left <= 0:
                return
            self._left -= 1
            yield arrival_s, position, index

    def _times(self, position: int) -> Iterator[tuple[float, int, int]]:
        load = self._tenants[position]
        process = load.arrivals
        if isinstance(process, Closed):
            clients = range(process.clients)
            starts = [think_time_s(process, self._seed, load.tenant, client, 0) for client in clients]
            yield from sorted((start, position, client) for client, start in enumerate(starts))
        elif not isinstance(process, (After, MocaStream)):
            for index, arrival_s in enumerate(arrival_times(process, self._seed, load.tenant)):
                yield arrival_s, position, index

    def _next_of_client(self, position: int, reply: Reply, now: float) -> Iterator[Arrive]:
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
            yield Arrive(self._request(position, index, now + pause_s, now + pause_s))

    def _caused(
        self, position: int, index: int, root_s: float, now: float, why_skipped: str | None
    ) -> Iterator[Arrive | Skip]:
        for child in self._cascades.caused(position, index):
            request = self._request(child, index, now, root_s)
            why = why_skipped
            if why is None and request.expires_s is not None and request.expires_s <= now:
                why = f"it expired before its parent {self._tenants[position].tenant} was done"
            if why is not None:
                yield Skip(request, why)
                yield from self._caused(child, index, root_s, now, f"its parent {request.tenant} was skipped")
                continue
            if self._cascades.causes(child):
                self._roots_s[request.id] = root_s
            yield Arrive(request)

    def _request(self, position: int, index: int, arrival_s: float, root_s: float) -> Request:
        load = self._tenants[position]
        drawn = self._priorities[position]
        priority = load.priority if drawn is None else drawn.of(index)
        assert isinstance(priority, int)
        return Request(
            id=position * IDS_PER_TENANT + index,
            tenant=load.tenant,
            index=index,
            model=load.model,
            arrival_s=arrival_s,
            deadline_s=root_s + load.relative_deadline_s,
            blocks=load.blocks,
            isolated_s=load.isolated_s,
            priority=priority,
            weight=load.weight,
            strict=load.strict,
            expires_s=None if load.expires_after_s is None else root_s + load.expires_after_s,
            most_batch=1 if load.batching is None else load.batching.max_size,
            batch_delay_s=0.0 if load.batching is None else load.batching.delay,
        )
