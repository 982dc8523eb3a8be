"""`headway inspect --gpu`."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from headway.cli import inspect as inspect_command
from headway.core.errors import HeadwayError


@pytest.fixture
def run():
    parent = typer.Typer()
    inspect_command.register(parent)
    parent.callback()(lambda: None)

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(parent, ["inspect", "--no-runtime", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout

    return invoke


def test_json_has_blocks_that_add_up_to_the_total(run):
    found = json.loads(run("resnet18", "--gpu", "h100-sxm", "--json", "--dim", "batch=4"))["gpu"]
    for name in ("middle", "low", "high"):
        total = sum(block["latency_s"][name] for block in found["blocks"])
        assert found["latency_s"][name] == pytest.approx(total)
    assert found["latency_s"]["low"] < found["latency_s"]["middle"] < found["latency_s"]["high"]
    assert found["precision"] == "float32"
    assert not found["measured"]
    assert sum(block["layers"] for block in found["blocks"]) > 40


def test_the_table_says_what_is_measured_and_what_is_a_guess(run):
    measured = run("bert_base", "--gpu", "v100")
    assert "kernels of this GPU were measured" in measured
    guessed = run("mobilenet_v2", "--gpu", "l4")
    assert "not measured" in guessed
    assert "no rows of depthwise convolution" in guessed
    assert "58 SMs" in guessed


def test_a_device_of_ones_own(run, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("bandwidth_gb_s: 1000\nsms: 100\nclock_mhz: 1500\nfp32_gflops: 19200\nl2_mb: 32\n")
    own = json.loads(run("resnet18", "--gpu", str(file), "--json"))["gpu"]
    assert own["device"]["name"] == "mine"
    file.write_text("bandwidth_gb_s: 1000\nsms: 100\nclock_mhz: 1500\nfp32_gflops: 19200\n")
    with pytest.raises(HeadwayError, match=r"mine\.yaml: l2_mb: missing"):
        run("resnet18", "--gpu", str(file))
    with pytest.raises(HeadwayError, match="not known; accepted"):
        run("resnet18", "--gpu", "gtx")
    with pytest.raises(HeadwayError, match=r"absent\.yaml"):
        run("resnet18", "--gpu", str(tmp_path / "absent.yaml"))
    with pytest.raises(HeadwayError, match="merged"):
        run("resnet18", "--merged", "--gpu", "t4")
