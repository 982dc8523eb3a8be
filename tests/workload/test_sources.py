"""A scenario's source: order, ids, ends, and pairing across policies."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter

from headway.config import Tenant
from headway.config.arrivals import Arrivals
from headway.core.messages import Arrive, Reply
from headway.core.protocols import Source
from headway.core.request import Request
from headway.core.run import Outcome
from headway.workload.sources import ScenarioSource, TenantLoad


def load(tenant: str = "a", *, isolated_s: float = 0.004, **arrivals: Any) -> TenantLoad:
    arrivals = arrivals or {"process": "poisson", "rate": "100 /s"}
    return TenantLoad(
        tenant=tenant,
        model="net",
        blocks=5,
        isolated_s=isolated_s,
        relative_deadline_s=0.02,
        arrivals=TypeAdapter(Arrivals).validate_python(arrivals),
    )


def closed(
    tenant: str = "loop", clients: int = 3, think: str = "10 ms", kind: str = "exponential"
) -> TenantLoad:
    return load(tenant, process="closed", clients=clients, think_time=think, think=kind)


def arrivals(source: Source) -> list[Request]:
    return [arrive.request for arrive in source.first()]


def served(
    source: ScenarioSource, answer: Callable[[Request], tuple[float, Outcome]], limit: int = 5000
) -> list[Request]:
    """Every request, when each is answered as told, independently of the others."""
    waiting: list[tuple[float, int, Reply | Arrive]] = []
    order = itertools.count()
    for arrive in source.first():
        heapq.heappush(waiting, (arrive.request.arrival_s, next(order), arrive))
    requests = []
    while waiting and len(requests) < limit:
        now, _, event = heapq.heappop(waiting)
        if isinstance(event, Arrive):
            assert event.request.arrival_s == now
            requests.append(event.request)
            wait_s, outcome = answer(event.request)
            heapq.heappush(waiting, (now + wait_s, next(order), Reply(event.request, outcome)))
            continue
        for arrive in source.after(event, now):
            assert isinstance(arrive, Arrive)
            assert arrive.request.arrival_s >= now
            heapq.heappush(waiting, (arrive.request.arrival_s, next(order), arrive))
    return requests


def quickly(request: Request) -> tuple[float, Outcome]:
    return 0.002, Outcome.DONE


def slowly(request: Request) -> tuple[float, Outcome]:
    return 0.05 * (1 + request.id % 3), Outcome.DONE if request.id % 2 else Outcome.DROPPED


def facts(requests: Sequence[Request], tenant: str | None = None) -> list[tuple[int, str, int, float]]:
    return [
        (request.id, request.tenant, request.index, request.arrival_s)
        for request in requests
        if tenant in (None, request.tenant)
    ]


THREE = [
    load("a"),
    load("b", process="uniform", rate="30 /s"),
    load("c", process="periodic", rate="60 fps", jitter="1 ms"),
]


def test_requests_carry_their_tenants_terms() -> None:
    tenant = Tenant.model_validate(
        {
            "name": "camera",
            "model": "net",
            "sla": {"isolated": 4},
            "priority": 3,
            "weight": 2.0,
            "class": "best-effort",
            "expires": "deadline",
            "arrivals": {"process": "periodic", "rate": "10 fps", "phase": "50 ms"},
        }
    )
    source = ScenarioSource([load(), TenantLoad.of(tenant, "net@1", 7, 0.005)], seed=0, duration_s=0.1)
    (request,) = [each for each in arrivals(source) if each.tenant == "camera"]
    assert (request.id, request.index, request.model, request.blocks) == (10**9, 0, "net@1", 7)
    assert (request.arrival_s, request.isolated_s) == (0.05, 0.005)
    assert request.deadline_s == pytest.approx(0.07)
    assert request.expires_s == pytest.approx(0.07)
    assert (request.priority, request.weight, request.strict) == (3, 2.0, False)


def test_it_is_a_source() -> None:
    source: Source = ScenarioSource([load()], seed=0, count=1)
    assert len(list(source.first())) == 1


def test_in_order_of_time_with_unique_ids() -> None:
    found = arrivals(ScenarioSource(THREE, seed=3, duration_s=5.0))
    assert [each.arrival_s for each in found] == sorted(each.arrival_s for each in found)
    assert len({each.id for each in found}) == len(found)
    assert {each.tenant for each in found} == {"a", "b", "c"}
    for position, tenant in enumerate("abc"):
        own = [each for each in found if each.tenant == tenant]
        assert [each.index for each in own] == list(range(len(own)))
        assert [each.id for each in own] == [position * 10**9 + each.index for each in own]
    assert max(each.arrival_s for each in found) < 5.0


def test_a_count_is_the_first_so_many_in_time() -> None:
    longer = arrivals(ScenarioSource(THREE, seed=3, duration_s=5.0))
    assert facts(arrivals(ScenarioSource(THREE, seed=3, count=200))) == facts(longer)[:200]


def test_simultaneous_arrivals_come_in_order_of_tenants() -> None:
    periodic = {"process": "periodic", "rate": "10 fps"}
    found = arrivals(ScenarioSource([load("z", **periodic), load("a", **periodic)], seed=0, count=4))
    assert [each.tenant for each in found] == ["z", "a", "z", "a"]


def test_another_tenant_shifts_nothing() -> None:
    alone = arrivals(ScenarioSource([load("a")], seed=3, duration_s=5.0))
    beside = arrivals(ScenarioSource(THREE, seed=3, duration_s=5.0))
    assert facts(alone) == facts(beside, "a")


def test_arrivals_are_made_as_they_are_asked_for() -> None:
    first = ScenarioSource([load()], seed=0, duration_s=1e9).first()
    assert len(list(itertools.islice(first, 10))) == 10


def test_open_arrivals_are_the_same_whatever_the_replies() -> None:
    tenants = [*THREE, closed()]
    fast = served(ScenarioSource(tenants, seed=3, duration_s=2.0), quickly)
    slow = served(ScenarioSource(tenants, seed=3, duration_s=2.0), slowly)
    assert len(facts(fast, "loop")) > len(facts(slow, "loop")), "only the loop feels the replies"
    for tenant in "abc":
        assert facts(fast, tenant) == facts(slow, tenant)


def test_a_closed_loop_has_one_request_per_client_at_a_time() -> None:
    requests = served(ScenarioSource([closed(clients=3)], seed=3, duration_s=2.0), slowly)
    assert len(requests) > 30
    assert len({each.id for each in requests}) == len(requests)
    by_client: dict[int, list[Request]] = {}
    for each in requests:
        by_client.setdefault(each.index % 3, []).append(each)
    assert sorted(by_client) == [0, 1, 2]
    for client, own in by_client.items():
        assert [each.index for each in own] == [client + 3 * turn for turn in range(len(own))]
        for earlier, later in itertools.pairwise(own):
            assert later.arrival_s > earlier.arrival_s + slowly(earlier)[0]


def test_think_times_belong_to_client_and_round() -> None:
    def pauses(answer: Callable[[Request], tuple[float, Outcome]]) -> dict[int, float]:
        requests = {
            each.index: each for each in served(ScenarioSource([closed()], seed=3, duration_s=2.0), answer)
        }
        return {
            index: each.arrival_s - requests[index - 3].arrival_s - answer(requests[index - 3])[0]
            for index, each in requests.items()
            if index >= 3
        }

    def later(request: Request) -> tuple[float, Outcome]:
        return 0.05 * (1 + request.id % 3), Outcome.DONE

    fast, slow = pauses(quickly), pauses(later)
    common = fast.keys() & slow.keys()
    assert len(common) > 20
    assert [fast[index] for index in common] == pytest.approx([slow[index] for index in common])


def test_a_closed_loop_goes_on_after_drops() -> None:
    def drop(request: Request) -> tuple[float, Outcome]:
        return 0.001, Outcome.DROPPED

    assert len(served(ScenarioSource([closed()], seed=3, duration_s=2.0), drop)) > 100


def test_refusal_at_once_without_think_time_does_not_stop_the_clock() -> None:
    def refuse(request: Request) -> tuple[float, Outcome]:
        return 0.0, Outcome.REJECTED

    requests = served(ScenarioSource([closed(clients=1, think="0 s")], seed=3, duration_s=0.1), refuse)
    assert [each.arrival_s for each in requests] == pytest.approx([0.004 * turn for turn in range(25)])


def test_a_closed_loop_ends_with_the_duration_and_with_the_count() -> None:
    requests = served(ScenarioSource([closed()], seed=3, duration_s=0.5), quickly)
    assert 0.4 < max(each.arrival_s for each in requests) < 0.5
    assert len(served(ScenarioSource([closed(), closed("other")], seed=3, count=57), quickly)) == 57
    assert len(served(ScenarioSource([closed(clients=9)], seed=3, count=5), quickly)) == 5


def test_the_programmers_mistakes() -> None:
    with pytest.raises(ValueError, match="exactly one of duration_s and count"):
        ScenarioSource([load()], seed=0)
    with pytest.raises(ValueError, match="exactly one of duration_s and count"):
        ScenarioSource([load()], seed=0, duration_s=1.0, count=1)
    with pytest.raises(ValueError, match="named twice"):
        ScenarioSource([load(), load()], seed=0, count=1)
