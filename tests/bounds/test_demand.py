"""Nobody gets a request done for less than the least it is said to take."""

from __future__ import annotations

import dataclasses
import random
from types import ModuleType

import numpy as np
import pytest

from headway.bounds.demand import least_latency_s, least_priced_s
from headway.bounds.ways import ways_of
from headway.config import load_hardware
from headway.core.device import Device
from headway.cost.contention import MaxMinFair, Proportional
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge, zoo
from headway.policies import make, names
from headway.record.columns import requests_of, stretches_of
from headway.record.log import LogTable
from headway.testing import ToyTable, toy_device


def used(log: LogTable, device: Device, request: int) -> tuple[np.ndarray, float]:
    """Seconds of cores by kind, and bytes, that a request took."""
    work = stretches_of(log)
    own = work.only(work.request == request)
    core, stretch = own.per_core()
    kinds = np.array(device.kind_of)[core]
    seconds = (own.end_s - own.start_s)[stretch]
    return np.bincount(kinds, weights=seconds, minlength=len(device.kinds)), float(own.dram_bytes.sum())


def check(log: LogTable, device: Device, tables: dict, requests: list, noise: dict | None) -> float:
    """Assert that every request that was done paid its least; the least excess, as a share."""
    ways = {model: ways_of(table, device) for model, table in tables.items()}
    ended = requests_of(log)
    least_excess = np.inf
    for request in requests:
        at = int(np.flatnonzero(ended.id == request.id)[0])
        if not ended.completed[at]:
            continue
        factors = np.array([(noise or {}).get(request.id, (1.0,) * request.blocks)])
        model = ways[request.model]
        took_s = ended.end_s[at] - ended.arrival_s[at]
        assert took_s >= least_latency_s(model, factors)[0] * (1 - 1e-9) - 1e-13
        seconds, moved = used(log, device, request.id)
        transfer_s = moved / device.dram_bandwidth_bytes_s
        for share in (0.0, 0.3, 0.7, 1.0):
            for split in np.eye(len(device.kinds)), np.full((1, len(device.kinds)), 1.0):
                for price in (1 - share) * split:
                    least = least_priced_s(model, factors, price[None], np.array([share]))[0]
                    paid = share * transfer_s + price @ seconds
                    assert paid >= least * (1 - 1e-9) - 1e-13, (request.id, price, share)
                    if least > 0:
                        least_excess = min(least_excess, paid / least - 1)
    return float(least_excess)


@pytest.mark.parametrize("seed", range(30))
def test_random_runs_of_made_up_costs(seed: int, any_policy: ModuleType) -> None:
    draw = random.Random(seed)
    device, tables = any_policy.toy_scene(draw)
    requests, noise, span_s = any_policy.requests_of(draw, tables, 15)
    rule = draw.choice([MaxMinFair, Proportional])(device.dram_bandwidth_bytes_s)
    policy = any_policy.RandomPolicy(seed, step_s=span_s / 3 or 1e-3)
    log = any_policy.simulate(policy, device, tables, requests, noise=noise, rule=rule)
    check(log, device, tables, requests, noise)


@pytest.fixture(scope="module")
def graphs() -> dict:
    return {
        name: load_model(zoo.build(name, batch=1, weights=False), name=name)
        for name in ("kws_res8", "yolo_lite", "fsrcnn")
    }


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [1e9, 1e11])
@pytest.mark.parametrize("hardware", ["stream-hetero4", "moca8"])
def test_runs_of_real_costs(hardware: str, bandwidth: float, graphs: dict, any_policy: ModuleType) -> None:
    device = dataclasses.replace(load_hardware(hardware), dram_bandwidth_bytes_s=bandwidth)
    tables = {
        name: build_table(merge(at_width(graph, device.operand_bytes)), device)
        for name, graph in graphs.items()
    }
    excess = []
    able = (name for name in names() if not make(name).needs_lanes)
    for seed, policy in enumerate(["random", *able]):
        draw = random.Random(seed)
        requests, noise, span_s = any_policy.requests_of(draw, tables, 15)
        chosen = any_policy.RandomPolicy(seed, span_s / 10) if policy == "random" else make(policy)
        log = any_policy.simulate(chosen, device, tables, requests, noise=noise)
        excess.append(check(log, device, tables, requests, noise))
    assert min(excess) < 0.2  # some run comes close to some least, so that the test can fail


def test_a_chain_worked_by_hand() -> None:
    """Two blocks of 1 and 2 s and 3 bytes each at 1 byte/s; the second finds 2 bytes in SRAM."""
    device = toy_device(1, bandwidth_bytes_s=1.0)
    ways = ways_of(ToyTable(device, [(1.0, 3.0), (2.0, 3.0)], kept=2.0), device)
    ones = np.ones((1, 2))
    by_bytes = least_priced_s(ways, ones, np.zeros((1, 1)), np.ones(1))
    by_time = least_priced_s(ways, ones, np.ones((1, 1)), np.zeros(1))
    # Fused, the two move half of each one's bytes and compute 3 s; kept, 3 + 1 bytes in 3 + 2 s.
    assert by_bytes.tolist() == [3.0]
    assert by_time.tolist() == [3.0]
    assert least_latency_s(ways, 2 * ones).tolist() == [6.0]


def test_small_factors_do_not_beat_the_memory() -> None:
    device = toy_device(1, bandwidth_bytes_s=1.0)
    ways = ways_of(ToyTable(device, [(1.0, 3.0)]), device)
    assert least_latency_s(ways, np.array([[0.1], [1.0], [2.0]])).tolist() == [3.0, 3.0, 6.0]
