"""`headway suite` lists suites and cells, and writes cells as scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headway.cli import app as cli
from headway.config import Scenario, load_suite


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["suite", *arguments])
    return int(stop.value.code or 0)


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    assert "core-grid" in capsys.readouterr().out
    assert run("cells", "small") == 0
    assert capsys.readouterr().out.split() == [cell.name for cell in load_suite("small").cells()]


def test_a_cell_becomes_a_scenario_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = load_suite("small")
    cell = suite.cells()[0]
    assert run("write", "small", cell.name, "--seed", "5", "--out", str(tmp_path / "cell.yaml")) == 0
    assert Scenario.load(tmp_path / "cell.yaml") == suite.scenario(cell, 5)
    assert run("write", "small", cell.name) == 0
    assert Scenario.from_mapping(yaml.safe_load(capsys.readouterr().out)) == suite.scenario(cell, 101)


def test_files_of_a_suite_are_found_from_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.csv").write_text("")
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nmodels: [{name: own, tenants: [models/net.csv]}]\nhardware: [moca8]\nloads: [1.0]\n"
        "requests: 10\nseeds: [1]\npolicies: [edf]\n"
    )
    (tmp_path / "deep" / "er").mkdir(parents=True)
    out = tmp_path / "deep" / "er" / "cell.yaml"
    assert run("write", str(tmp_path / "mine.yaml"), "own", "--out", str(out)) == 0
    scenario = Scenario.load(out)
    path = scenario.model_path(scenario.tenants[0])
    assert path is not None
    assert path.resolve() == (tmp_path / "models" / "net.csv").resolve()


def test_what_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("write", "small", "light_moca9_load0.9") == 2
    assert "(did you mean 'light_moca8_load0.9'?)" in capsys.readouterr().err
    assert run("cells", "large") == 2
    assert "no suite named 'large'" in capsys.readouterr().err
