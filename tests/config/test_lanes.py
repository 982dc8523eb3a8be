"""Descriptions of devices with lanes."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from headway.config import LaneHardware, Scenario, describe_hardware, load_hardware
from headway.config import lanes as lanes_module
from headway.config.lanes import Lanes
from headway.config.schema import json_schema
from headway.core.errors import HeadwayError

HARDWARE = jsonschema.Draft202012Validator(json_schema("hardware"))
SCENARIO = jsonschema.Draft202012Validator(json_schema("scenario"))


def mapping(**changes: Any) -> dict[str, Any]:
    return {"name": "cpu", "lanes": {"count": 2, "threads_per_lane": 3}} | changes


def scenario(hardware: object) -> dict[str, Any]:
    tenant = {
        "name": "camera",
        "model": "kws_res8",
        "sla": {"isolated": 4.0},
        "arrivals": {"process": "poisson", "rate": "5 /s"},
    }
    return {"name": "lanes", "hardware": hardware, "requests": 5, "tenants": [tenant]}


def test_lanes_are_alike_and_have_threads() -> None:
    device = load_hardware(mapping())
    assert device.has_lanes
    assert [(lane.name, lane.index, lane.threads) for lane in device.cores] == [
        ("lane-0", 0, 3),
        ("lane-1", 1, 3),
    ]
    assert (device.kinds, device.kind_counts) == (("lane",), (2,))


def test_an_accelerator_has_none() -> None:
    assert not load_hardware("moca8").has_lanes
    assert all(core.threads == 0 for core in load_hardware("moca8").cores)


@pytest.mark.parametrize(
    ("count", "each", "threads", "expected"),
    [
        ("all", 1, 8, (8, 1)),
        ("all", 3, 8, (2, 3)),
        ("all", 4, 2, (1, 4)),
        (1, "all", 8, (1, 8)),
        (3, "all", 8, (3, 2)),
        (4, "all", 2, (4, 1)),
        (4, 2, 1, (4, 2)),
    ],
)
def test_all_takes_what_the_other_number_leaves(
    count: Any, each: Any, threads: int, expected: tuple[int, int]
) -> None:
    assert Lanes(count=count, threads_per_lane=each).numbers(threads) == expected


def test_presets_use_the_threads_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "machine_threads", lambda: 6)
    assert [lane.threads for lane in load_hardware("cpu-lanes").cores] == [1] * 6
    assert [lane.threads for lane in load_hardware("cpu-wide").cores] == [6]


def test_the_overlap_loss_is_measured_or_given() -> None:
    measured, given = describe_hardware(mapping()), describe_hardware(mapping(overlap=0.35))
    assert isinstance(measured, LaneHardware)
    assert isinstance(given, LaneHardware)
    assert (measured.overlap_w, given.overlap_w) == (None, 0.35)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lanes": {"count": 0}}, "lanes.count: found 0; accepted: greater than or equal to 1"),
        ({"lanes": {"count": "most"}}, "lanes.count: found 'most'; accepted: "),
        ({"lanes": {"threads": 2}}, "lanes.threads: unknown key (did you mean 'threads_per_lane'?)"),
        (
            {"lanes": {"count": "all", "threads_per_lane": "all"}},
            "lanes.threads_per_lane: found 'all' for both; accepted: a number for one of them",
        ),
        ({"isolation": "thread"}, "isolation: found 'thread'; accepted: 'none' or 'process'"),
        ({"overlap": -0.1}, "overlap: found -0.1; accepted: greater than or equal to 0"),
        ({"overlap": float("nan")}, "overlap: found nan; accepted: "),
        ({"dram": {"bandwidth": "1 GB/s"}}, "dram: unknown key; accepted: name, source, assumptions, lanes"),
    ],
)
def test_a_mistake_is_told_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwayError, match=f"^{re.escape(f'hardware: {message}')}"):
        load_hardware(mapping(**change))
    assert not HARDWARE.is_valid(mapping(**change)) or change.get("overlap") != -0.1


@pytest.mark.parametrize(
    "hardware",
    [
        "cpu-lanes",
        mapping(overlap=0.35, isolation="process"),
        {"preset": "cpu-lanes", "lanes": {"count": 2}, "overlap": 0.2},
    ],
)
def test_a_scenario_on_lanes_loads_and_loads_again(hardware: Any) -> None:
    SCENARIO.validate(scenario(hardware))
    loaded = Scenario.from_mapping(scenario(hardware))
    assert isinstance(loaded.hardware, LaneHardware)
    assert loaded.device().has_lanes
    written = loaded.to_mapping()
    SCENARIO.validate(written)
    HARDWARE.validate(written["hardware"])
    assert Scenario.from_mapping(written) == loaded


def test_changes_reach_the_lanes() -> None:
    loaded = Scenario.from_mapping(scenario("cpu-lanes"))
    changed = loaded.with_overrides({"hardware.lanes.count": 3, "hardware.overlap": 0.5})
    assert len(changed.device().cores) == 3
    assert changed.with_overrides({"hardware": "moca8"}).device().name == "moca8"


def test_a_scenarios_mistake_in_lanes_names_the_hardware() -> None:
    with pytest.raises(HeadwayError, match=r"^scenario: hardware\.lanes\.count: found 'x'; accepted: "):
        Scenario.from_mapping(scenario(mapping(lanes={"count": "x"})))
