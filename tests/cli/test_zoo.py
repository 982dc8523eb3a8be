"""`headway zoo list` and `headway zoo build`."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
import typer
from typer.testing import CliRunner

from headway.cli import zoo as zoo_commands
from headway.core.errors import HeadwayError
from headway.models import zoo


@pytest.fixture
def application() -> typer.Typer:
    parent = typer.Typer()
    zoo_commands.register(parent)
    parent.callback()(lambda: None)
    return parent


def invoke(application: typer.Typer, *arguments: str) -> str:
    """What the command prints; a user's mistake is raised, as the real command line expects it."""
    result = CliRunner().invoke(application, ["zoo", *arguments])
    if isinstance(result.exception, HeadwayError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_model_with_its_parameters_and_macs(application: typer.Typer) -> None:
    printed = invoke(application, "list")
    for name in zoo.names():
        assert name in printed
    (resnet,) = [line.split() for line in printed.splitlines() if "resnet50" in line]
    # 25,557,032 parameters in all, less the 26,560 scales that are folded into the weights.
    assert resnet == ["resnet50", "25,530,472", "4.089", "3x224x224", "image_size=224"]
    (decode,) = [line for line in printed.splitlines() if "gpt2_small_decode" in line]
    assert "1, 24*12x128x64" in decode
    assert "…" not in printed, "something does not fit into 80 columns"


def test_list_as_json(application: typer.Typer) -> None:
    models = {model["name"]: model for model in json.loads(invoke(application, "list", "--json"))["models"]}
    assert set(models) == set(zoo.names())
    assert models["bert_base"]["params"] == 109_482_240
    assert models["bert_base"]["macs"] == 12 * (12 * 768**2 * 128 + 2 * 128**2 * 768) + 768**2
    assert models["bert_base"]["options"][0]["default"] == 128
    assert all(model["source"] and model["inputs"] and model["family"] for model in models.values())


def test_build_writes_the_model_and_says_where(application: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    printed = invoke(
        application, "build", "fsrcnn", "--out", str(path), "--batch", "3", "--seed", "5",
        "--option", "image_size=20", "--option", "scale=4",
    )  # fmt: skip
    assert str(path) in printed
    assert f"{path.stat().st_size:,} bytes" in printed
    assert onnx.load(path) == zoo.build("fsrcnn", batch=3, seed=5, image_size=20, scale=4)


def test_build_overwrites_only_when_forced(application: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "kws.onnx"
    path.write_text("somebody's")
    with pytest.raises(HeadwayError, match=r"kws\.onnx: exists already.*--force"):
        invoke(application, "build", "kws_res8", "--out", str(path))
    assert path.read_text() == "somebody's"
    invoke(application, "build", "kws_res8", "--out", str(path), "--force")
    assert onnx.load(path).graph.name == "kws_res8"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet5O",), "did you mean 'resnet50'"),
        (("resnet50", "--batch", "0"), "batch = 0; accepted"),
        (("resnet50", "--option", "image_size"), "'image_size': accepted: KEY=VALUE"),
        (("resnet50", "--option", "image_size=big"), "'big'; accepted: a whole number"),
        (("resnet50", "--option", "size=64"), "no option named 'size'.*accepted: image_size"),
        (("resnet50", "--option", "batch=2"), "batch is no option of a model"),
        (("resnet50", "--option", "image_size=64", "--option", "image_size=96"), "image_size: given twice"),
    ],
)
def test_mistakes_are_told_and_leave_no_file(
    application: typer.Typer, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(HeadwayError, match=message):
        invoke(application, "build", *arguments, "--out", str(path))
    assert not path.exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("model.bin", r"model\.bin: the name ends in '\.bin'; accepted: \.onnx"),
        ("missing/model.onnx", "there is no folder"),
        ("folder.onnx", "is a folder"),
    ],
)
def test_unfit_targets_are_refused(
    application: typer.Typer, tmp_path: Path, target: str, message: str
) -> None:
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(HeadwayError, match=message):
        invoke(application, "build", "kws_res8", "--out", str(tmp_path / target), "--force")
