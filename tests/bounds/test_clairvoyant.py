"""No simulated run has more requests on time than the bound says, whatever the policy."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.bounds import Clairvoyant
from headway.config import load_hardware
from headway.core.protocols import CostTable
from headway.cost.contention import OverlapLoss
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge, zoo
from headway.policies import make
from headway.record.columns import ENDINGS, IN_TIME, requests_of
from headway.record.log import LogTable
from headway.testing import ToyTable, play, toy_device, toy_lane_table, toy_lanes, toy_request

POLICIES = ("fcfs", "edf", "laxity", "sjf", "lucas", "lucas:lbl")


def in_time(log: LogTable) -> int:
    return int((requests_of(log).ending == ENDINGS.index(IN_TIME)).sum())


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_random_and_real_policies_on_made_up_costs(any_policy: ModuleType, seed: int) -> None:
    device, tables = any_policy.toy_scene(random.Random(seed))
    requests, noise, span_s = any_policy.requests_of(random.Random(seed), tables, 12)
    bound = Clairvoyant(device, tables).bound(
        requests, lambda request: (noise or {}).get(request.id, (1.0,) * request.blocks)
    )
    for policy in ("random", *POLICIES):
        again, _, _ = any_policy.requests_of(random.Random(seed), tables, 12)
        chosen = any_policy.RandomPolicy(seed, span_s / 3 or 1e-3) if policy == "random" else make(policy)
        log = any_policy.simulate(chosen, device, tables, again, noise=noise)
        assert in_time(log) <= bound.on_time <= len(requests), policy


@pytest.fixture(scope="module")
def real_tables() -> dict[str, CostTable]:
    device = load_hardware("stream-hetero4")
    return {
        name: build_table(
            merge(
                at_width(load_model(zoo.build(name, batch=1, weights=False), name=name), device.operand_bytes)
            ),
            device,
        )
        for name in ("kws_res8", "yolo_lite", "fsrcnn")
    }


@pytest.mark.parametrize("load", [0.7, 1.5, 4.0])
def test_real_costs_at_loads(load: float, real_tables: dict[str, CostTable], any_policy: ModuleType) -> None:
    """Poisson arrivals on four cores; in overload the bound is below the number of requests."""
    device = load_hardware("stream-hetero4")
    mean_s = np.mean([table.remaining_s[0] for table in real_tables.values()]) / len(device.cores)

    def made() -> tuple[list, dict]:
        draw = np.random.default_rng(7)
        arrival = np.cumsum(draw.exponential(mean_s / load, 150))
        requests = [
            toy_request(
                at, model, real_tables, arrival_s=float(arrival[at]),
                deadline_s=float(arrival[at]) + 3 * real_tables[model].remaining_s[0],
            )
            for at, model in enumerate(draw.choice(sorted(real_tables), 150))
        ]  # fmt: skip
        return requests, {r.id: draw.lognormal(0, 0.1, r.blocks).tolist() for r in requests}

    requests, noise = made()
    bound = Clairvoyant(device, real_tables).bound(requests, lambda request: noise[request.id])
    best = max(
        in_time(any_policy.simulate(make(policy), device, real_tables, made()[0], noise=noise))
        for policy in POLICIES
    )
    assert 0.5 * bound.on_time < best <= bound.on_time
    if load == 4.0:
        assert bound.on_time < 0.95 * len(requests)


def test_bandwidth_binds() -> None:
    """Four cores, ten requests at once of 1 s each at the full bandwidth, due after 3 s: three fit."""
    device = toy_device(4, bandwidth_bytes_s=1.0)
    tables = {"m": ToyTable(device, [(0.1, 1.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=3.0) for i in range(10)]
    bound = Clairvoyant(device, tables).bound(requests, lambda request: (1.0,))
    assert (bound.requests, bound.on_time, bound.hopeless, bound.bandwidth_share) == (10, 3, 0, 1.0)
    assert bound.sla_satisfaction == 0.3


def test_cores_bind() -> None:
    """Two cores, ten requests of 1 s without traffic, due after 3 s: six fit. Lucky factors let more fit."""
    device = toy_device(2, bandwidth_bytes_s=1.0)
    tables = {"m": ToyTable(device, [(1.0, 0.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=3.0) for i in range(10)]
    assert Clairvoyant(device, tables).bound(requests, lambda request: (1.0,)).on_time == 6
    assert Clairvoyant(device, tables).bound(requests, lambda request: (0.7,)).on_time == 8


def test_what_is_late_on_an_empty_machine_is_hopeless() -> None:
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1.0, 0.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=float(i), deadline_s=i + 0.9) for i in range(3)]
    bound = Clairvoyant(device, tables).bound(requests, lambda request: (1.0,))
    assert (bound.on_time, bound.hopeless) == (0, 3)
    lucky = Clairvoyant(device, tables).bound(requests, lambda request: (0.8,))
    assert (lucky.on_time, lucky.hopeless) == (3, 0)
    assert len(play(make("edf"), device, tables, requests).of("reply")) == 3


@pytest.mark.parametrize("seed", range(6))
def test_lanes(seed: int) -> None:
    """Narrow runs take less of the machine, wide ones less time; runs slow each other down."""
    device = toy_lanes(2)
    tables = {
        "m": toy_lane_table(device, {1: [1.0, 2.0], 2: [0.6, 1.1]}, dispatch_s=0.01, switch_s=0.01),
        "n": toy_lane_table(device, {1: [0.5], 2: [0.4]}, dispatch_s=0.01),
    }

    def made() -> list:
        draw = np.random.default_rng(seed)
        arrival = np.sort(draw.uniform(0, 4, 12))
        return [
            toy_request(
                at, model, tables, arrival_s=float(arrival[at]), deadline_s=float(arrival[at] + window)
            )
            for at, (model, window) in enumerate(
                zip(draw.choice(["m", "n"], 12), draw.uniform(0.5, 5, 12), strict=True)
            )
        ]

    bound = Clairvoyant(device, tables).bound(made(), lambda request: (1.0,) * request.blocks)
    for policy in ("fcfs", "edf", "edf:wide", "laxity:adaptive", "edf:planned"):
        requests = made()
        rows = play(make(policy), device, tables, requests, contention=OverlapLoss(0.3))
        deadline = {request.id: request.deadline_s for request in requests}
        achieved = sum(r.outcome == "done" and r.time_s <= deadline[r.request] for r in rows.of("reply"))
        assert achieved <= bound.on_time, policy
    assert bound.on_time < 12
    # The shortest way is wide all through: a request that has no more time than that is not hopeless.
    alone = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.71)
    assert Clairvoyant(device, tables).bound([alone], lambda request: (1.0, 1.0)).on_time == 1
    late = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.69)
    assert Clairvoyant(device, tables).bound([late], lambda request: (1.0, 1.0)).hopeless == 1


def test_no_request_has_no_share() -> None:
    device = toy_device(1)
    assert Clairvoyant(device, {}).bound([], lambda request: ()).sla_satisfaction is None
