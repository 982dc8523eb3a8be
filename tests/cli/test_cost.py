"""`headway cost`: its JSON contract, its CSV, stacks of one's own, and what it says about mistakes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from headway.cli import cost as cost_command
from headway.config import load_hardware
from headway.core.block import Mode
from headway.core.errors import HeadwayError
from headway.cost import build_table
from headway.models import at_width, load_model, merge

HARDWARE = "stream-hetero4"
SMALL = ("--dim", "image_size=64")
TERMS = ("compute_cycles", "stall_cycles", "onload_cycles", "offload_cycles")
CORE_KEYS = {"latency_cycles", *TERMS, "dram_bytes", "energy_pj"}
STACK_KEYS = {"layers", "mode", "cores", "band_rows", "latency_cycles", "dram_bytes", "link_bytes"}
STACK_KEYS |= {"sram_bytes", "energy_pj"}

TWO_LAYERS = """
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
a:first, 18, 18, 3, 3, 8, 16, 1,
b:second, 18, 18, 3, 3, 16, 16, 1,
"""


@pytest.fixture
def application() -> typer.Typer:
    parent = typer.Typer()
    cost_command.register(parent)
    parent.callback()(lambda: None)
    return parent


def run(application: typer.Typer, *arguments: str) -> Result:
    """The command's result; a user's mistake is raised, as the real command line expects it."""
    result = CliRunner().invoke(application, ["cost", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def document(application: typer.Typer, *arguments: str, hardware: str = HARDWARE) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(
        run(application, "resnet18", *SMALL, "--hardware", hardware, "--json", *arguments).stdout
    )
    return read


@pytest.mark.parametrize("hardware", [HARDWARE, "zigzag-tpu-like"])
def test_contract(application: typer.Typer, hardware: str) -> None:
    read = document(application, hardware=hardware)
    names = [core.name for core in load_hardware(hardware).cores]
    assert list(read["cores"]) == names
    assert read["layers"][0]["name"] == "conv1"
    assert read["stacks"]
    for layer in read["layers"]:
        assert list(layer["cores"]) == names
        for entry in layer["cores"].values():
            assert entry.keys() >= CORE_KEYS
            assert entry["latency_cycles"] == pytest.approx(sum(entry[term] for term in TERMS))
            assert entry["energy_pj"] == pytest.approx(sum(entry["energy_pj_by"].values()))
            assert entry["dram_bytes"] == entry["memory_bytes"]["dram"] > 0
    for name in names:
        for key in CORE_KEYS:
            total = sum(layer["cores"][name][key] for layer in read["layers"])
            assert read["totals"]["cores"][name][key] == pytest.approx(total)
    for stack in read["stacks"]:
        assert stack.keys() >= STACK_KEYS
        assert set(stack["cores"]) <= set(names)
        assert stack["mode"] in ("fused", "pipeline")
        assert stack["latency_cycles"] <= stack["serial"]["latency_cycles"] * (1 + 1e-9)
        assert stack["layers"] == [
            layer["name"] for layer in read["layers"][stack["first"] : stack["last"] + 1]
        ]


@pytest.mark.parametrize("mode", ["fused", "pipeline", "split"])
def test_types_of_the_contract(application: typer.Typer, mode: str) -> None:
    """Names and numbers as issue and page promise them, whatever the mode."""
    cores = "tpu-0" if mode == "fused" else "tpu-0,meta-0"
    read = document(application, "--stack", "2:3", "--mode", mode, "--cores", cores)
    (stack,) = read["stacks"]
    assert stack["layers"] == [layer["name"] for layer in read["layers"][2:4]]
    assert (stack["mode"], stack["cores"]) == (mode, cores.split(","))
    assert isinstance(stack["band_rows"], int) or (mode == "split" and stack["band_rows"] is None)
    numbers = [stack[key] for key in STACK_KEYS - {"layers", "mode", "cores", "band_rows"}]
    for layer in read["layers"]:
        assert isinstance(layer["name"], str)
        numbers += [entry[key] for entry in layer["cores"].values() for key in CORE_KEYS]
    assert all(isinstance(number, (int, float)) and 0 <= number < float("inf") for number in numbers)


@pytest.mark.parametrize(
    ("mode", "cores", "rows"),
    [
        ("fused", ["meta-1"], 4),
        ("fused", ["tpu-0"], None),
        ("pipeline", ["meta-0", "tpu-1"], 4),
        ("pipeline", ["tpu-0", "tpu-1", "meta-0"], None),
        ("split", ["tpu-1", "meta-0"], None),
    ],
)
def test_a_stack_of_ones_own_costs_what_tables_say(
    application: typer.Typer, mode: str, cores: list[str], rows: int | None
) -> None:
    asked = ["--stack", "layer1.0.conv1:layer1.1.conv2", "--mode", mode, "--cores", ",".join(cores)]
    if rows is not None:
        asked += ["--band-rows", str(rows)]
    (stack,) = document(application, *asked)["stacks"]

    device = load_hardware(HARDWARE)
    graph = merge(at_width(load_model("resnet18", dims={"image_size": 64}), device.operand_bytes))
    first, last = (
        next(layer.index for layer in graph.layers if layer.name == name)
        for name in ("layer1.0.conv1", "layer1.1.conv2")
    )
    kinds = tuple(device.kinds.index(core.split("-")[0]) for core in cores)
    option = build_table(graph, device).option(Mode(mode), first, last + 1, kinds, (), rows)
    bandwidth = device.dram_bandwidth_bytes_s
    assert stack["latency_cycles"] == pytest.approx(option.seconds(bandwidth) * 1e9)
    assert (stack["mode"], stack["cores"], stack["band_rows"]) == (mode, cores, option.band_rows)
    for key in ("dram_bytes", "link_bytes", "sram_bytes", "energy_pj"):
        assert stack[key] == getattr(option, key)
    if rows is not None:
        assert stack["band_rows"] == rows
    assert stack["stage_starts"] == [first, *option.cuts]


def test_without_cores_a_fused_stack_takes_the_fastest(application: typer.Typer) -> None:
    asked = ("--stack", "2:4", "--band-rows", "4")
    (best,) = document(application, *asked)["stacks"]
    others = [document(application, *asked, "--cores", core)["stacks"][0] for core in ("tpu-0", "meta-0")]
    assert best == min(others, key=lambda stack: stack["latency_cycles"])


def test_layers_may_have_colons_and_folded_layers_stand_for_theirs(
    application: typer.Typer, tmp_path: Path
) -> None:
    table = tmp_path / "two.csv"
    table.write_text(TWO_LAYERS.strip() + "\n", encoding="utf-8")
    shown = run(
        application, str(table), "--hardware", HARDWARE, "--stack", "a:first:b:second", "--json"
    ).stdout
    assert json.loads(shown)["stacks"][0]["layers"] == ["a:first", "b:second"]

    layer = document(application)["layers"][0]
    assert layer["folded"]
    assert (
        document(application, "--stack", f"{layer['folded'][0]}:1")["stacks"]
        == document(application, "--stack", "conv1:MaxPool")["stacks"]
    )


def test_precision_is_that_of_the_hardware_or_the_one_asked_for(application: typer.Typer) -> None:
    narrow, wide = document(application), document(application, "--precision", "32")
    assert (narrow["operand_bits"], wide["operand_bits"]) == (8, 32)
    first = [read["layers"][0]["cores"]["tpu-0"]["dram_bytes"] for read in (narrow, wide)]
    assert first[1] >= 4 * first[0]


def test_overlap_changes_described_cores_alone(application: typer.Typer) -> None:
    for hardware, same in (("zigzag-tpu-like", False), (HARDWARE, True)):
        own = document(application, hardware=hardware)
        copied = document(application, "--overlap", "zigzag", hardware=hardware)
        assert (own["layers"] == copied["layers"]) is same
        assert own["stacks"] == copied["stacks"]


def test_objective(application: typer.Typer) -> None:
    def saved(read: dict[str, Any], name: str) -> float:
        return sum(
            (stack["serial"][name] - stack[name]) for stack in read["stacks"] if stack["mode"] == "fused"
        )

    by_latency, by_dram = (document(application, "--save", what) for what in ("latency", "dram"))
    assert saved(by_latency, "latency_cycles") >= saved(by_dram, "latency_cycles") * (1 - 1e-9)
    assert saved(by_dram, "dram_bytes") >= saved(by_latency, "dram_bytes")


def test_csv_has_the_numbers_of_the_json(application: typer.Typer, tmp_path: Path) -> None:
    read = document(application)
    base = ("resnet18", *SMALL, "--hardware", HARDWARE, "--csv")
    printed = run(application, *base, "-").stdout
    file = tmp_path / "costs.csv"
    run(application, *base, str(file))
    assert file.read_text(encoding="utf-8") == printed

    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["core"] for row in rows[:2]] == ["tpu-0", "meta-0"]  # alike cores once
    assert len(rows) == 2 * len(read["layers"])
    for row in rows:
        layer = read["layers"][int(row["index"])]
        assert (row["layer"], int(row["macs"])) == (layer["name"], layer["macs"])
        entry = layer["cores"][row["core"]]
        for key in (*CORE_KEYS, "schedule_cycles"):
            assert float(row[key]) == entry[key]
        assert float(row["sram_bytes"]) == entry["memory_bytes"]["sram"]
        assert float(row["mac_pj"]) == entry["energy_pj_by"]["mac"]


def shape(value: Any) -> Any:
    """The keys of nested mappings."""
    return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else None


def test_the_contract_of_the_documentation_is_what_is_printed(application: typer.Typer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cost-command.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    documented = json.loads(written)
    command = "--stack layer1.0.conv1:layer1.1.conv2 --mode pipeline --cores tpu-0,meta-0 --band-rows 4"
    read = json.loads(run(application, "resnet18", "--hardware", HARDWARE, "--json", *command.split()).stdout)
    assert documented.keys() == read.keys()
    (layer,) = documented["layers"]
    for ours, theirs in (
        (documented["cores"]["tpu-0"], read["cores"]["tpu-0"]),
        (layer["cores"]["tpu-0"], read["layers"][layer["index"]]["cores"]["tpu-0"]),
        (documented["totals"]["cores"]["tpu-0"], read["totals"]["cores"]["tpu-0"]),
        (documented["stacks"][0], read["stacks"][0]),
    ):
        assert shape(ours) == shape(theirs)
    assert layer.keys() == read["layers"][0].keys()


def test_compute_of_a_systolic_array_is_what_scalesim_reports(
    application: typer.Typer, tmp_path: Path
) -> None:
    """Cycles reported by SCALE-Sim 3.0.0 for 32 x 32 units, output stationary."""
    reported = {"qkv": (128, 768, 768, 79679), "scores": (128, 128, 64, 2015)}
    table, hardware = tmp_path / "products.csv", tmp_path / "array.yaml"
    lines = [f"{name}, {m}, {n}, {k}," for name, (m, n, k, _) in reported.items()]
    table.write_text("\n".join(("Layer, M, N, K,", *lines, "")), encoding="utf-8")
    hardware.write_text(
        "name: array\n"
        "cores: [{name: c, array: {rows: 32, columns: 32}, dataflow: os, clock: 1 GHz, sram: 1 MiB}]\n"
        "dram: {bandwidth: 8 GB/s}\n",
        encoding="utf-8",
    )
    read = json.loads(run(application, str(table), "--hardware", str(hardware), "--json").stdout)
    found = {layer["name"]: layer["cores"]["c"]["compute_cycles"] for layer in read["layers"]}
    assert found == {name: cycles for name, (*_, cycles) in reported.items()}


def test_terms_of_a_described_core_are_what_zigzag_reports(application: typer.Typer, tmp_path: Path) -> None:
    """Terms reported by zigzag-dse 3.9.1 for a convolution of ResNet-18 on its tpu_like."""
    workload = tmp_path / "convolution.yaml"
    workload.write_text(
        """
