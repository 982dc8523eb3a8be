"""Sweeps: what may be varied, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headway.cli.app import main
from headway.config import Scenario
from headway.core.errors import HeadwayError
from headway.scale.sweep import Axis, sweep_tasks


def test_ranges_have_both_ends_and_no_rounding() -> None:
    assert Axis.parse("load=0.5:1.2:0.1").values == (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
    assert Axis.parse("load = 1:2:0.4").values == (1.0, 1.4, 1.8)
    assert Axis.parse("load=1:1:5").values == (1.0,)


def test_lists_have_numbers_and_texts() -> None:
    assert Axis.parse("hardware.dram.bandwidth=8GB/s, 16 GB/s").values == ("8GB/s", "16 GB/s")
    assert Axis.parse("tenants.camera.priority=0,3").values == (0, 3)
    assert Axis.parse("noise.solo_std=0,0.5").values == (0, 0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("load", "accepted: PLACE=VALUE"),
        ("=3", "accepted: PLACE=VALUE"),
        ("load=", "accepted: PLACE=VALUE"),
        ("load=1,,2", "an empty value"),
        ("load=1,1.0", "a value twice"),
        ("load=2:1:0.1", "LAST not below FIRST"),
        ("load=1:2:0", "LAST not below FIRST"),
        ("load=a:b:c", "accepted: PLACE=VALUE"),
        ("load=0:1:0.00001", "100,001 values"),
    ],
)
def test_what_is_no_axis_is_said(text: str, said: str) -> None:
    with pytest.raises(HeadwayError, match=f"--over.*{said}"):
        Axis.parse(text)


def test_all_combinations_with_all_seeds(scenario_file: Path) -> None:
    axes = [Axis("load", (0.5, 1.0)), Axis("hardware.dram.bandwidth", ("4 GB/s", "8 GB/s"))]
    tasks = sweep_tasks(Scenario.load(scenario_file), axes, [1, 2], ["edf"])
    assert [(dict(task.coordinates), task.seed) for task in tasks[:3]] == [
        ({"load": 0.5, "hardware.dram.bandwidth": "4 GB/s"}, 1),
        ({"load": 0.5, "hardware.dram.bandwidth": "4 GB/s"}, 2),
        ({"load": 0.5, "hardware.dram.bandwidth": "8 GB/s"}, 1),
    ]
    assert len(tasks) == 8
    assert tasks[2].scenario.device().dram_bandwidth_bytes_s == 8e9
    assert tasks[-1].scenario.offered_load == 1.0


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ([Axis("load", (1.0,)), Axis("load", (2.0,))], "load is there twice"),
        ([Axis("seed", (1, 2))], "--seeds"),
        ([Axis("policy", ("edf", "lucas"))], "--policies"),
        ([Axis("a", tuple(range(200))), Axis("b", tuple(range(200)))], "40,000 combinations"),
        ([Axis("lode", (1.0,))], "lode"),
        ([Axis("tenants.camera.priority", (1,))], "no item 'camera'"),
        ([Axis("hardware.dram.bandwidth", ("8 apples",))], "8 apples"),
    ],
)
def test_what_cannot_be_swept_is_said(scenario_file: Path, axes: list[Axis], said: str) -> None:
    with pytest.raises(HeadwayError, match=said):
        sweep_tasks(Scenario.load(scenario_file), axes, [1], ["edf"])


def test_the_command_prints_a_table_and_writes_files(
    scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "sweep",
                str(scenario_file),
                "--over",
                "load=1,8",
                "--over",
                "hardware.dram.bandwidth=2GB/s,8GB/s",
                *("--policies", "edf,lucas", "--seeds", "1,2", "--workers", "1", "--out", str(out)),
            ]
        )
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.count("GB/s") == 4
    assert "bound" in text
    assert str(out / "report.html") in text.replace("\n", "")
    table = pq.read_table(out / "results.parquet")
    assert table.num_rows == 16
    assert sorted(set(table.column("at.load").to_pylist())) == [1.0, 8.0]
    assert sorted(set(table.column("dram_bandwidth_gb_s").to_pylist())) == [2.0, 8.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--over", "load=1", "--seeds", "one"], "--seeds: found 'one'; accepted: whole numbers"),
        (["--over", "load=1", "--policies", ","], "--policies: found no name"),
        (["--over", "load=1", "--workers", "2", "--ray", "auto"], "--workers and --ray: found both"),
        (["--over", "load=1", "--policies", "lukas"], "lukas"),
    ],
)
def test_mistakes_are_one_message(
    scenario_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(scenario_file), *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_results_do_not_go_into_a_file(scenario_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(scenario_file), "--over", "load=1", "--out", str(scenario_file)])
    assert ended.value.code == 2
    assert "is a file; accepted: a folder" in capsys.readouterr().err
