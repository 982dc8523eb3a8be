"""What is read of a ZigZag core: the array's loops, memories and ports."""

from __future__ import annotations

from typing import Any

import pytest

from headway.config.importers.zigzag_core import read_core
from headway.config.yaml_file import Document
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Move


def _read(data: dict[str, Any]):
    return read_core(Document("core.yaml", data))


def test_axes_unroll_what_the_dataflow_says(core_data):
    core = _read(core_data())

    assert core.hierarchy.axes == ((("K", 32),), (("C", 32),))
    assert core.hierarchy.units == core.macs == 1024
    assert (core.mac_pj, core.operand_bits, core.partial_bits) == (0.04, 8, 16)


def test_several_loops_may_share_a_dimension(core_data):
    data = core_data()
    data["dataflows"] = {"D1": ["K, 8", "OX, 4"], "D2": ["C, 16"]}
    core = _read(data)

    assert core.hierarchy.axes == ((("K", 8), ("OX", 4)), (("C", 16),))
    assert "unrolls 512 of 1024 units" in " ".join(core.notes)


def test_memories_come_over_with_their_operands_ports_and_energies(core_data):
    core = _read(core_data())
    weights, sums, sram = core.hierarchy.memories

    assert (weights.bits, weights.operands, weights.axes) == (1024, ("W",), ())
    assert (sums.operands, sums.axes) == (("O",), (1,))
    assert (sram.operands, sram.axes) == (("I", "O"), (0, 1))
    assert (sram.read_pj, sram.write_pj) == (416.16, 378.4)
    assert sram.port_of("O", Move.STORE) is sram.port_of("I", Move.FILL)
    assert (sram.port_of("I", Move.FEED).bits, sram.port_of("I", Move.FEED).grain_bits) == (2048, 64)
    assert sums.port_of("O", Move.STORE) is not sums.port_of("O", Move.FILL)


def test_what_has_no_effect_here_or_is_chosen_by_zigzag_is_said(core_data):
    data = core_data()
    data["memories"]["sram_2MB"]["force_double_buffering"] = True
    data["dataflows"] = {"D1": ["K, 32"]}
    said = " ".join(_read(data).notes)
    assert "force_double_buffering is not read" in said
    assert "D2: no loop is given" in said


def test_what_passes_two_ports_passes_the_last(core_data):
    data = core_data()
    port = {"type": "read_write", "bandwidth_min": 64}
    every = [f"{operand}, {move}" for operand in ("I1", "I2", "O") for move in ("fh", "tl", "fl", "th")]
    data["memories"]["dram"]["ports"] = [
        port | {"name": "rw_port_1", "bandwidth_max": 64, "allocation": every},
        port | {"name": "rw_port_2", "bandwidth_max": 128, "allocation": ["O, fl", "O, th"]},
    ]
    core = _read(data)
    assert core.dram is not None
    assert [core.dram.port_of("O", move).bits for move in (Move.FEED, Move.STORE)] == [64, 128]
    assert "dram: O,fl; O,th on two ports, of which the last counts" in core.notes


def test_the_dram_is_told_from_what_is_on_the_chip(core_data):
    core = _read(core_data())

    assert core.dram is not None
    assert (core.dram.name, len(core.dram.ports), core.dram.ports[0].bits) == ("dram", 1, 64)
    assert core.hierarchy.levels == {"O": (1, 2), "W": (0,), "I": (2,)}


def test_newer_files_give_each_port_its_bandwidth(core_data):
    older, data = _read(core_data()), core_data()
    sram = data["memories"]["sram_2MB"]
    for field in ("r_bw", "w_bw", "r_port", "w_port", "rw_port", "min_r_granularity", "min_w_granularity"):
        del sram[field]
    sram["ports"] = [
        {
            "name": name,
            "type": kind,
            "bandwidth_min": 64,
            "bandwidth_max": 2048,
            "allocation": allocation,
        }
        for name, kind, allocation in (
            ("r_port_1", "read", ["I1, tl", "O, tl", "O, th"]),
            ("w_port_1", "write", ["I1, fh", "O, fh", "O, fl"]),
        )
    ]
    newer = _read(data)

    for move in (Move.FEED, Move.FILL):
        found, expected = (core.hierarchy.memories[2].port_of("I", move) for core in (newer, older))
        assert (found.bits, found.grain_bits, set(found.serves)) == (
            expected.bits,
            expected.grain_bits,
            set(expected.serves),
        )


def test_older_files_call_the_array_multipliers(core_data):
    data = core_data()
    array = data.pop("operational_array")
    data["multipliers"] = {
        "input_precision": [8, 8],
        "multiplier_energy": array["unit_energy"],
        "multiplier_area": 1,
        "dimensions": array["dimensions"],
        "sizes": array["sizes"],
    }
    assert _read(data) == _read(core_data())


def _changed(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *places, last = path.split("/")
    at = data
    for place in places:
        at = at[place]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("dataflows", None, "dataflows: missing: the file does not say which loops"),
        ("dataflows/D1", ["K, 64"], "dataflows.D1: unrolls 64 times; accepted: at most 32"),
        ("dataflows/D1", ["Q, 4"], "dataflows.D1: found 'Q, 4'"),
        ("dataflows/D9", ["K, 4"], "dataflows.D9: has no counterpart"),
        (
            "operational_array/is_imc",
            True,
            "operational_array.is_imc: computing in memory has no counterpart",
        ),
        ("operational_array/sizes", [32], "operational_array.sizes: found [32]"),
        ("operational_array/sizes", [32, 0], "operational_array.sizes: found 0"),
        ("operational_array/input_precision", [8, 4], "operational_array.input_precision: found [8, 4]"),
        ("operational_array/unit_energy", None, "operational_array.unit_energy: missing"),
        ("memories/sram_2MB/auto_cost_extraction", True, "auto_cost_extraction: costs from CACTI"),
        ("memories/sram_2MB/size", "2 MB", "memories.sram_2MB.size: found '2 MB'"),
        ("memories/sram_2MB/operands", ["I3"], "memories.sram_2MB.operands: found 'I3'"),
        ("memories/sram_2MB/served_dimensions", ["D3"], "served_dimensions: found 'D3'"),
        ("memories/sram_2MB/ports", [{}], "memories.sram_2MB.ports: found 1 entries; accepted: 2"),
        ("memories/rf_128B/ports", [{"fh": "w_port_1"}], "I2: missing the port of tl"),
        ("memories/rf_128B/ports", [{"tl": "port"}], "memories.rf_128B.ports[0].tl: found 'port'"),
        ("memories/rf_128B/voltage", 1, "memories.rf_128B.voltage: has no counterpart"),
        ("memories/rf_2B", None, "none on the chip serves"),
        ("type", "aie2.compute", "type: found 'aie2.compute'"),
        ("clock", 1, "clock: has no counterpart"),
    ],
)
def test_errors_name_file_and_field(core_data, path, value, said):
    data = _changed(core_data(), path, value)
    if path == "memories/rf_2B":
        data["memories"]["sram_2MB"] |= {"operands": ["I1"], "ports": [{"fh": "w_port_1", "tl": "r_port_1"}]}
    with pytest.raises(HeadwayError) as caught:
        _read(data)
    assert said in str(caught.value)
    assert str(caught.value).startswith("core.yaml")