- id: 0
  name: body
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=1*ox+1*fx, iy=1*oy+1*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 64, 64, 56, 56, 3, 3]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
  operand_source: {I: 0, W: 0}
""",
        encoding="utf-8",
    )
    command = (str(workload), "--hardware", "zigzag-tpu-like", "--json", "--overlap")
    entry = json.loads(run(application, *command, "zigzag").stdout)["layers"][0]["cores"]["like"]
    assert [entry[term] for term in TERMS] == [112896, 0, 26912, 2]
    assert entry["energy_pj"] == pytest.approx(68294568.736, rel=1e-3)
    own = json.loads(run(application, *command, "physical").stdout)["layers"][0]["cores"]["like"]
    assert own["dram_bytes"] / 8 <= own["latency_cycles"] <= entry["latency_cycles"]


ZIGZAG_CORE = """
name: tpu_like
memories:
  rf_128B: {size: 1024, r_bw: 8, w_bw: 8, r_cost: 0.095, w_cost: 0.095, area: 0, operands: [I2],
    ports: [{fh: w_port_1, tl: r_port_1}], served_dimensions: []}
  rf_2B: {size: 16, r_bw: 16, w_bw: 16, r_cost: 0.021, w_cost: 0.021, area: 0, operands: [O],
    ports: [{fh: w_port_1, tl: r_port_1, fl: w_port_2, th: r_port_2}], served_dimensions: []}
  sram_2MB: {size: 16777216, r_bw: 2048, w_bw: 2048, r_cost: 416.16, w_cost: 378.4, area: 0,
    operands: [I1, O], min_r_granularity: 64, min_w_granularity: 64, served_dimensions: [D1, D2],
    ports: [{fh: w_port_1, tl: r_port_1}, {fh: w_port_1, tl: r_port_1, fl: w_port_1, th: r_port_1}]}
  dram: {size: 10000000000, r_bw: 64, w_bw: 64, r_cost: 700, w_cost: 750, area: 0, operands: [I1, I2, O],
    ports: [{fh: rw_port_1, tl: rw_port_1}, {fh: rw_port_1, tl: rw_port_1},
            {fh: rw_port_1, tl: rw_port_1, fl: rw_port_1, th: rw_port_1}], served_dimensions: [D1, D2]}
