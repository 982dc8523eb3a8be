"""`headway inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from headway.cli import inspect as inspect_command
from headway.core.errors import HeadwayError


@pytest.fixture
def application() -> typer.Typer:
    parent = typer.Typer()
    inspect_command.register(parent)
    parent.callback()(lambda: None)
    return parent


def run(application: typer.Typer, *arguments: str) -> Result:
    """The command's result; a user's mistake is raised, as the real command line expects it."""
    result = CliRunner().invoke(application, ["inspect", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result


def document(application: typer.Typer, *arguments: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(application, "--json", *arguments).stdout)
    return read


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution of a symbolic batch, an activation, a custom operator that is declared, and a product."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "v"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [
            numpy_helper.from_array(np.zeros((4, 3, 3, 3), dtype=np.float32), "w"),
            numpy_helper.from_array(np.zeros((64, 5), dtype=np.float32), "v"),
        ],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Inverse2", ["x"], ["y"], domain="mine", name="odd[1]")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    path = tmp_path / "custom.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def test_json_has_totals_layers_and_dimensions(application: typer.Typer, network: Path) -> None:
    told = document(application, str(network), "--dim", "batch=2")
    convolution = 2 * 4 * 16 * 27
    assert told["totals"] == {
        "layers": 4,
        "macs": convolution + 2 * 64 * 5,
        "vector_ops": 128,
        "params": 108 + 320,
        "weight_bytes": 4 * 428,
        "activation_bytes": 4 * (3 * 128 + 10),
    }
    first, *_, last = told["layers"]
    assert (first["name"], first["op"], first["kind"], first["macs"]) == (
        "first",
        "Conv",
        "conv",
        convolution,
    )
    nest = {"B": 2, "K": 4, "C": 3, "OY": 4, "OX": 4, "FY": 3, "FX": 3, "groups": 1}
    assert nest.items() <= first["dims"].items()
    assert first["dims"]["strides"] == [2, 2]
    assert first["dims"]["padding"] == [1, 1, 1, 1]
    assert [last["dims"][key] for key in "mnk"] == [2, 5, 64]
    assert told["dims"] == {"batch": {"size": 2, "assumed": False}}
    assert told["unknown_ops"] == []
    assert told["runtime"] == {"runs": True, "cause": ""}


def test_json_stands_alone_on_standard_output(application: typer.Typer, network: Path) -> None:
    result = run(application, str(network), "--json", "--no-runtime")
    told = json.loads(result.stdout)
    assert told["dims"] == {"batch": {"size": 1, "assumed": True}}
    assert told["runtime"]["runs"] is None
    assert "batch=1" in result.stderr
    assert any("batch=1" in warning for warning in told["warnings"])


def test_unknown_operator_is_named_counted_and_refused(application: typer.Typer, custom: Path) -> None:
    told = document(application, str(custom))
    (unknown,) = told["unknown_ops"]
    assert (unknown["op"], unknown["domain"], unknown["count"]) == ("Inverse2", "mine", 1)
    assert "odd[1]" in unknown["nodes"][0]
    assert told["runtime"]["runs"] is False
    assert "Inverse2" in told["runtime"]["cause"]
    text = run(application, str(custom)).stdout
    assert "no formula: mine:Inverse2, 1 times, at node 'odd[1]'" in text
    assert "refuses it" in text


def test_table_shows_layers_and_totals(application: typer.Typer, network: Path) -> None:
    text = run(application, str(network), "--no-runtime").stdout
    assert "K4 C3 OY4 OX4 FY3 FX3 /2" in text
    assert "Flatten (view)" in text
    assert "batch=1 (assumed)" in text
    assert "428 parameters" in text
    assert "not asked" in text


def test_merged_layers_tell_what_they_folded(application: typer.Typer, network: Path) -> None:
    told = document(application, str(network), "--merged", "--no-runtime")
    assert [layer["folded"] for layer in told["layers"]] == [["Relu_1", "Flatten_2"], []]


def test_zoo_model_by_name_with_its_options(application: typer.Typer) -> None:
    told = document(application, "resnet18", "--dim", "batch=2", "--merged")
    assert told["name"] == "resnet18"
    assert told["inputs"]["image"][0] == 2
    assert told["totals"]["layers"] == 23


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no such file, and no model of the zoo; the zoo has .*resnet50"),
        (["nothing.onnx"], "no such file"),
        (["resnet18", "--dim", "batch"], "NAME=SIZE"),
        (["resnet18", "--dim", "batch=two"], "'two'"),
        (["resnet18", "--dim", "batch=1", "--dim", "batch=2"], "given twice"),
    ],
)
def test_mistakes_are_named(application: typer.Typer, arguments: list[str], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        run(application, *arguments)


def test_a_layer_table_is_shown_with_its_warnings(application: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("Layer, M, N, K,\nup, 128, 256, 64,\nother, 16, 64, 32,\n")
    result = run(application, "--json", str(path))
    data = json.loads(result.stdout)

    assert data["totals"]["macs"] == 128 * 256 * 64 + 16 * 64 * 32
    assert [layer["name"] for layer in data["layers"]] == ["up", "other"]
    assert "1 of 2 layers" in result.stderr


def test_a_table_that_is_not_there_is_no_model_of_the_zoo(
    application: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadwayError, match=r"net\.csv: No such file"):
        run(application, "net.csv")
