"""Cores described by unrolling, memories and ports: what they become, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from headway.config.hardware import describe_hardware, load_hardware
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Move

ENERGY = {"read_energy": "1 pJ", "write_energy": "2 pJ"}
DESCRIPTION: dict[str, Any] = {
    "name": "chip",
    "cores": [
        {
            "name": "npu",
            "clock": "1 GHz",
            "unrolling": {"K": 32, "OX": 2, "OY": 4, "FX": 4},
            "memories": [
                {"name": "rf", "size": "4 B", "operands": ["W"], "shared_over": ["OX", "OY"], "width_bits": 8}
                | ENERGY,
                {"name": "sums", "size": "2 B", "operands": ["O"], "shared_over": ["FX"], "width_bits": 16}
                | {"ports": "each"}
                | ENERGY,
                {"name": "sram", "size": "1 MiB", "operands": ["I", "W", "O"], "width_bits": 1024}
                | {"grain_bits": 64}
                | ENERGY,
            ],
        }
    ],
    "dram": {"bandwidth": "8 GB/s"},
}


def changed(*path: Any, **keys: Any) -> dict[str, Any]:
    """The description with keys set at a place inside core 0; None removes a key."""
    description = copy.deepcopy(DESCRIPTION)
    place = description["cores"][0]
    for key in path:
        place = place[key]
    for key, value in keys.items():
        if value is None:
            del place[key]
        else:
            place[key] = value
    return description


def test_what_a_description_becomes() -> None:
    core = load_hardware(DESCRIPTION).cores[0]
    hierarchy = core.hierarchy
    assert hierarchy is not None
    assert hierarchy.axes == ((("K", 32),), (("OX", 2),), (("OY", 4),), (("FX", 4),))
    assert hierarchy.units == core.rows * core.columns == 1024
    assert (core.rows, core.sram_bytes) == (4, 2**20)
    assert core.sram_energy_pj_per_byte == 2 / 1024 * 8
    rf, sums, sram = hierarchy.memories
    assert [memory.axes for memory in hierarchy.memories] == [(1, 2), (3,), (0, 1, 2, 3)]
    assert rf.bits == 32
    assert [len(memory.ports) for memory in hierarchy.memories] == [2, 4, 2]
    assert sums.port_of("O", Move.DRAIN).serves == (("O", Move.DRAIN),)
    assert sram.port_of("O", Move.DRAIN) is sram.port_of("W", Move.FEED)
    assert sram.port_of("O", Move.STORE).grain_bits == 64
    assert hierarchy.partial_bits == 16


def test_axes_of_several_loops_and_ports_of_their_own() -> None:
    serves = [["W fill"], ["W feed"]]
    ports = [{"bits": 8 * index, "serves": each} for index, each in enumerate(serves, start=1)]
    description = changed("memories", 0, ports=ports, width_bits=None, shared_over=[0])
    description["cores"][0]["unrolling"] = [{"OX": 2, "OY": 4}, {"K": 32, "FX": 4}]
    hierarchy = load_hardware(description).cores[0].hierarchy
    assert hierarchy is not None
    assert hierarchy.axes == ((("OX", 2), ("OY", 4)), (("K", 32), ("FX", 4)))
    assert hierarchy.memories[0].axes == (0,)
    assert [port.bits for port in hierarchy.memories[0].ports] == [8, 16]


def test_it_is_written_out_as_it_was_read() -> None:
    description = describe_hardware(DESCRIPTION)
    assert describe_hardware(description.to_mapping()) == description


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (changed(memories=None), "memories: missing, but required with unrolling"),
        (changed(sram="1 MiB"), "sram: found beside unrolling; accepted: one or the other"),
        (changed(unrolling=None), "array: missing, but required (or unrolling and memories instead)"),
        (changed(unrolling={"KK": 2}), "found 'KK'"),
        (changed(unrolling={"K": 0}), "greater than or equal to 1"),
        (changed(unrolling=[]), "found an axis without loops"),
        (changed(systolic=["C"]), "systolic: C is not unrolled"),
        (changed(energy={"sram": "1 pJ/B"}), "energies of each memory"),
        (changed("memories", 1, name="rf"), "memory name 'rf' is already taken by memories[0]"),
        (changed("memories", 0, shared_over=["C"]), "C is not unrolled; accepted: K, OX, OY, FX, or 0 to 3"),
        (
            changed("memories", 2, shared_over=["OX"]),
            "units that share rf must share this memory above it too",
        ),
        (changed("memories", 2, operands=["I", "O"]), None),
        (changed("memories", 2, operands=["W", "O"]), "no memory serves operand I"),
        (changed("memories", 0, operands=["W", "W"]), "accepted: some of W, I, O, each once"),
        (changed("memories", 0, width_bits=None), "missing width_bits"),
        (changed("memories", 0, read_bits=8), "found width_bits beside read_bits"),
        (changed("memories", 0, read_energy=None), "read_energy: missing, but required"),
        (changed("memories", 0, size="4"), "a number without a unit"),
        (
            changed("memories", 0, width_bits=None, ports=[{"bits": 8, "serves": ["W fill"]}]),
            "W feed is served by 0 ports; accepted: one",
        ),
        (
            changed("memories", 0, width_bits=None, ports=[{"bits": 8, "serves": ["W drain"]}]),
            "found 'W drain'",
        ),
    ],
)
def test_mistakes_are_named(description: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert load_hardware(description).cores[0].hierarchy is not None
        return
    with pytest.raises(HeadwayError) as refusal:
        load_hardware(description)
    assert message in str(refusal.value)
    assert "cores[0]" in str(refusal.value)