operational_array: {unit_energy: 0.04, unit_area: 1, dimensions: [D1, D2], sizes: [32, 32]}
"""
ZIGZAG_MAPPING = """
- name: default
  spatial_mapping: {D1: ["K, 32"], D2: ["C, 32"]}
  memory_operand_links: {O: O, W: I2, I: I1}
"""


@pytest.mark.parametrize(
    ("sizes", "stride", "cycles", "energy_pj"),
    [((64, 64, 56, 3), 1, 139_810, 68_294_568.736), ((128, 64, 28, 1), 2, 18_817, 16_432_105.6)],
)
def test_zigzags_own_files_cost_what_zigzag_reports(
    application: typer.Typer,
    tmp_path: Path,
    sizes: tuple[int, ...],
    stride: int,
    cycles: int,
    energy_pj: float,
) -> None:
    """Accelerator, mapping and workload of zigzag-dse 3.9.1, and its results for two layers of ResNet-18."""
    channels_out, channels_in, side, window = sizes
    (tmp_path / "core.yaml").write_text(ZIGZAG_CORE, encoding="utf-8")
    (tmp_path / "mapping.yaml").write_text(ZIGZAG_MAPPING, encoding="utf-8")
    (tmp_path / "layer.yaml").write_text(
        f"""
- id: 0
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix={stride}*ox+1*fx, iy={stride}*oy+1*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, {channels_out}, {channels_in}, {side}, {side}, {window}, {window}]
  operand_precision: {{W: 8, I: 8, O: 16, O_final: 8}}
  operand_source: {{I: 0, W: 0}}
