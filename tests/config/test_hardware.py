"""Hardware descriptions: the device they stand for, and each mistake with its file, line and field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headway.config import describe_hardware, load_hardware, preset_names
from headway.core.device import Dataflow, Link
from headway.core.errors import HeadwayError

TEXT = """\
name: two-sorts
operand_bits: 16
cores:
  - name: big
    count: 2
    array: {rows: 32, columns: 64}
    dataflow: ws
    clock: 700 MHz
    sram: 2 MiB
  - name: small
    array: {rows: 16, columns: 16}
    dataflow: os
    clock: 1 GHz
    sram: 384 KiB
    vector_lanes: 8
    double_buffered: false
    energy: {mac: 0.5 pJ, sram: 2 pJ/B}
link: {bandwidth: 4 GB/s, energy: 1 pJ/bit}
dram:
  bandwidth: 16 GB/s
  energy: 12.5 pJ/bit
dispatch_overhead: 2 us
switch_overhead: 0 us
"""


def mapping(**changes: Any) -> dict[str, Any]:
    """A description with two cores of one sort."""
    core = {
        "name": "core",
        "count": 2,
        "array": {"rows": 8, "columns": 4},
        "dataflow": "os",
        "clock": "1 GHz",
        "sram": "1 MiB",
    }
    base = {
        "name": "small",
        "cores": [core],
        "link": {"bandwidth": "1 GB/s"},
        "dram": {"bandwidth": "8 GB/s"},
    }
    return base | changes


def core(**changes: Any) -> dict[str, Any]:
    return mapping()["cores"][0] | {"count": None} | changes


def test_device(tmp_path: Path) -> None:
    file = tmp_path / "hw.yaml"
    file.write_text(TEXT)
    device = load_hardware(file)

    assert device.name == "two-sorts"
    assert [core.name for core in device.cores] == ["big-0", "big-1", "small"]
    assert [core.index for core in device.cores] == [0, 1, 2]
    assert device.kinds == ("big", "small")
    big, small = device.exemplars
    assert (big.rows, big.columns, big.dataflow) == (32, 64, Dataflow.WEIGHT_STATIONARY)
    assert (big.clock_hz, big.sram_bytes, big.vector_lanes, big.double_buffered) == (
        700e6,
        2 * 2**20,
        64,
        True,
    )
    assert (big.mac_energy_pj, big.sram_energy_pj_per_byte) == (0.04, 26 / 16)  # DeFiNES, the defaults
    assert (small.dataflow, small.vector_lanes, small.double_buffered) == (
        Dataflow.OUTPUT_STATIONARY,
        8,
        False,
    )
    assert (small.mac_energy_pj, small.sram_energy_pj_per_byte) == (0.5, 2.0)
    assert device.link == Link(4e9, 8.0)
    assert (device.dram_bandwidth_bytes_s, device.dram_energy_pj_per_byte) == (16e9, 100.0)
    assert (device.operand_bytes, device.dispatch_s, device.switch_s) == (2.0, 2e-6, 0.0)


def test_default_overheads_and_energies() -> None:
    device = load_hardware(mapping())
    assert (device.dispatch_s, device.switch_s) == (1e-6, 5e-8)
    assert device.operand_bytes == 1.0
    assert device.dram_energy_pj_per_byte == 7.5 * 8
    assert device.link.energy_pj_per_byte == 0.7 * 8


def test_equal_cores_share_a_kind_whatever_their_names() -> None:
    cores = [
        core(name="a"),
        core(name="b", vector_lanes=4),
        core(name="c", sram="1024 KiB"),
        core(name="d", clock="2 GHz"),
    ]
    device = load_hardware(mapping(cores=cores))
    assert [core.kind for core in device.cores] == ["a", "a", "a", "d"]


@pytest.mark.parametrize(
    "change",
    [
        {"array": {"rows": 4, "columns": 8}},
        {"dataflow": "ws"},
        {"clock": "2 GHz"},
        {"sram": "2 MiB"},
        {"vector_lanes": 5},
        {"double_buffered": False},
        {"energy": {"mac": "1 pJ"}},
        {"energy": {"sram": "1 pJ/B"}},
    ],
)
def test_any_difference_makes_another_kind(change: dict[str, Any]) -> None:
    device = load_hardware(mapping(cores=[core(name="a"), core(name="b", **change)]))
    assert device.kinds == ("a", "b")


def test_one_core_needs_no_link() -> None:
    description = mapping(cores=[core()])
    del description["link"]
    assert load_hardware(description).link.bandwidth_bytes_s == 8e9


ACCELERATORS = [name for name in preset_names() if not load_hardware(name).has_lanes]


@pytest.mark.parametrize("name", ACCELERATORS)
def test_preset(name: str) -> None:
    description = describe_hardware(name)
    device = load_hardware(name)
    assert device.name == name
    assert re.search(r"20\d\d", description.source), "a source names a publication"
    assert "assumed" in description.assumptions
    assert device.source == description.source
    assert all(core.sram_bytes >= 64 * 1024 for core in device.cores)


def test_presets_agree_with_their_sources() -> None:
    def units(name: str) -> list[int]:
        return [core.rows * core.columns for core in load_hardware(name).cores]

    assert units("xr-quad4k") == [1024] * 4
    assert units("xr-dual4k") == [2048] * 2
    assert units("xr-biglittle") == [3072, 1024]
    assert units("moca8") == [256] * 8
    assert units("magma-S4") == [8192] * 8
    assert sum(units("herald-mobile")) == 4096
    assert sum(units("herald-cloud")) == 16384
    assert units("magma-S2") == [2048] * 4
    assert sum(units("herald-edge")) == 1024
    assert load_hardware("magma-S2").kind_counts == (3, 1)
    assert load_hardware("magma-S4").kind_counts == (7, 1)
    assert load_hardware("relmas").kind_counts == (2, 2)
    assert len(load_hardware("defines5").kinds) == 5
    assert load_hardware("stream-hetero4").kind_counts == (2, 2)
    planaria = load_hardware("planaria16")
    assert planaria.dram_bandwidth_bytes_s == pytest.approx(2864 / 8 * 700e6, rel=1e-3)
    assert sum(core.sram_bytes for core in planaria.cores) == 12 * 2**20
    assert planaria.dram_energy_pj_per_byte == 12.5 * 8


@pytest.mark.parametrize("name", preset_names())
def test_written_out_it_loads_again(name: str) -> None:
    description = describe_hardware(name)
    assert describe_hardware(description.to_mapping()) == description


@pytest.mark.parametrize(
    ("mix", "parts"),
    [
        ("relmas", ["simba", "eyeriss"]),
        ("defines5", ["meta-prototype", "zigzag-tpu-like", "edge-tpu", "ascend", "tesla-npu"]),
    ],
)
def test_cores_of_mixes_are_those_of_the_single_presets(mix: str, parts: list[str]) -> None:
    groups = describe_hardware(mix).to_mapping()["cores"]
    alone = [describe_hardware(part).to_mapping()["cores"][0] for part in parts]
    assert [{key: value for key, value in group.items() if key != "count"} for group in groups] == alone


def test_a_preset_that_does_not_exist() -> None:
    with pytest.raises(
        HeadwayError, match=r"no hardware preset named 'moca9' \(did you mean 'moca8'\?\)"
    ) as error:
        load_hardware("moca9")
    assert all(name in str(error.value) for name in preset_names())


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"nowhere\.yaml: No such file"):
        load_hardware(str(tmp_path / "nowhere.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "clock: 1 GHz",
            "clok: 1 GHz",
            "13: cores[1].clok: unknown key (did you mean 'clock'?); accepted: name, count",
        ),
        (
            "    vector_lanes: 8",
            "    flavour: {K: 8}",
            "15: cores[1].flavour: unknown key; accepted: name, count",
        ),
        ("operand_bits", "operandbits", "2: operandbits: unknown key (did you mean 'operand_bits'?)"),
        ("sram: 384 KiB", "sram: 2 MHz", "14: cores[1].sram: found '2 MHz': 'MHz' is no unit of a size"),
        (
            "sram: 384 KiB",
            "sram: 384",
            "14: cores[1].sram: found 384: a number without a unit; accepted: a size such as",
        ),
        (
            "bandwidth: 16 GB/s",
            "bandwidth: 0 GB/s",
            "20: dram.bandwidth: found '0 GB/s': must be greater than 0",
        ),
        (
            "bandwidth: 16 GB/s",
            "bandwidth: -1 GB/s",
            "20: dram.bandwidth: found '-1 GB/s': must be greater than 0",
        ),
        ("bandwidth: 16 GB/s", "bandwidth: .nan", "20: dram.bandwidth: found nan: a number without a unit"),
        (
            "bandwidth: 16 GB/s",
            "bandwidth: nan GB/s",
            "20: dram.bandwidth: found 'nan GB/s': accepted: a bandwidth",
        ),
        ("  bandwidth: 16 GB/s\n", "", "19: dram.bandwidth: missing, but required"),
        ("name: small", "name: big", "10: cores[1].name: core name 'big' is already taken by cores[0]"),
        ("name: small", "name: big-1", "10: cores[1].name: core name 'big-1' is already taken by cores[0]"),
        ("name: small", "name: a b", "10: cores[1].name: found 'a b'; accepted: text that matches pattern"),
        (
            "count: 2",
            "count: 1000000000",
            "5: cores[0].count: found 1000000000; accepted: less than or equal to 1024",
        ),
        ("count: 2", "count: 1024", "3: cores: 1025 cores; at most 1024 are accepted"),
        ("count: 2", "count: 0", "5: cores[0].count: found 0; accepted: greater than or equal to 1"),
        ("count: 2", "count: true", "5: cores[0].count: found True; accepted: a valid integer"),
        ("dataflow: os", "dataflow: rs", "12: cores[1].dataflow: found 'rs'; accepted: 'os', 'ws' or 'is'"),
        ("rows: 32", "rows: 0", "6: cores[0].array.rows: found 0; accepted: greater than or equal to 1"),
        (
            "rows: 32",
            "rows: 1000000",
            "6: cores[0].array.rows: found 1000000; accepted: less than or equal to 65536",
        ),
        ("rows: 32", "rows: 3.5", "6: cores[0].array.rows: found 3.5; accepted: a valid integer"),
        (
            "array: {rows: 32, columns: 64}",
            "array: 32x64",
            "6: cores[0].array: found '32x64'; accepted: a mapping",
        ),
        ("operand_bits: 16", "operand_bits: 7", "2: operand_bits: found 7; accepted: 4, 8, 16 or 32"),
        (
            "dispatch_overhead: 2 us",
            "dispatch_overhead: -2 us",
            "22: dispatch_overhead: found '-2 us': must be at least 0 s",
        ),
        ("mac: 0.5 pJ", "mac: 0.5 J", "17: cores[1].energy.mac: found '0.5 J': 'J' is no unit of an energy"),
        (
            "link: {bandwidth: 4 GB/s, energy: 1 pJ/bit}\n",
            "",
            "1: link: missing, but required if there is more than one core",
        ),
        ("operand_bits: 16", "name: again", "2: name: key given twice, first on line 1"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "hw.yaml"
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(HeadwayError, match=f"^{re.escape(f'{file}:{message}')}"):
        load_hardware(file)


def test_no_cores() -> None:
    with pytest.raises(
        HeadwayError, match=r"^hardware: cores: found an empty list; accepted: at least one core$"
    ):
        load_hardware(mapping(cores=[]))


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(HeadwayError) as error:
        load_hardware(mapping(cores=[core(sram="1 GHz", clock="1 MiB")], dram={"bandwidth": 5}))
    lines = str(error.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["cores[0].clock", "cores[0].sram", "dram.bandwidth"]


def test_very_many_mistakes_are_cut_short() -> None:
    cores = [core(name=f"c{number}", sram=number) for number in range(20)]
    with pytest.raises(HeadwayError) as error:
        load_hardware(mapping(cores=cores))
    lines = str(error.value).splitlines()
    assert len(lines) == 9
    assert lines[-1] == "hardware: and 12 more"


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "7\n"])
def test_a_file_that_is_no_description(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hw.yaml"
    file.write_text(text)
    with pytest.raises(
        HeadwayError, match=rf"^{re.escape(str(file))}:1: found .*; accepted: a mapping of keys to values$"
    ):
        load_hardware(file)
