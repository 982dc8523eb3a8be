"""Cascades: which requests a reply causes, when they are due, and what becomes of those it does not."""

from __future__ import annotations

from typing import Any

import pytest
from tenant_loads import load

import headway
from headway.core.messages import Arrive, Reply
from headway.core.protocols import Skip
from headway.core.request import Request
from headway.core.run import Outcome
from headway.workload.sources import ScenarioSource, TenantLoad

FRAMES = {"process": "periodic", "period": "10 ms"}


def after(parent: str, probability: float = 1.0) -> dict[str, Any]:
    return {"process": "after", "parent": parent, "probability": probability}


def source(*loads: TenantLoad, count: int = 20, seed: int = 0) -> ScenarioSource:
    return ScenarioSource(loads, seed, count=count)


def roots(origin: ScenarioSource) -> list[Request]:
    return [arrive.request for arrive in origin.first()]


def test_a_child_comes_when_its_parent_is_done_and_is_due_from_the_root() -> None:
    origin = source(load("a", **FRAMES), load("b", **after("a")), load("c", **after("b")))
    first = roots(origin)
    assert {request.tenant for request in first} == {"a"}
    (child,) = origin.after(Reply(first[3], Outcome.DONE), now=0.034)
    assert isinstance(child, Arrive)
    assert (child.request.tenant, child.request.index, child.request.id) == ("b", 3, 10**9 + 3)
    assert child.request.arrival_s == 0.034
    # Due 20 ms after the frame of 30 ms, not after its own arrival.
    assert child.request.deadline_s == pytest.approx(0.03 + 0.02)
    (grandchild,) = origin.after(Reply(child.request, Outcome.DONE), now=0.04)
    assert grandchild.request.arrival_s == 0.04
    assert grandchild.request.deadline_s == pytest.approx(0.03 + 0.02)
    assert list(origin.after(Reply(grandchild.request, Outcome.DONE), now=0.05)) == []


@pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.FAILED, Outcome.REJECTED, Outcome.CANCELLED])
def test_what_hangs_on_a_request_that_was_not_done_is_skipped(outcome: Outcome) -> None:
    origin = source(load("a", **FRAMES), load("b", **after("a")), load("c", **after("b")))
    skipped = list(origin.after(Reply(roots(origin)[3], outcome), now=0.034))
    assert all(isinstance(each, Skip) for each in skipped)
    assert [each.request.tenant for each in skipped] == ["b", "c"]
    assert [each.reason for each in skipped if isinstance(each, Skip)] == [
        f"its parent a was {outcome.value}",
        "its parent b was skipped",
    ]


def test_a_child_that_has_expired_is_skipped() -> None:
    origin = source(load("a", **FRAMES), load("b", expires_after_s=0.015, **after("a")))
    frame = roots(origin)[0]
    (late,) = origin.after(Reply(frame, Outcome.DONE), now=0.015)
    assert isinstance(late, Skip)
    assert late.reason == "it expired before its parent a was done"
    (in_time,) = origin.after(Reply(frame, Outcome.DONE), now=0.0149)
    assert isinstance(in_time, Arrive)
    assert in_time.request.expires_s == pytest.approx(0.015)


def test_a_probability_decides_by_index_whatever_the_order() -> None:
    loads = load("a", **FRAMES), load("b", **after("a", 0.3)), load("c", **after("a", 0.3))

    def children(*, backwards: bool, seed: int = 5) -> set[tuple[str, int]]:
        origin = source(*loads, count=3000, seed=seed)
        frames = roots(origin)
        caused = [
            child.request
            for frame in (reversed(frames) if backwards else frames)
            for child in origin.after(Reply(frame, Outcome.DONE), now=100.0)
        ]
        return {(request.tenant, request.index) for request in caused}

    found = children(backwards=False)
    assert found == children(backwards=True)
    assert found != children(backwards=False, seed=6)
    own = {tenant: {index for name, index in found if name == tenant} for tenant in "bc"}
    for indices in own.values():
        assert 0.27 * 3000 < len(indices) < 0.33 * 3000
    assert 0.06 * 3000 < len(own["b"] & own["c"]) < 0.12 * 3000, "each child has draws of its own"


