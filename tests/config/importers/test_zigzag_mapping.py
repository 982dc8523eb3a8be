"""ZigZag's accelerators whose array's loops stand in a mapping file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.config import Scenario, describe_hardware, load_hardware
from headway.core.errors import HeadwayError

LINKS = {"O": "O", "W": "I2", "I": "I1"}


def entry(name: str, **changes: Any) -> dict[str, Any]:
    unrolled = {"D1": ["K, 32"], "D2": ["C, 32"]}
    return {"name": name, "spatial_mapping": unrolled, "memory_operand_links": LINKS} | changes


@pytest.fixture
def files(tmp_path: Path, core_data):
    """Writes the accelerator without dataflows and a mapping file beside it; the name for both."""

    def written(entries: object, **accelerator: Any) -> str:
        data = core_data()
        del data["dataflows"]
        (tmp_path / "core.yaml").write_text(yaml.safe_dump(data | accelerator, sort_keys=False))
        (tmp_path / "map.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
        return f"{tmp_path / 'core.yaml'}#map.yaml"

    return written


def named(name: str, folder: Path) -> str:
    return name.replace("#map.yaml", f"#{folder / 'map.yaml'}")


def test_it_is_the_device_that_the_same_dataflows_make(files, core_data, tmp_path) -> None:
    name = named(
        files([entry("default"), entry("Conv"), entry("Pooling", spatial_mapping={"D1": ["G, 8"]})]), tmp_path
    )
    plain = tmp_path / "plain.yaml"
    plain.write_text(yaml.safe_dump(core_data(), sort_keys=False))
    assert load_hardware(name).cores == load_hardware(plain).cores


def test_in_a_scenario_both_files_are_beside_it(files, tmp_path) -> None:
    files([entry("default")])
    tenant = {"name": "a", "model": "resnet18", "sla": {"deadline": "9 ms"}}
    tenant["arrivals"] = {"process": "poisson", "rate": "1 /s"}
    scenario = tmp_path / "s.yaml"
    data = {"name": "s", "hardware": "core.yaml#map.yaml", "requests": 1, "tenants": [tenant]}
    scenario.write_text(yaml.safe_dump(data))
    assert Scenario.load(scenario).hardware.device().cores[0].columns == 32


def test_what_is_not_read_is_said(files, tmp_path) -> None:
    entries = [entry("default", temporal_ordering=[["OX", "*"]]), entry("Add")]
    said = describe_hardware(named(files(entries), tmp_path))
    assert "not read: temporal_ordering of default; not read: entry Add" in said.assumptions
    assert "with map.yaml" in said.source


def test_an_entry_for_one_layer_is_not_read(files, tmp_path) -> None:
    other = entry("layer_7", spatial_mapping={"D1": ["C, 32"], "D2": ["K, 32"]})
    name = named(files([other, entry("default"), entry("layer_8")]), tmp_path)
    assert load_hardware(name).cores[0].hierarchy.axes == ((("K", 32),), (("C", 32),))
    assert "not read: entry layer_7" in describe_hardware(name).assumptions


@pytest.mark.parametrize(
    ("entries", "accelerator", "message"),
    [
        ([], {}, "map.yaml: found .*accepted: a mapping file of ZigZag"),
        ([entry("Pooling")], {}, "map.yaml: no entry is for what multiplies"),
        ([{"name": "default"}], {}, "spatial_mapping: missing, but required"),
        (
            [entry("default"), entry("Gemm", spatial_mapping={"D1": ["K, 16"]})],
            {},
            r"map.yaml.*\[1\].spatial_mapping: Gemm unrolls other loops than an entry before it",
        ),
        (
            [entry("default", spatial_mapping={"D1": ["Q, 4"]})],
            {},
            "map.yaml.*spatial_mapping.D1: found 'Q, 4'",
        ),
        ([entry("default", spatial_mapping={"D3": ["K, 4"]})], {}, "spatial_mapping.D3: has no counterpart"),
        (
            [entry("default", memory_operand_links={"O": "O", "W": "I1", "I": "I2"})],
            {},
            "memory_operand_links: found",
        ),
        ([entry("default", speed=3)], {}, "speed: has no counterpart"),
        ([entry("default")], {"dataflows": {"D1": ["K, 32"]}}, "dataflows: found beside .*map.yaml"),
    ],
)
def test_mistakes(files, tmp_path, entries, accelerator, message: str) -> None:
    name = named(files(entries, **accelerator), tmp_path)
    with pytest.raises(HeadwayError, match=message):
        load_hardware(name)


def test_without_it_the_error_says_how_to_give_it(files, tmp_path) -> None:
    files([entry("default")])
    with pytest.raises(HeadwayError, match=r"dataflows: missing: .*ACCELERATOR.yaml#MAPPING.yaml"):
        load_hardware(tmp_path / "core.yaml")


def test_other_hardware_has_no_mapping(files, tmp_path) -> None:
    files([entry("default")])
    other = tmp_path / "own.yaml"
    other.write_text(yaml.safe_dump(describe_hardware("moca8").to_mapping()))
    with pytest.raises(HeadwayError, match="a mapping file belongs to an accelerator of ZigZag"):
        load_hardware(named(f"{other}#map.yaml", tmp_path))
