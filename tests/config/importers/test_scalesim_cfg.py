"""SCALE-Sim's configurations as hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.config import describe_hardware, load_hardware
from headway.config.hardware import Hardware
from headway.core.device import Dataflow
from headway.core.errors import HeadwayError

TEXT = """\
[general]
run_name = demo 16x8

[architecture_presets]
ArrayHeight:    16
ArrayWidth:     8
IfmapSramSzkB:   64
FilterSramSzkB:  32
OfmapSramSzkB:   16
IfmapOffset:    0
Bandwidth : 10
Dataflow : ws
MemoryBanks:   1

[sparsity]
SparsitySupport : false

[run_presets]
InterfaceBandwidth: USER
"""


@pytest.fixture
def write(tmp_path: Path):
    def written(old: str = "", new: str = "") -> Path:
        assert old in TEXT
        path = tmp_path / "demo.cfg"
        path.write_text(TEXT.replace(old, new) if old else TEXT)
        return path

    return written


def test_one_core_with_array_dataflow_and_all_the_sram(write):
    device = load_hardware(write())
    (core,) = device.cores

    assert device.name == "demo-16x8"
    assert (core.rows, core.columns, core.dataflow) == (16, 8, Dataflow.WEIGHT_STATIONARY)
    assert core.sram_bytes == (64 + 32 + 16) * 1024
    assert core.clock_hz == 1e9
    assert device.dram_bandwidth_bytes_s == 10e9  # ten words of a byte in each cycle
    assert device.operand_bytes == 1


def test_what_is_assumed_and_what_is_not_read_is_said(write):
    description = describe_hardware(write())

    assert isinstance(description, Hardware)
    assert "1 GHz" in description.assumptions
    assert "not read: IfmapOffset, MemoryBanks" in description.assumptions
    assert "demo.cfg" in description.source


def test_a_calculated_bandwidth_is_one_that_never_holds_up_the_array(write):
    device = load_hardware(write("InterfaceBandwidth: USER", "InterfaceBandwidth: CALC"))
    assert device.dram_bandwidth_bytes_s == (16 + 2 * 8) * 1e9


def test_bandwidth_may_be_a_list_of_the_same_and_case_does_not_matter(write):
    device = load_hardware(write("Bandwidth : 10", "bandwidth : 10,10,10"))
    assert device.dram_bandwidth_bytes_s == 10e9
    with pytest.raises(HeadwayError, match=r"Bandwidth: found '10,12'"):
        load_hardware(write("Bandwidth : 10", "Bandwidth : 10,12"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Dataflow : ws", "Dataflow : rs", "[architecture_presets] Dataflow: found 'rs'"),
        ("ArrayHeight:    16\n", "", "[architecture_presets] ArrayHeight: missing"),
        ("ArrayHeight:    16", "ArrayHeight: many", "ArrayHeight: found 'many'"),
        ("ArrayHeight:    16", "ArrayHeight: 0", "ArrayHeight: found '0'"),
        ("SparsitySupport : false", "SparsitySupport : true", "[sparsity] SparsitySupport: found 'true'"),
        ("MemoryBanks:   1", "Voltage: 1", "[architecture_presets] Voltage: has no counterpart"),
        ("InterfaceBandwidth: USER", "InterfaceBandwidth: FAST", "InterfaceBandwidth: found 'FAST'"),
        ("[architecture_presets]", "[presets]", "no section [architecture_presets]"),
        ("[general]\n", "", "not a configuration"),
        ("ArrayHeight:    16", "ArrayHeight: 100000", "cores[0].array.rows"),
    ],
)
def test_errors_name_section_and_key(write, old, new, said):
    with pytest.raises(HeadwayError) as caught:
        load_hardware(write(old, new))
    assert said in str(caught.value)
    assert "demo.cfg" in str(caught.value)
