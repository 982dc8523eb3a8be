"""The bound beside the results of a scenario."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headway import compare, wiring
from headway.config import Scenario
from headway.record import table
from headway.record.metrics import summarise
from headway.record.outputs import write_outputs


def scenario(**changes: Any) -> Scenario:
    arrivals = changes.pop("arrivals", {"process": "poisson", "rate": "100000 /s"})
    return Scenario.from_mapping(
        {
            "name": "small",
            "seed": 5,
            "hardware": "stream-hetero4",
            "duration": "12 ms",
            "warmup": "2 ms",
            "tenants": [
                {"name": "a", "model": "kws_res8", "sla": {"isolated": 3}, "arrivals": arrivals},
                {"name": "b", "model": "kws_res8", "sla": {"isolated": 8}, "arrivals": arrivals},
            ],
            **changes,
        }
    )


def test_one_bound_for_every_policy_where_arrivals_do_not_depend_on_replies() -> None:
    prepared = wiring.prepare(scenario())
    bounding = wiring.Bounding(prepared)
    logs = wiring.compare(prepared, ["fcfs", "lucas"])
    bounds = [bounding.of(log) for log in logs.values()]
    assert bounds[0] is bounds[1]
    counted = {summarise(log).total.requests for log in logs.values()}
    assert counted == {bounds[0].requests}
    for log in logs.values():
        total = summarise(log).total
        assert total.completed - total.late <= bounds[0].on_time
    assert bounds[0].on_time < bounds[0].requests, bounds[0]


def test_a_policy_with_fixed_bands_has_a_bound_that_regards_them() -> None:
    prepared = wiring.prepare(scenario())
    bounding = wiring.Bounding(prepared)
    logs = wiring.compare(prepared, ["lucas", "lucas:fixed-band", "lucas:fixed-band:drop"])
    plain, banded, dropping = [bounding.of(log) for log in logs.values()]
    assert banded is dropping
    assert banded is not plain
    assert banded.on_time >= plain.on_time  # all that others can do, and more
    total = summarise(logs["lucas:fixed-band"]).total
    assert total.completed - total.late <= banded.on_time


def test_the_bound_takes_the_factors_of_the_run() -> None:
    quiet = wiring.prepare(scenario(noise={"solo_std": 0.0}))
    noisy = wiring.prepare(scenario(noise={"solo_std": 1.5}))
    bounds = [wiring.Bounding(prepared).of(wiring.simulate(prepared, "edf")) for prepared in (quiet, noisy)]
    assert bounds[0].requests == bounds[1].requests
    assert bounds[1].hopeless > bounds[0].hopeless == 0


def test_closed_loops_have_a_bound_for_each_log() -> None:
    prepared = wiring.prepare(scenario(arrivals={"process": "closed", "clients": 4, "think_time": "0 s"}))
    bounding = wiring.Bounding(prepared)
    for log in wiring.compare(prepared, ["fcfs", "lucas"]).values():
        summary = summarise(log)
        assert bounding.of(log).requests == summary.total.requests
        assert bounding.of(log).on_time >= summary.total.completed - summary.total.late


def test_tables_report_and_results_show_bound_and_gap(tmp_path: Path) -> None:
    prepared = wiring.prepare(scenario())
    bounding = wiring.Bounding(prepared)
    logs = wiring.compare(prepared, ["fcfs", "lucas"])
    summaries = {name: replace(summarise(log), sla_bound=bounding.share(log)) for name, log in logs.items()}
    written = write_outputs(tmp_path, logs, summaries)
    text = StringIO()
    console = Console(file=text, width=120)
    console.print(table.comparison(summaries))
    console.print(table.tenants(summaries["lucas"]))
    assert "clairvoyant bound" in text.getvalue()
    assert "gap to the bound" in text.getvalue()
    assert "(clairvoyant bound); gap" in text.getvalue()
    assert "gap to the bound" in written.report.read_text(encoding="utf-8")
    for policy in json.loads(written.results.read_text())["policies"].values():
        assert policy["sla_gap"] == pytest.approx(policy["sla_bound"] - policy["total"]["sla_satisfaction"])
        assert policy["sla_gap"] >= 0


def test_without_a_bound_nothing_is_said_of_it(tmp_path: Path) -> None:
    prepared = wiring.prepare(scenario())
    logs = wiring.compare(prepared, ["fcfs", "lucas"])
    written = write_outputs(tmp_path, logs)
    text = StringIO()
    Console(file=text, width=120).print(
        table.comparison({name: summarise(log) for name, log in logs.items()})
    )
    assert "bound" not in text.getvalue()
    assert "gap to the bound" not in written.report.read_text(encoding="utf-8")


def test_scripts_have_it_too() -> None:
    result = compare(scenario(), ["fcfs", "lucas"])
    assert result["lucas"].summary.sla_bound == result["fcfs"].summary.sla_bound
    assert "clairvoyant bound" in repr(result)
