"""`headway hardware`: what it prints, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from headway.cli import app as cli
from headway.cli import hardware
from headway.config import describe_hardware, preset_names


@pytest.fixture(autouse=True)
def _only_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    application = typer.Typer(pretty_exceptions_enable=False)
    application.callback()(lambda: None)
    hardware.register(application)
    monkeypatch.setattr(cli, "app", application)
    monkeypatch.setenv("COLUMNS", "80")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["hardware", *arguments])
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "list")
    assert status == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert set(preset_names()) <= set(rows), "each preset on one line of its own"
    assert "2 of 32x32 ws, 2 of 32x32 os" in rows["stream-hetero4"]
    assert "8 GB/s" in rows["stream-hetero4"]
    assert max(map(len, out.splitlines())) <= 80


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "list", "--json")
    assert status == 0
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert tuple(entries) == preset_names()
    planaria = entries["planaria16"]
    assert planaria["cores"] == 16
    assert planaria["kinds"] == {"subarray": 16}
    assert planaria["peak_macs_s"] == 16 * 32 * 32 * 700e6
    assert planaria["sram_bytes"] == 12 * 2**20
    assert "Planaria" in planaria["source"]


def test_show_names_source_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "show", "stream-hetero4")
    assert status == 0
    words = " ".join(out.split())
    for expected in (
        "tpu-0 to tpu-1",
        "meta-0 to meta-1",
        "2 MiB",
        "8 GB/s, 60 pJ/B",
        "1 us per run",
        "4.096 TMAC/s",
    ):
        assert expected in words
    description = describe_hardware("stream-hetero4")
    flowing = "".join(out.split())
    assert "".join(description.source.split()) in flowing
    assert "".join(description.assumptions.split()) in flowing


def test_show_as_json_loads_again(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "show", "moca8", "--json")
    assert status == 0
    assert describe_hardware(json.loads(out)) == describe_hardware("moca8")


def test_show_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "cores: [{name: only, array: {rows: 4, columns: 8}, dataflow: os, clock: 1 GHz, sram: 64 KiB}]\n"
        "dram: {bandwidth: 1 GB/s}\n"
    )
    status, out, _ = run(capsys, "show", str(file))
    assert status == 0
    assert "only" in out
    assert "4x8" in out
    assert "not said" in out, "a missing source is told"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("moca9", "error: no hardware preset named 'moca9' (did you mean 'moca8'?)"),
        ("{folder}/gone.yaml", "error: {folder}/gone.yaml: No such file or directory"),
        (
            "{folder}/bad.yaml",
            "error: {folder}/bad.yaml:2: cores: found an empty list; accepted: at least one core",
        ),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path, argument: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\ncores: []\ndram: {bandwidth: 1 GB/s}\n")
    status, out, err = run(capsys, "show", argument.replace("{folder}", str(tmp_path)))
    assert (status, out) == (2, "")
    assert err.startswith(message.replace("{folder}", str(tmp_path)))
    assert "Traceback" not in err