""",
        encoding="utf-8",
    )
    files = [str(tmp_path / name) for name in ("layer.yaml", "core.yaml", "mapping.yaml")]
    asked = (files[0], "--hardware", files[1], "--mapping", files[2], "--overlap", "zigzag", "--json")
    (layer,) = json.loads(run(application, *asked).stdout)["layers"]
    (entry,) = layer["cores"].values()
    assert entry["latency_cycles"] == pytest.approx(cycles, rel=0.01)
    assert entry["energy_pj"] == pytest.approx(energy_pj, rel=0.01)


def test_a_mapping_belongs_to_an_accelerator(application: typer.Typer) -> None:
    with pytest.raises(HeadwayError, match=r"--mapping m\.yaml: it belongs to an accelerator of ZigZag"):
        run(application, "resnet18", "--hardware", HARDWARE, "--mapping", "m.yaml")


def test_table(application: typer.Typer) -> None:
    shown = run(application, "resnet18", *SMALL, "--hardware", HARDWARE).stdout
    assert "tpu x 2: 1,024 MAC/cycle" in shown
    assert shown.count("one by one  ") == 2
    assert "layer4.1.conv2" in shown
    assert "saved in all" in shown


def test_page(application: typer.Typer, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "costs.html"
    shown = run(application, "resnet18", *SMALL, "--hardware", HARDWARE, "--plot", str(page)).stdout
    assert f"wrote {page}" in shown
    assert "resnet18 on stream-hetero4" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--stack", "conv1:layer1.0.convl"), "no layer 'layer1.0.convl' (did you mean 'layer1.0.conv.'?)"),
        (("--stack", "0:99"), "no layer '99'; accepted: conv1, MaxPool, .*or a number from 0 to 22"),
        (("--stack", "conv1"), "accepted: FIRST:LAST"),
        (("--stack", "2:1"), "layer 1 is not behind layer 2"),
        (
            ("--stack", "1:3", "--cores", "tpu"),
            "no core 'tpu' (did you mean 'tpu-.'?); accepted: tpu-0, tpu-1",
        ),
        (("--stack", "1:3", "--mode", "split", "--cores", "tpu-0,tpu-0"), "tpu-0 is there twice"),
        (("--stack", "1:3", "--mode", "pipeline"), "needs --cores NAME,NAME...; stream-hetero4 has tpu-0"),
        (("--stack", "1:3", "--cores", "tpu-0,tpu-1"), "it takes one core, not 2"),
        (("--stack", "0:fc"), "cannot be fused: a stack has at most"),
        (
            ("--stack", "20:22", "--mode", "pipeline", "--cores", "tpu-0,tpu-1"),
            "GlobalAveragePool needs all rows of layer4.1.conv2 before its first",
        ),
        (("--stack", "1:2", "--mode", "split", "--cores", "tpu-0,tpu-1", "--band-rows", "2"), "band height"),
        (("--cores", "tpu-0"), "--cores says how a stack of one's own runs; found without --stack"),
        (("--json", "--csv", "-"), "accepted: one of them"),
        (("--dim", "image"), "accepted: NAME=SIZE"),
    ],
)
def test_mistakes(application: typer.Typer, arguments: tuple[str, ...], message: str) -> None:
    pattern = message.replace("(", r"\(").replace("?)", r"\?\)").replace("...", r"\.\.\.")
    with pytest.raises(HeadwayError, match=pattern):
        run(application, "resnet18", "--hardware", HARDWARE, *arguments)


def test_a_stack_that_does_not_fit_says_what_it_needs(application: typer.Typer, tmp_path: Path) -> None:
    small = tmp_path / "small.yaml"
    small.write_text(
        """
name: small
cores: [{name: only, array: {rows: 8, columns: 8}, dataflow: os, clock: 1 GHz, sram: 4 KiB}]
dram: {bandwidth: 8 GB/s}
""",
        encoding="utf-8",
    )
    with pytest.raises(HeadwayError, match=r"--stack 2:3: .*they need \d+ bytes of SRAM, it has 4096"):
        run(application, "resnet18", "--hardware", str(small), "--stack", "2:3")


def test_hardware_with_lanes_is_refused(application: typer.Typer) -> None:
    with pytest.raises(HeadwayError, match="--hardware cpu-lanes: it has lanes"):
        run(application, "resnet18", "--hardware", "cpu-lanes")
