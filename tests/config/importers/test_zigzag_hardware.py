"""ZigZag's accelerators and Stream's systems as hardware."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from headway.config import Scenario, describe_hardware, load_hardware
from headway.config.hardware import Hardware
from headway.config.importers.zigzag_core import read_core
from headway.config.yaml_file import Document
from headway.core.errors import HeadwayError


@pytest.fixture
def write(tmp_path: Path):
    def written(data: object, name: str = "core.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    return written


def test_an_accelerator_is_a_device_with_the_same_inside(write, core_data):
    device = load_hardware(write(core_data()))
    (core,) = device.cores

    assert core.hierarchy == read_core(Document("core", core_data())).hierarchy
    assert (core.rows, core.columns, core.clock_hz, core.mac_energy_pj) == (32, 32, 1e9, 0.04)
    assert device.dram_bandwidth_bytes_s == 8e9  # 64 bits a cycle
    assert device.dram_energy_pj_per_byte == (700 + 750) / 2 / 8  # for an access of 64 bits
    assert (device.dram_read_pj_per_byte, device.dram_write_pj_per_byte) == (700 / 8, 750 / 8)
    assert (device.dispatch_s, device.switch_s) == (0, 0)


def test_what_is_assumed_is_said(write, core_data):
    description = describe_hardware(write(core_data()))

    assert isinstance(description, Hardware)
    assert "1 GHz" in description.assumptions
    assert "core.yaml" in description.source


def test_written_out_in_headways_form_it_is_the_same_device(write, core_data, tmp_path):
    description = describe_hardware(write(core_data()))
    copy = tmp_path / "copy.yaml"
    copy.write_text(json.dumps(description.to_mapping()))

    assert load_hardware(copy) == description.device()


def test_arrays_of_four_dimensions_and_memories_of_some_of_them(write, core_data):
    data = core_data()
    dimensions = ["D1", "D2", "D3", "D4"]
    data["operational_array"] |= {"dimensions": dimensions, "sizes": [32, 2, 4, 4]}
    data["dataflows"] = {"D1": ["K, 32"], "D2": ["C, 2"], "D3": ["OX, 4"], "D4": ["OY, 4"]}
    data["memories"]["rf_128B"]["served_dimensions"] = ["D3", "D4"]
    for name in ("sram_2MB", "dram"):
        data["memories"][name]["served_dimensions"] = dimensions
    (core,) = load_hardware(write(data)).cores

    assert core.hierarchy is not None
    assert core.hierarchy.units == 1024
    assert core.hierarchy.memories[0].axes == (2, 3)
    assert core.hierarchy.memories[2].axes == (0, 1, 2, 3)


def test_loops_without_effect_are_no_axes(write, core_data):
    data = core_data()
    data["dataflows"] = {"D1": ["K, 32", "OX, 1"]}
    (core,) = load_hardware(write(data)).cores

    assert core.hierarchy is not None
    assert core.hierarchy.axes == ((("K", 32),),)


def test_a_loop_on_two_dimensions_of_which_a_memory_serves_one_is_refused(write, core_data):
    data = core_data()
    data["dataflows"] = {"D1": ["K, 32"], "D2": ["K, 8"]}
    with pytest.raises(HeadwayError, match="memory 'rf_2B': served_dimensions: loop K"):
        load_hardware(write(data))


def test_a_core_without_dram_belongs_into_a_system(write, core_data):
    data = core_data()
    del data["memories"]["dram"]
    data["memories"]["sram_2MB"] |= {"operands": ["I1", "I2", "O"]}
    ports = data["memories"]["sram_2MB"]["ports"]
    data["memories"]["sram_2MB"]["ports"] = [ports[0], ports[0], ports[1]]
    with pytest.raises(HeadwayError, match=r"core\.yaml:\d+: memories: the last is not a DRAM"):
        load_hardware(write(data))


def test_a_memory_of_the_same_name_twice_is_refused(write):
    path = write({})
    path.write_text("memories:\n  rf: {size: 8}\n  rf: {size: 8}\noperational_array: {}\n")
    with pytest.raises(HeadwayError, match=r"core\.yaml:3: memories\.rf: key given twice"):
        load_hardware(path)


def test_a_field_of_a_memory_given_twice_counts_as_written_last_and_is_said(write, core_data):
    path = write(core_data())
    text = path.read_text().replace("    latency: 1\n", "    size: 8\n    latency: 1\n", 1)
    path.write_text(text)
    (core,) = load_hardware(path).cores
    assert core.hierarchy is not None
    assert core.hierarchy.memories[0].bits == 8
    said = describe_hardware(path).assumptions
    assert "memories.rf_128B.size: key given twice, first on line" in said


def test_a_systolic_array_drains_along_its_dimensions(write, core_data):
    data = core_data()
    data["operational_array"] |= {"systolic_dimensions": ["D2"]}
    (core,) = load_hardware(write(data)).cores
    assert core.hierarchy is not None
    assert core.hierarchy.systolic == (1,)
    data["operational_array"]["systolic_dimensions"] = ["D9"]
    with pytest.raises(HeadwayError, match=r"systolic_dimensions: found 'D9'; accepted: D1, D2"):
        load_hardware(write(data))


def test_a_system_of_cores_with_links(write, core_data):
    core, off_chip = core_data(), core_data()
    dram = core["memories"].pop("dram")
    sram = core["memories"]["sram_2MB"]
    sram |= {"operands": ["I1", "I2", "O"], "ports": [sram["ports"][0], *sram["ports"]]}
    off_chip |= {"memories": {"dram": dram}}
    write(core, "cores/tpu.yaml")
    write(off_chip, "cores/offchip.yaml")
    path = write(
        {
            "name": "pair of two",
            "cores": {0: "tpu.yaml", 1: "tpu.yaml", 2: "offchip.yaml"},
            "offchip_core_id": 2,
            "unit_energy_cost": 0.25,
            "core_connectivity": [{"type": "link", "cores": [0, 1], "bandwidth": 32}],
        },
        "system.yaml",
    )
    device = load_hardware(path)

    assert device.name == "pair-of-two"
    assert [core.name for core in device.cores] == ["tpu_like-0", "tpu_like-1"]
    assert device.kind_counts == (2,)
    assert (device.link.bandwidth_bytes_s, device.link.energy_pj_per_byte) == (4e9, 2.0)
    assert device.dram_bandwidth_bytes_s == 8e9

    tenant = {
        "name": "only",
        "model": "resnet18",
        "sla": {"isolated": 4},
        "arrivals": {"process": "poisson", "rate": "50 /s"},
    }
    scenario = Scenario.from_mapping(
        {"name": "demo", "hardware": "system.yaml", "requests": 10, "tenants": [tenant]}, base_dir=path.parent
    )
    assert scenario.device() == device


def test_cores_of_different_widths_are_refused(write, core_data):
    path = write(
        {
            "name": "pair",
            "cores": {0: core_data(), 1: core_data() | {"operand_precision": {"input": "int16"}}},
            "offchip_core": core_data(),
            "core_connectivity": ["0, 1"],
            "bandwidth": 32,
        }
    )
    with pytest.raises(HeadwayError, match="operands of 8, 16 bits"):
        load_hardware(path)
