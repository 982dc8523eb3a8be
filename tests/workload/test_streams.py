"""MoCA's streams: gaps, shares, rates, and what they do not depend on."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from tenant_loads import load

from headway.config.arrivals import Streams
from headway.core.errors import HeadwayError
from headway.workload.rates import request_rates
from headway.workload.sources import ScenarioSource, stream_members
from headway.workload.streams import stream_times

SHARES = {"light": 30, "long": 21, "mid": 25}
LATENCY_S = {"light": 0.001, "long": 0.004, "mid": 0.002}
LOADS = [
    load(name, isolated_s=LATENCY_S[name], process="moca-streams", share=share)
    for name, share in SHARES.items()
]


def test_gaps_are_those_of_the_artifact() -> None:
    times = list(itertools.islice(stream_times(Streams(count=1), stream_members(LOADS), seed=3), 4000))
    assert times[0][0] == 0.0
    steps = Counter[int]()
    for (earlier, position, _), (later, _, _) in itertools.pairwise(times):
        isolated_s = list(LATENCY_S.values())[position]
        step = (isolated_s * 0.92 - (later - earlier)) / 45e-6
        if position == 0 and later == earlier:  # 0.92 ms less up to 0.855 ms is never negative
            pytest.fail("no gap of the shortest model is zero")
        assert step == pytest.approx(round(step), abs=1e-6)
        steps[round(step)] += 1
    assert set(steps) == set(range(20))
    assert min(steps.values()) > 120


def test_a_gap_is_never_negative() -> None:
    members = stream_members([load("a", isolated_s=0.0005, process="moca-streams")])
    times = [time for time, _, _ in itertools.islice(stream_times(Streams(count=1), members, seed=3), 500)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) == 0.0
    assert max(gaps) == pytest.approx(0.00046)


def test_tenants_are_drawn_by_their_shares_in_order_of_time() -> None:
    found = [arrive.request for arrive in ScenarioSource(LOADS, seed=3, count=6000).first()]
    assert [each.arrival_s for each in found] == sorted(each.arrival_s for each in found)
    counts = Counter(each.tenant for each in found)
    for name, share in SHARES.items():
        assert counts[name] == pytest.approx(6000 * share / 76, rel=0.06)
        assert [each.index for each in found if each.tenant == name] == list(range(counts[name]))
    assert sum(each.arrival_s == 0.0 for each in found) == 4, "one stream each starts at 0"


def test_the_rates_are_what_is_measured() -> None:
    streams = Streams(count=3, cap=1.42)
    rates = request_rates(LOADS, streams)
    found = [a.request for a in ScenarioSource(LOADS, seed=3, count=20_000, streams=streams).first()]
    counts = Counter(each.tenant for each in found)
    for name, rate in rates.items():
        assert counts[name] / found[-1].arrival_s == pytest.approx(rate, rel=0.05)


def test_faster_streams_are_the_same_in_less_time() -> None:
    slow = ScenarioSource(LOADS, seed=3, count=300, streams=Streams(cap=1.42)).first()
    fast = ScenarioSource(LOADS, seed=3, count=300, streams=Streams(cap=1.42).faster(2.5)).first()
    for one, other in zip(slow, fast, strict=True):
        assert one.request.tenant == other.request.tenant
        assert other.request.arrival_s * 2.5 == pytest.approx(one.request.arrival_s)


def test_another_tenant_beside_the_streams_shifts_nothing() -> None:
    alone = [arrive.request for arrive in ScenarioSource(LOADS, seed=3, duration_s=0.5).first()]
    beside = [a.request for a in ScenarioSource([*LOADS, load("x")], seed=3, duration_s=0.5).first()]
    assert [each.id for each in alone] == [each.id for each in beside if each.tenant != "x"]


def test_streams_without_any_gap_are_refused() -> None:
    loads = [load("a", isolated_s=0.0005, process="moca-streams")]
    assert request_rates(loads, Streams(steps=1))["a"] == pytest.approx(4 / 0.00046)
    with pytest.raises(HeadwayError, match="with cap 1e-09 no gap is left between requests"):
        request_rates([load("a", isolated_s=0.0, process="moca-streams")], Streams(cap=1e-9))
