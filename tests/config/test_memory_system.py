"""DRAM whose reads and writes differ, and a second level of memory that cores share."""

from __future__ import annotations

from typing import Any

import pytest

from headway.config import describe_hardware, load_hardware
from headway.core.device import SharedMemory
from headway.core.errors import HeadwayError


def described(name: str, **changes: Any) -> dict[str, Any]:
    return {**describe_hardware(name).to_mapping(), **changes}


def test_writes_cost_what_reads_cost_unless_said() -> None:
    plain = load_hardware(described("moca8", dram={"bandwidth": "16 GB/s", "energy": "50 pJ/B"}))
    assert (plain.dram_read_pj_per_byte, plain.dram_write_pj_per_byte) == (50, 50)
    both = {"bandwidth": "16 GB/s", "energy": "50 pJ/B", "write_energy": "70 pJ/B"}
    apart = load_hardware(described("moca8", dram=both))
    assert (apart.dram_read_pj_per_byte, apart.dram_write_pj_per_byte) == (50, 70)
    assert apart.dram_energy_pj_per_byte == 60


def test_each_core_has_an_equal_part_of_a_shared_level() -> None:
    l2 = {"size": "2 MiB", "bandwidth": "128 GB/s", "energy": "3 pJ/B"}
    device = load_hardware(described("moca8", l2=l2))
    assert len(device.cores) == 8
    for core in device.cores:
        assert core.shared == SharedMemory(256 << 10, 16e9, 3.0)
        assert core.sram_bytes == (128 + 256) << 10


def test_a_shared_level_is_the_topmost_memory_of_a_described_core() -> None:
    l2 = {"size": "8 MiB", "bandwidth": "256 GB/s", "energy": "3 pJ/B"}
    core = load_hardware(described("stream-tpu-like", l2=l2)).cores[0]
    assert core.hierarchy is not None
    assert core.shared is None
    top = core.hierarchy.memories[-1]
    assert (top.name, top.bits, top.ports[0].bits) == ("l2", 8 * (2 << 20), 512)
    assert top.read_pj == top.write_pj == 64 * 3
    assert core.sram_bytes == 2 << 20


def test_a_shared_level_loads_again_as_it_is_written() -> None:
    written = describe_hardware("moca8").to_mapping()
    assert load_hardware(written) == load_hardware("moca8")
    assert written["l2"]["size"] == "2 MiB"


@pytest.mark.parametrize(
    ("l2", "message"),
    [
        ({"size": "4 B", "bandwidth": "1 GB/s"}, "l2.size: less than a byte for each core"),
        ({"size": "2 MiB"}, "l2.bandwidth: missing, but required"),
        ({"size": "2 MiB", "bandwidth": "1 GB/s", "ports": 2}, "l2.ports: unknown key"),
    ],
)
def test_mistakes(l2: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        load_hardware(described("moca8", l2=l2))


def test_a_memory_of_the_same_name_is_refused() -> None:
    data = described("stream-tpu-like", l2={"size": "8 MiB", "bandwidth": "1 GB/s"})
    data["cores"][0]["memories"][-1]["name"] = "l2"
    with pytest.raises(HeadwayError, match=r"cores\[0\].memories\[2\].name: found a memory named 'l2'"):
        load_hardware(data)
