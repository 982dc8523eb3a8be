"""Points of lane policies over processes: named, resumed, and from the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.core.errors import HeadwayError
from headway.scale.block_tasks import FULL, BlockGrid, BlockTask, block_tasks
from headway.scale.evaluate import Backend, evaluate
from headway.scale.tasks import Keys

GRID = BlockGrid(
    devices=("streams",),
    models=(2,),
    utilisations=(0.5,),
    slas=(4.0,),
    seeds=(1, 2),
    requests=120,
    newcomer_models=None,
)


def test_the_full_grid_has_twenty_thousand_requests_in_every_point() -> None:
    points = FULL.points()
    assert all(point.requests * len(FULL.seeds) >= 20_000 for point in points)
    assert {point.utilisation for point in points} == {0.3, 0.5, 0.7, 0.9, 1.2}
    assert {point.sla for point in points} == {2.0, 3.0, 5.0, 10.0}
    assert {point.models for point in points} == {2, 4, 8}
    assert sum(point.newcomers for point in points) == len(FULL.devices)


def test_finished_runs_are_kept(tmp_path: Path) -> None:
    tasks = block_tasks(GRID, ["edf", "headway"])
    rows = evaluate(tasks, tmp_path, Backend())
    assert [(row["policy"], row["seed"]) for row in rows] == [
        (policy, seed) for seed in (1, 2) for policy in ("edf", "headway")
    ]
    seen: list[int] = []
    assert evaluate(tasks, tmp_path, Backend(), on_rows=lambda found: seen.append(len(found))) == rows
    assert seen == [4]


def test_keys_tell_points_apart() -> None:
    (task, other) = block_tasks(GRID, ["edf"])
    keys = Keys()
    newer = BlockTask(GRID.points()[0], ("edf",))
    assert keys.of(task, "edf") == keys.of(newer, "edf")
    assert len({keys.of(task, "edf"), keys.of(other, "edf"), keys.of(task, "sjf")}) == 3


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (BlockGrid(devices=("phone",)), "--devices: found 'phone'; accepted: lanes"),
        (BlockGrid(models=(0,)), "--models"),
        (BlockGrid(utilisations=(0.0,)), "--utilisations"),
        (BlockGrid(slas=(-1.0,)), "--slas"),
        (BlockGrid(requests=2), "--requests: found 2"),
        (BlockGrid(requests=10_000_000), "together"),
    ],
)
def test_mistakes_are_named(grid: BlockGrid, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        grid.points()


def test_the_command_writes_its_files(tmp_path: Path) -> None:
    options = (
        "--devices streams --models 2 --utilisations 0.5 --slas 4 --seeds 1 --requests 60 --no-newcomers"
    )
    chosen = ["--policies", "edf,skadi", "--workers", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["evaluate", "blocks", *options.split(), *chosen])
    assert result.exit_code == 0, result.output
    assert "streams, 2 models, load 0.5, SLA 4" in result.output.replace("\n", " ")
    with (tmp_path / "runs.csv").open() as file:
        assert [row["policy"] for row in csv.DictReader(file)] == ["edf", "skadi"]
    assert (tmp_path / "report.html").exists()


def test_commands_beside_suites_keep_their_names() -> None:
    result = CliRunner().invoke(app, ["evaluate", "--help"])
    assert all(name in result.output for name in ("suite", "blocks", "predictor"))
    missing = CliRunner().invoke(app, ["evaluate", "no-such-suite"])
    assert isinstance(missing.exception, HeadwayError)
    assert "no-such-suite" in str(missing.exception)
    bad = CliRunner().invoke(app, ["evaluate", "blocks", "--models", "2.5"])
    assert str(bad.exception) == "--models: found '2.5'; accepted: whole numbers, separated by commas"
    nothing = CliRunner().invoke(app, ["evaluate", "predictor", "--gpu", "none"])
    assert "at least one of the two" in str(nothing.exception)
