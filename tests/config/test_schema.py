"""The published JSON Schemas accept what loads, and refuse what they can see is wrong."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from headway.config import describe_hardware, preset_names
from headway.config.hardware import hardware_document
from headway.config.scenario import Scenario
from headway.config.schema import json_schema
from headway.config.yaml_file import read_yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = sorted(file for file in EXAMPLES.glob("*.yaml") if file.name != "serve.yaml")  # a server's
HARDWARE = jsonschema.Draft202012Validator(json_schema("hardware"))
SCENARIO = jsonschema.Draft202012Validator(json_schema("scenario"))
SUITE = jsonschema.Draft202012Validator(json_schema("suite"))
ALL = {"hardware": HARDWARE, "scenario": SCENARIO, "suite": SUITE}


def example() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(EXAMPLES / "three_tenants.yaml").data
    return data


@pytest.mark.parametrize("validator", ALL.values(), ids=ALL)
def test_schemas_are_schemas(validator: jsonschema.Draft202012Validator) -> None:
    validator.check_schema(validator.schema)
    json.dumps(validator.schema)


@pytest.mark.parametrize("name", preset_names())
def test_presets(name: str) -> None:
    HARDWARE.validate(hardware_document(name).data)
    HARDWARE.validate(describe_hardware(name).to_mapping())


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.name)
def test_examples(file: Path) -> None:
    SCENARIO.validate(read_yaml(file).data)
    SCENARIO.validate(Scenario.load(file).to_mapping())


@pytest.mark.parametrize(
    "hardware",
    [
        "moca8",
        "mine/hw.yml",
        {"preset": "moca8"},
        {"preset": "moca8", "dram": {"bandwidth": "1 GB/s"}, "link": {"energy": "1 pJ/bit"}},
        describe_hardware("moca8").to_mapping(),
    ],
)
def test_ways_to_give_hardware(hardware: object) -> None:
    SCENARIO.validate(example() | {"hardware": hardware})


@pytest.mark.parametrize(
    "change",
    [
        {"hardware": "moca9"},
        {"hardware": {"preset": "moca8", "dram": {"bw": "1 GB/s"}}},
        {"hardware": {"dram": {"bandwidth": "1 GB/s"}}},
        {"hardware": {"preset": "moca8", "dram": {"bandwidth": "1 GHz"}}},
        {"seed": -1},
        {"colour": "red"},
        {"warmup": 0.1},
        {"duration": "2"},
        {"contention": "unfair"},
        {"tenants": []},
        {"tenants": [example()["tenants"][0] | {"arrivals": {"process": "steady"}}]},
        {"tenants": [example()["tenants"][0] | {"class": "relaxed"}]},
        {"tenants": [example()["tenants"][0] | {"expires": 5}]},
        {"tenants": [example()["tenants"][0] | {"priority": {"draw": "dice"}}]},
        {"tenants": [example()["tenants"][0] | {"arrivals": {"process": "trace", "file": "a.csv"}}]},
        {"load": 0},
    ],
)
def test_what_a_scenario_may_not_say(change: dict[str, Any]) -> None:
    assert not SCENARIO.is_valid(example() | change)


@pytest.mark.parametrize(
    "change",
    [
        {"load": 0.9},
        {"tenants": [example()["tenants"][0] | {"priority": {"draw": "moca"}}]},
        {"tenants": [example()["tenants"][0] | {"arrivals": {"process": "after", "parent": "camera"}}]},
        {
            "streams": {"cap": 1.42, "step": "45 us"},
            "tenants": [example()["tenants"][0] | {"arrivals": {"process": "moca-streams", "share": 3}}],
        },
    ],
)
def test_what_a_scenario_may_say(change: dict[str, Any]) -> None:
    SCENARIO.validate(example() | change)


SUITES = sorted((resources.files("headway") / "workload" / "suites").iterdir(), key=lambda file: file.name)


@pytest.mark.parametrize("file", SUITES, ids=lambda file: file.name)
def test_shipped_suites(file: Path) -> None:
    data = read_yaml(file).data
    SUITE.validate(data)
    for change in ({"models": ["ligth"]}, {"loads": [0]}, {"colour": "red"}, {"base": {"table": "mine"}}):
        assert not SUITE.is_valid(data | change)
    SUITE.validate(data | {"models": [{"name": "mine", "tenants": ["resnet18", {"model": "a.onnx"}]}]})


def defaults(schema: dict[str, Any], definitions: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    objects = [schema, *definitions.values()]
    return [
        (item["default"], item)
        for each in objects
        for item in each.get("properties", {}).values()
        if "default" in item
    ]


@pytest.mark.parametrize("validator", [HARDWARE, SCENARIO], ids=["hardware", "scenario"])
def test_defaults_are_written_as_a_user_would(validator: jsonschema.Draft202012Validator) -> None:
    definitions = validator.schema["$defs"]
    found = defaults(validator.schema, definitions)
    assert "1 us" in [default for default, _ in found]
    for default, item in found:
        jsonschema.Draft202012Validator({**item, "$defs": definitions}).validate(default)
