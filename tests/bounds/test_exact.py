"""The exact optimum lies between what policies reach and the clairvoyant bound."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest

from headway.bounds import Clairvoyant
from headway.bounds.exact import MOST_REQUESTS, optimum
from headway.config import load_hardware
from headway.core.block import Mode
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.core.request import Request
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge, zoo
from headway.policies import make
from headway.testing import ToyTable, play, toy_device, toy_request

ENDLESS = 1e30  # bytes/s: runs do not notice each other


def on_time(rows: Any, requests: list[Request]) -> int:
    deadline = {request.id: request.deadline_s for request in requests}
    return sum(row.outcome == "done" and row.time_s <= deadline[row.request] for row in rows.of("reply"))


def scene(seed: int) -> tuple[Device, dict[str, ToyTable], list[Request], dict[int, list[float]]]:
    draw = random.Random(seed)
    kinds = [draw.choice("ab") for _ in range(draw.choice([1, 2, 3]))]
    device = toy_device(len(kinds), bandwidth_bytes_s=ENDLESS, kinds=kinds)
    tables = {
        name: ToyTable(
            device,
            [(draw.uniform(0.5, 2.0), 0.0) for _ in range(draw.choice([1, 2, 3]))],
            scale=[1.0, draw.choice([0.5, 2.0])][: len(device.kinds)],
        )
        for name in "xyz"
    }
    requests = []
    for index in range(draw.choice([3, 5, 6])):
        model = draw.choice("xyz")
        arrival_s = draw.uniform(0.0, 3.0)
        requests.append(
            toy_request(
                index,
                model,
                tables,
                arrival_s=arrival_s,
                deadline_s=arrival_s + draw.uniform(0.6, 2.0) * tables[model].remaining_s[0],
            )
        )
    noise = {r.id: [draw.lognormvariate(0.0, 0.2) for _ in range(r.blocks)] for r in requests}
    return device, tables, requests, noise


@pytest.mark.parametrize("seed", range(20))
def test_policies_below_optimum_below_bound(seed: int) -> None:
    pytest.importorskip("ortools")
    device, tables, requests, noise = scene(seed)
    best = optimum(device, tables, requests, lambda request: noise[request.id])
    assert best.proven
    bound = Clairvoyant(device, tables).bound(requests, lambda request: noise[request.id])
    assert len(best.on_time) <= bound.on_time <= len(requests)
    for policy in ("fcfs", "edf", "laxity", "sjf"):
        achieved = on_time(play(make(policy), device, tables, scene(seed)[2], noise=noise), requests)
        assert achieved <= len(best.on_time), policy


def test_the_optimum_is_sometimes_above_every_policy_and_below_the_bound() -> None:
    """So that the test above is no matter of course."""
    pytest.importorskip("ortools")
    above, below = 0, 0
    for seed in range(20):
        device, tables, requests, noise = scene(seed)
        best = len(optimum(device, tables, requests, lambda r, noise=noise: noise[r.id]).on_time)
        policies = (
            on_time(play(make(policy), device, tables, scene(seed)[2], noise=noise), requests)
            for policy in ("fcfs", "edf", "laxity", "sjf")
        )
        above += best > max(policies)
        bound = Clairvoyant(device, tables).bound(requests, lambda r, noise=noise: noise[r.id])
        below += bound.on_time == best
    assert above >= 2
    assert below >= 5  # and the bound is often tight


def test_a_clairvoyant_waits_for_the_urgent_request() -> None:
    """One core; the long request must wait for a short one that arrives later, or one of them is late."""
    pytest.importorskip("ortools")
    device = toy_device(1, bandwidth_bytes_s=ENDLESS)
    tables = {"long": ToyTable(device, [(4.0, 0.0)]), "short": ToyTable(device, [(1.0, 0.0)])}
    requests = [
        toy_request(0, "long", tables, arrival_s=0.0, deadline_s=6.5),
        toy_request(1, "short", tables, arrival_s=1.0, deadline_s=2.0),
    ]
    best = optimum(device, tables, requests)
    assert best.on_time == {0, 1}
    starts = {run.request: run.start_s for run in best.runs}
    assert starts[1] == pytest.approx(1.0, abs=1e-6)
    assert 2.0 - 1e-6 <= starts[0] <= 2.5 + 1e-6
    assert on_time(play(make("edf"), device, tables, requests), requests) == 1


def test_shared_bandwidth_keeps_runs_apart() -> None:
    """Two cores, but each request moves bytes at the full bandwidth for 1 s."""
    pytest.importorskip("ortools")
    device = toy_device(2, bandwidth_bytes_s=1.0)
    tables = {"m": ToyTable(device, [(0.5, 1.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.5) for i in range(2)]
    assert len(optimum(device, tables, requests).on_time) == 2
    assert len(optimum(device, tables, requests, share_bandwidth=True).on_time) == 1


def test_real_costs_choose_among_modes() -> None:
    """One urgent request on four cores is on time only in a faster mode than layer by layer."""
    pytest.importorskip("ortools")
    device = load_hardware("stream-hetero4")
    graph = load_model(zoo.build("kws_res8", batch=1, weights=False), name="kws_res8")
    table = build_table(merge(at_width(graph, device.operand_bytes)), device)
    serial_s = min(
        table.option(Mode.SERIAL, 0, table.blocks, (kind,)).seconds(device.dram_bandwidth_bytes_s)
        for kind in range(2)
    )
    tables = {"m": table}
    request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=0.95 * serial_s)
    best = optimum(device, tables, [request])
    assert best.on_time == {0}
    assert any(run.option.mode is not Mode.SERIAL for run in best.runs)
    late = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=0.05 * serial_s)
    assert optimum(device, tables, [late]).on_time == frozenset()


def test_too_large_is_said() -> None:
    pytest.importorskip("ortools")
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1.0, 0.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.0) for i in range(MOST_REQUESTS + 1)]
    with pytest.raises(HeadwayError, match=f"found {MOST_REQUESTS + 1} requests; accepted: at most"):
        optimum(device, tables, requests)


def test_without_or_tools_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("ortools"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    device = toy_device(1)
    with pytest.raises(HeadwayError, match=r'pip install "headway\[bounds\]"'):
        optimum(device, {}, [])
