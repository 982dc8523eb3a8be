"""What holds for every policy that is registered, with and without early drops, on a small random
scenario."""

import random
from collections import Counter

import pytest

from headway.core.engine import Engine
from headway.core.protocols import Capability
from headway.cost.contention import MaxMinFair, OverlapLoss
from headway.policies import make, names
from headway.predict.analytic import AnalyticEstimator
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.sim.driver import Simulation
from headway.testing import Listed, ToyTable, toy_device, toy_lane_table, toy_lanes, toy_request


def device_and_tables():
    device = toy_device(4, kinds=["a", "b", "a", "b"])
    draw = random.Random(7)
    tables = {}
    for at, name in enumerate("xyz"):
        blocks = [(draw.uniform(1e-4, 1e-3), draw.choice([0.0, 2e5, 2e6])) for _ in range(4 + 3 * at)]
        tables[name] = ToyTable(device, blocks, scale=[1.0, 1.0 + at], steps=4, kept=1e5, spill_bytes=1e5)
    return device, tables


def requests_of(tables, seed):
    draw = random.Random(seed)
    requests, at_s = [], 0.0
    for index in range(40):
        at_s += draw.expovariate(1 / 2.5e-3)
        model = draw.choice(sorted(tables))
        due_s = at_s + tables[model].remaining_s[0] * draw.choice([0.1, draw.uniform(1.0, 8.0)])
        request = toy_request(
            index,
            model,
            tables,
            arrival_s=at_s,
            deadline_s=due_s,
            tenant=f"tenant-{model}",
            priority=draw.choice([0, 1, 3, 9]),
        )
        requests.append(request)
    noise = {
        request.id: [draw.lognormvariate(0.0, 0.2) for _ in range(request.blocks)] for request in requests
    }
    return requests, noise


def simulated(name, seed):
    device, tables = device_and_tables()
    requests, noise = requests_of(tables, seed)
    cores = [{"index": core.index, "name": core.name, "kind": core.kind} for core in device.cores]
    bandwidth = device.dram_bandwidth_bytes_s
    sink = MemoryLog({"device": {"cores": cores, "dram_bandwidth_bytes_s": bandwidth}})
    rule = MaxMinFair(bandwidth)
    engine = Engine(device, make(name), AnalyticEstimator(device, tables, rule), rule, sink)
    Simulation(engine, Listed(requests), device, tables, rule, lambda r: noise[r.id]).run()
    return sink.table()


ON_CORES = [name for name in names() if not make(name).needs_lanes]


@pytest.mark.parametrize("name", [name + suffix for name in ON_CORES for suffix in ("", ":drop")])
def test_it_serves_a_random_scenario_to_the_end(name):
    log = simulated(name, seed=11)
    assert check_conservation(log) == []
    rows = log.table.to_pylist()
    replies = Counter(row["request"] for row in rows if row["event"] == "reply")
    assert replies == Counter(range(40))
    outcomes = Counter(row["outcome"] for row in rows if row["event"] == "reply")
    assert outcomes["done"] > 10
    if name.endswith(":drop"):
        assert outcomes["dropped"] > 0, "some requests of the scenario are hopeless"
    assert simulated(name, seed=11).table.equals(log.table), "the same seed, the same log"


ON_LANES = [
    name
    for name in names()
    if not make(name).needs_accelerator and Capability.THROTTLE not in make(name).needs
]


def simulated_on_lanes(name, seed):
    device = toy_lanes(2)
    draw = random.Random(seed)
    tables = {}
    for at, model in enumerate("xyz"):
        narrow_s = [draw.uniform(1e-4, 1e-3) for _ in range(4 + 3 * at)]
        widths = {1: narrow_s, 2: [0.6 * each for each in narrow_s]}
        tables[model] = toy_lane_table(device, widths, dispatch_s=1e-5)
    requests, noise = requests_of(tables, seed)
    for request in requests:
        request.strict = request.model != "x"
    cores = [{"index": core.index, "name": core.name, "kind": core.kind} for core in device.cores]
    sink = MemoryLog({"device": {"cores": cores}})
    rule = OverlapLoss(0.3)
    engine = Engine(device, make(name), AnalyticEstimator(device, tables, rule), rule, sink)
    Simulation(engine, Listed(requests), device, tables, rule, lambda r: noise[r.id]).run()
    return sink.table()


@pytest.mark.parametrize("name", [name + suffix for name in ON_LANES for suffix in ("", ":drop")])
def test_it_serves_a_random_scenario_on_lanes_to_the_end(name):
    log = simulated_on_lanes(name, seed=11)
    assert check_conservation(log) == []
    rows = log.table.to_pylist()
    replies = Counter(row["request"] for row in rows if row["event"] == "reply")
    assert replies == Counter(range(40))
    outcomes = Counter(row["outcome"] for row in rows if row["event"] == "reply")
    assert outcomes["done"] > 5
    assert simulated_on_lanes(name, seed=11).table.equals(log.table), "the same seed, the same log"
