"""Offered load: a scenario's rates are brought to it, and what the machine then does agrees with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import headway
from headway import wiring
from headway.config import load_suite, suite_names
from headway.cost.capacity import demand

POISSON = {"process": "poisson", "rate": "1 /s"}


def scenario(*tenants: dict[str, Any], **changes: Any) -> headway.Scenario:
    named = [
        {"name": f"t{number}", "model": "kws_res8", "sla": {"isolated": 20.0}, "arrivals": POISSON} | tenant
        for number, tenant in enumerate(tenants)
    ]
    base = {"name": "s", "hardware": "moca8", "requests": 3000, "warmup": "0 s", "noise": {"solo_std": 0.0}}
    return headway.Scenario.from_mapping(base | {"tenants": named} | changes)


MIX: list[dict[str, Any]] = [
    {},
    {"arrivals": {"process": "periodic", "rate": "2 fps", "jitter": "100 ms"}},
    {"arrivals": {"process": "mmpp", "rate": "1 /s", "mean_on": "2 s", "mean_off": "8 s"}},
    {"arrivals": {"process": "after", "parent": "t1", "probability": 0.5}},
    {"arrivals": {"process": "moca-streams"}},
]


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_arrivals_ask_for_the_load(load: float) -> None:
    """What arrived, priced by hand over the time it took, is the load within the noise of the arrivals."""
    prepared = wiring.prepare(scenario(*MIX[:4], load=load))
    assert prepared.demand is not None
    assert prepared.demand.load == pytest.approx(load)
    log = wiring.simulate(prepared, "fcfs")
    arrived = log.where("arrive")
    codes, models = log.codes("model")
    counts = Counter(models[code] for code in codes[arrived])
    last_s = float(log.floats("time_s")[arrived].max())
    asked = demand([(prepared.tables[model], n / last_s) for model, n in counts.items()], prepared.device)
    assert asked.load == pytest.approx(load, rel=0.1)


def test_core_time_agrees_with_the_load() -> None:
    # With bandwidth in plenty the busy share of the cores is the load, but for overheads.
    hardware = {"preset": "moca8", "dram": {"bandwidth": "1 TB/s"}, "dispatch_overhead": "0 s"}
    summary = headway.simulate(scenario({}, {}, hardware=hardware, load=0.6), policy="fcfs").summary
    assert summary.core_utilisation == pytest.approx(0.6, rel=0.1)


def test_all_arrivals_are_scaled_alike() -> None:
    def arrivals(load: float) -> list[tuple[str, float]]:
        streams = {"cap": 4000.0, "step": "0 s"}
        source = wiring.prepare(scenario(*MIX, load=load, streams=streams)).source()
        return [(each.request.tenant, each.request.arrival_s) for each in source.first()]

    low, high = arrivals(0.25), arrivals(0.5)
    assert len({tenant for tenant, _ in low}) == 4
    # Times of different processes that nearly coincide may round to another order.
    for tenant in ("t0", "t1", "t2", "t4"):
        slow = [time_s for name, time_s in low if name == tenant][:300]
        fast = [time_s for name, time_s in high if name == tenant][:300]
        assert [2 * time_s for time_s in fast] == pytest.approx(slow, rel=1e-9, abs=1e-12)


def test_without_a_load_rates_stand() -> None:
    prepared = wiring.prepare(scenario({}, {"arrivals": {"process": "poisson", "rate": "3 /s"}}))
    assert prepared.demand is not None
    table = prepared.tables["kws_res8"]
    assert prepared.demand == demand([(table, 1.0), (table, 3.0)], prepared.device)
    closed = {"arrivals": {"process": "closed", "clients": 1, "think_time": "0 s"}}
    assert wiring.prepare(scenario(closed)).demand is None


def test_the_log_says_what_was_offered() -> None:
    result = headway.simulate(scenario({}, load=0.5, requests=50), policy="fcfs")
    offered = result.log.metadata["demand"]
    assert max(offered["cores"], offered["bandwidth"]) == pytest.approx(0.5)
    assert result.log.metadata["scenario"]["load"] == 0.5


def test_too_many_requests_at_a_load_are_refused() -> None:
    with pytest.raises(headway.HeadwayError, match=r"duration: at load 0\.5 over 10000000 requests"):
        wiring.prepare(scenario({}, load=0.5, requests=None, duration="1000 h"))


def test_a_trace_that_cannot_be_read_is_told_with_the_tenant(tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("timestamp_ms,input_length,output_length\nsoon,1,1\n")
    data = scenario({"arrivals": {"process": "trace", "file": "t.csv", "format": "mooncake"}}).to_mapping()
    with pytest.raises(headway.HeadwayError, match=r"scenario: tenants\[0\]\.arrivals: .*t\.csv:2: column"):
        wiring.prepare(headway.Scenario.from_mapping(data, tmp_path))


def test_rows_that_no_tenant_takes_are_told(tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("timestamp_ms,input_length,output_length\n0,1,1\n500,9,1\n900,2,1\n")
    process = {"process": "trace", "file": "t.csv", "format": "mooncake", "rows": {"input": {"below": 5}}}
    data = scenario({"arrivals": process}).to_mapping()
    prepared = wiring.prepare(headway.Scenario.from_mapping(data, tmp_path))
    assert prepared.expected_requests == 2
    (warning,) = prepared.warnings
    assert "1 of 3 requests are no tenant's" in warning


def test_the_same_scenario_gives_the_same_log() -> None:
    drawn = {"priority": {"draw": "moca"}}
    tenants = [{**tenant, **drawn} for tenant in MIX]
    scenarios = [scenario(*tenants, load=0.9, requests=400, noise={"solo_std": 0.2}) for _ in range(2)]
    first, second = (headway.simulate(each, policy="lucas").log.table for each in scenarios)
    assert first.equals(second)


@pytest.mark.parametrize("name", suite_names())
def test_policies_of_shipped_suites_exist(name: str) -> None:
    wiring.require_policies(load_suite(name).policies)


@pytest.mark.slow
@pytest.mark.parametrize("name", suite_names())
def test_a_cell_of_each_shipped_suite_runs(name: str) -> None:
    suite = load_suite(name)
    cell = min(suite.cells(), key=lambda cell: len(cell.document["tenants"]))
    short = {} if suite.requests is None else {"requests": 60}
    prepared = wiring.prepare(suite.scenario(cell, suite.seeds[0]).with_overrides(short))
    assert prepared.demand is not None
    if cell.coordinates["load"] is not None:
        assert prepared.demand.load == pytest.approx(cell.coordinates["load"])
    log = wiring.simulate(prepared, "edf")
    assert len(log.where("arrive")) == len(log.where("reply")) == prepared.expected_requests
