"""What is read of a Stream system: which cores compute, the DRAM, and the links between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.config.importers.stream_system import StreamSystem, read_stream_system
from headway.config.yaml_file import read_yaml
from headway.core.errors import HeadwayError


@pytest.fixture
def read(tmp_path: Path, core_data) -> Callable[[dict[str, Any]], StreamSystem]:
    """Writes core files beside a system and reads it."""
    core = core_data()
    off_chip = core_data()
    dram = core["memories"].pop("dram")
    core["memories"]["sram_2MB"] |= {"operands": ["I1", "I2", "O"]}
    ports = core["memories"]["sram_2MB"]["ports"]
    core["memories"]["sram_2MB"]["ports"] = [ports[0], ports[0], ports[1]]
    off_chip |= {"name": "offchip", "memories": {"dram": dram}}
    off_chip["operational_array"] |= {"sizes": [0, 0]}
    del off_chip["dataflows"]
    (tmp_path / "cores").mkdir()
    for name, data in (("tpu_like", core), ("pooling", core), ("simd", core), ("offchip", off_chip)):
        (tmp_path / "cores" / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))

    def read_system(data: dict[str, Any]) -> StreamSystem:
        path = tmp_path / "system.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return read_stream_system(read_yaml(path, number_keys=True), tmp_path)

    return read_system


def quad(**changes: Any) -> dict[str, Any]:
    """Four computing cores in a ring with two helpers, as Stream's tpu_like_quad_core has them."""
    return {
        "name": "quad",
        "cores": dict.fromkeys(range(4), "tpu_like.yaml") | {4: "pooling.yaml", 5: "simd.yaml"},
        "offchip_core": "offchip.yaml",
        "core_connectivity": ["0, 1", "1, 2", "2, 3", "3, 0", "0, 4", "1, 5"],
        "bandwidth": 32,
        "unit_energy_cost": 0.5,
    } | changes


def linked(*links: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Two computing cores and the off-chip core, with links that have a bandwidth each."""
    return {
        "name": "pair",
        "cores": {0: "tpu_like.yaml", 1: "./cores/tpu_like.yaml", 2: "offchip.yaml"},
        "offchip_core_id": 2,
        "core_connectivity": list(links),
    } | changes


def test_pairs_of_cores_with_one_bandwidth(read):
    system = read(quad())

    assert (system.name, list(system.cores)) == ("quad", [0, 1, 2, 3])
    assert (system.link_bits, system.link_pj_per_bit) == (32, 0.5)
    assert (system.dram.read_pj, system.dram_bits) == (700, 64)
    assert system.cores[0] == system.cores[3]
    assert "4 (pooling), 5 (simd) left out" in " ".join(system.notes)


def test_a_grid_names_the_cores_that_only_help(read):
    cores = ["tpu_like.yaml", "tpu_like.yaml", "tpu_like.yaml", "offchip.yaml"]
    grid = {"type": "2d_mesh", "nb_rows": 1, "nb_cols": 2, "bandwidth": 48, "unit_energy_cost": 0}
    grid |= {"simd_core_id": 2, "offchip_core_id": 3}
    system = read({"name": "grid", "cores": cores, "graph": grid})

    assert list(system.cores) == [0, 1]
    assert (system.link_bits, system.dram_bits) == (48, 64)


def test_links_and_a_bus_to_the_dram(read):
    link = {"type": "link", "cores": [0, 1], "bandwidth": 128}
    system = read(linked(link, {"type": "bus", "cores": [0, 1, 2], "bandwidth": 40}))

    assert (system.link_bits, system.dram_bits) == (128, 40)  # the bus is narrower than the DRAM's port
    assert read(linked(link, {"cores": [0, 2], "bandwidth": 512})).dram_bits == 64


def test_links_of_several_bandwidths_are_read_as_the_slowest_aloud(read):
    system = read(linked({"cores": [0, 1], "bandwidth": 128}, {"cores": [1, 0], "bandwidth": 32}))

    assert system.link_bits == 32
    assert "32 to 128 bits" in " ".join(system.notes)


def test_cores_may_be_described_in_place(read, core_data):
    system = read(quad(cores={0: core_data(), 1: "tpu_like.yaml"}, core_connectivity=["0, 1"]))
    assert system.cores[0].dram is not None
    assert system.cores[1].dram is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (quad(cores={0: "none.yaml"}), "cores: core file 'none.yaml' is not there"),
        (quad(cores={"a": "tpu_like.yaml"}), "cores: found the id 'a'"),
        (quad(cores={4: "pooling.yaml"}), "cores: none of them computes"),
        (quad(offchip_core=None), "offchip_core_id: missing"),
        (quad(core_memory_sharing=["0, 1"]), "core_memory_sharing: memories that cores share"),
        (quad(bandwidth=None), "bandwidth: missing"),
        (quad(core_connectivity=[]), "core_connectivity: found []"),
        (quad(reconfiguration={}), "reconfiguration: has no counterpart"),
        (linked({"cores": [0, 1]}), "core_connectivity[0].bandwidth: missing"),
        (linked({"cores": [0, 1], "bandwidth": 8, "width": 2}), "[0].width: has no counterpart"),
        (linked({"cores": [0, 1], "bandwidth": 8}, bandwidth={2: 8}), "a bandwidth of ports or cores"),
        (linked({"cores": [0, 1], "bandwidth": 8}, offchip_core_id=7), "offchip_core_id: found 7"),
    ],
)  # fmt: skip
def test_errors_name_file_and_field(read, data, said):
    with pytest.raises(HeadwayError) as caught:
        read(data)
    assert said in str(caught.value)
    assert "system.yaml" in str(caught.value)
