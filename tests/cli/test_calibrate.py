"""`headway calibrate` and `headway inspect --predict`. Nothing is timed: measurements are made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app, main
from headway.models.network_sample import NetworkSample
from headway.models.node_times import estimated_node_s
from headway.models.node_work import node_works
from headway.models.prepared import PreparedModel
from headway.predict.latency_fit import FEWEST_NETWORKS
from headway.wiring import calibration

runner = CliRunner()


class Device:
    """Stands in for measuring: a machine that takes what the estimate says; it may be interrupted."""

    def __init__(self) -> None:
        self.measured: list[tuple[int, int]] = []
        self.interrupted_after = -1

    def __call__(
        self, prepared: PreparedModel, number: int, family: str, processors: Sequence[int]
    ) -> NetworkSample:
        if len(self.measured) == self.interrupted_after:
            raise KeyboardInterrupt
        threads = len(processors)
        self.measured.append((number, threads))
        works = node_works(prepared)
        node_s = estimated_node_s(prepared, threads, works)
        return NetworkSample(number, family, threads, works, node_s, sum(node_s) + 50e-6)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Device:
    made = Device()
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    monkeypatch.setattr(calibration, "measured_network", made)
    monkeypatch.setattr(calibration, "FAST_NETWORKS", FEWEST_NETWORKS)
    return made


def calibrate(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, ["calibrate", "--fast", "--threads", "1", *arguments])
    return result.exit_code, result.output


def test_an_interruption_loses_nothing_and_predictions_follow(device: Device, tmp_path: Path) -> None:
    device.interrupted_after = 8
    code, said = calibrate()
    assert code == 130
    assert f"8 of {FEWEST_NETWORKS} measurements are kept" in said
    with calibration.samples_file().open("a") as file:
        file.write('{"number":8,"fam')  # a line that was not written to its end
    device.interrupted_after = -1
    code, said = calibrate()
    assert code == 0
    assert device.measured == [(number, 1) for number in range(FEWEST_NETWORKS)]
    assert f"{FEWEST_NETWORKS - 8} measurements, 8 kept from before" in said
    first = calibration.calibration_file().read_text()
    code, said = calibrate("--out", str(tmp_path / "other.json"))
    assert code == 0
    assert said.count(f"0 measurements, {FEWEST_NETWORKS} kept from before")
    assert len(device.measured) == FEWEST_NETWORKS
    assert (tmp_path / "other.json").read_text() == first

    result = runner.invoke(app, ["inspect", "squeezenet", "--dim", "image_size=64", "--predict", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["basis"] == "as calibrated on this machine"
    total = found["total"]
    assert total["low_s"] < total["mean_s"] < total["high_s"]
    assert sum(block["mean_s"] for block in found["blocks"]) == pytest.approx(total["mean_s"])


def test_without_calibration_the_shipped_parameters_are_used_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    result = runner.invoke(app, ["inspect", "kws_res8", "--predict"])
    assert result.exit_code == 0
    assert "not calibrated here" in result.output
    assert "Conv" in result.output


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_mistakes_are_named(
    device: Device, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--threads 'two': accepted: whole numbers" in failure(capsys, "calibrate", "--threads", "two")
    assert "threads = [4096]; accepted: from 1" in failure(capsys, "calibrate", "--threads", "4096")
    said = failure(capsys, "inspect", "kws_res8", "--predict", "--threads", "77")
    assert "77 threads: not calibrated; accepted: 1" in said
    said = failure(capsys, "inspect", "kws_res8", "--predict", "--gpu", "h100-sxm")
    assert "--predict and --gpu: accepted: one of them" in said
    calibration.calibration_file().write_text("{}")
    assert "format None; accepted: 1" in failure(capsys, "inspect", "kws_res8", "--predict")
    calibration.samples_file().write_text("nothing\n")
    assert "line 1: " in failure(capsys, "calibrate", "--fast")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "latency.json"))
    (tmp_path / "latency.json").write_text("a file")
    assert "Not a directory" in failure(capsys, "calibrate", "--fast")
    assert device.measured[1:] == []