def test_the_number_expected_includes_children() -> None:
    loads = load("a", **FRAMES), load("b", **after("a", 0.5)), load("c", **after("b"))
    origin = source(*loads, count=200)
    caused = 0
    for frame in roots(origin):
        for child in origin.after(Reply(frame, Outcome.DONE), now=9.0):
            caused += 1 + len(list(origin.after(Reply(child.request, Outcome.DONE), now=9.0)))
    assert 120 < caused < 280
    assert source(*loads, count=200).expected() == 200 + caused


def test_a_closed_loop_may_have_children() -> None:
    loop = {"process": "closed", "clients": 1, "think_time": "5 ms", "think": "fixed"}
    origin = source(load("a", **loop), load("b", **after("a")))
    (first,) = roots(origin)
    following = list(origin.after(Reply(first, Outcome.DONE), now=0.01))
    assert [(each.request.tenant, each.request.arrival_s) for each in following] == [
        ("a", pytest.approx(0.015)),
        ("b", 0.01),
    ]


def test_a_parent_that_is_no_tenant_is_the_programmers_mistake() -> None:
    with pytest.raises(ValueError, match="comes after 'z', which is no tenant"):
        source(load("a", **FRAMES), load("b", **after("z")))


def cascade(**changes: Any) -> headway.Scenario:
    def tenant(name: str, arrivals: dict[str, Any], **more: Any) -> dict[str, Any]:
        sla = {"deadline": "8 ms"}
        return {"name": name, "model": "kws_res8", "sla": sla, "arrivals": arrivals} | more

    return headway.Scenario.from_mapping(
        {
            "name": "cascade",
            "hardware": "moca8",
            "duration": "1 s",
            "warmup": "0 s",
            "tenants": [
                tenant("eye", {"process": "periodic", "period": "10 ms", "jitter": "5 us"}),
                tenant("gaze", after("eye", 0.5)),
                tenant("look", after("gaze")),
            ],
        }
        | changes
    )


def test_simulated_every_child_is_counted_once_under_every_policy() -> None:
    policies = ["fcfs", "edf", "laxity"]
    results = headway.compare(cascade(), policies)
    counts = {
        name: {tenant: scores.requests for tenant, scores in results[name].summary.tenants.items()}
        for name in policies
    }
    assert counts["fcfs"]["eye"] == 100
    assert 30 < counts["fcfs"]["gaze"] == counts["fcfs"]["look"] < 70
    assert counts["fcfs"] == counts["edf"] == counts["laxity"]
    assert results["edf"].summary.total.sla_satisfaction == 1.0


def test_simulated_children_of_dropped_frames_are_requested_and_dropped() -> None:
    # Frames that have not started after 1 us are dropped; a slow tenant on the one core keeps them waiting.
    slow = {
        "name": "slow",
        "model": "resnet18",
        "sla": {"isolated": 100.0},
        "arrivals": {"process": "closed", "clients": 8, "think_time": "0 s"},
    }
    tenants = [
        {**tenant, "expires": "1 us"} if tenant["name"] == "eye" else tenant
        for tenant in cascade().to_mapping()["tenants"]
    ]
    summary = headway.simulate(cascade(tenants=[*tenants, slow]), policy="fcfs").summary
    eye, gaze, look = (summary.tenants[name] for name in ("eye", "gaze", "look"))
    assert eye.dropped > 50
    assert gaze.dropped > 10
    assert gaze.requests == look.requests
    assert (gaze.completed, look.completed) == (gaze.requests - gaze.dropped, gaze.requests - gaze.dropped)
    calm = headway.simulate(cascade(), policy="fcfs").summary
    assert (gaze.requests, look.requests) == (calm.tenants["gaze"].requests, calm.tenants["look"].requests)
