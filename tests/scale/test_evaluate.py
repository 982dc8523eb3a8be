"""Evaluations: every run once, failures kept apart, nothing lost by an interrupt."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer

from headway.cli.many import end_with
from headway.config import load_suite
from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.record.evaluation_outputs import write_evaluation
from headway.scale.evaluate import Backend, evaluate, require_folder
from headway.scale.pool import DIED
from headway.scale.store import PARTS, Part, finished
from headway.scale.tasks import Keys, PolicyFile, Task, tasks_of

BREAKS = """
from headway import Policy, policy

@policy("breaks")
class Breaks(Policy):
    \"\"\"Fails at its first decision.\"\"\"
    def decide(self, view):
        raise RuntimeError("on purpose")
"""

NOTES = """
from __future__ import annotations
from dataclasses import dataclass
from headway import Dispatch, Policy, policy

@dataclass
class Note:
    name: str

@policy("notes")
class Notes(Policy):
    \"\"\"Has a dataclass beside it.\"\"\"
    def decide(self, view):
        for request, core in zip(view.ready, list(view.idle)):
            yield Dispatch((request,), range(request.next_block, request.next_block + 1), (core,))
"""

DIES = """
import os
from headway import Policy, policy

@policy("dies")
class Dies(Policy):
    \"\"\"Takes its process with it.\"\"\"
    def decide(self, view):
        os._exit(3)
"""


def tasks_from(suite_file: Path, policies: Sequence[str] = ()) -> list[Task]:
    suite = load_suite(suite_file)
    return tasks_of(suite, suite.seeds, policies or suite.policies, [])


def shown(row: Row) -> tuple[object, ...]:
    """What must not depend on how a run was done; what is measured with a clock does."""
    return (
        row["cell"],
        row["policy"],
        row["seed"],
        row["sla_satisfaction"],
        row["energy_mj"],
        row["sla_bound"],
    )


def run(suite_file: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    code = "from headway.cli.app import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "evaluate", str(suite_file), "--out", str(out), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_row_for_every_run_in_order(suite_file: Path, tmp_path: Path) -> None:
    tasks = tasks_from(suite_file)
    seen: list[int] = []
    rows = evaluate(tasks, tmp_path / "out", Backend(), on_rows=lambda found: seen.append(len(found)))
    expected = [(task.cell, policy, task.seed) for task in tasks for policy in task.policies]
    assert [(row["cell"], row["policy"], row["seed"]) for row in rows] == expected
    assert seen == [0, 2, 2, 2, 2]
    for row in rows:
        assert not row["failed"]
        assert 0 <= row["sla_satisfaction"] <= row["sla_bound"] <= 1
        assert row["sla_worst_tenant"] <= row["sla_satisfaction"]
        assert row["decisions"] > 0
        total = sum(row[f"time_share_{mode}"] for mode in ("serial", "fused", "pipeline", "split"))
        assert total == pytest.approx(1.0)
    arrivals = {(row["cell"], row["seed"]): row["sla_bound"] for row in rows}
    assert all(arrivals[row["cell"], row["seed"]] == row["sla_bound"] for row in rows)  # shared by policies
    assert len({row["sla_satisfaction"] for row in rows}) > 2


def test_files_hold_what_the_rows_say(suite_file: Path, tmp_path: Path) -> None:
    rows = evaluate(tasks_from(suite_file), tmp_path / "out", Backend())
    written = write_evaluation(tmp_path / "out", "tiny", rows, {"Date": "today"})
    table = pq.read_table(written.results)
    assert table.num_rows == 8
    assert table.column("sla_satisfaction").to_pylist() == [row["sla_satisfaction"] for row in rows]
    assert table.column("at.load").to_pylist() == [0.6] * 4 + [12.0] * 4
    assert set(table.column("at.hardware").to_pylist()) == {"slow-memory"}
    assert table.column("time_serial").to_pylist()[0] == rows[0]["modes_over_time"]["serial"]
    assert table.schema.metadata[b"Date"] == b"today"
    lines = written.summary.read_text().splitlines()
    assert len(lines) == 1 + 4
    assert lines[0].startswith("cell,models,hardware,qos,load,")
    assert "<h1>tiny</h1>" in written.report.read_text(encoding="utf-8")


def test_what_is_finished_is_not_run_again(suite_file: Path, tmp_path: Path) -> None:
    tasks = tasks_from(suite_file)
    first = evaluate(tasks, tmp_path / "out", Backend())
    seen: list[int] = []
    again = evaluate(tasks, tmp_path / "out", Backend(), on_rows=lambda found: seen.append(len(found)))
    assert seen == [8]
    assert again == first
    more = evaluate(
        tasks_from(suite_file, ["fcfs", "edf"]),
        tmp_path / "out",
        Backend(),
        on_rows=lambda f: seen.append(len(f)),
    )
    assert seen == [8, 4, 1, 1, 1, 1]
    assert [row for row in more if row["policy"] == "fcfs"] == [
        row for row in first if row["policy"] == "fcfs"
    ]


def test_keys_change_with_whatever_results_depend_on(suite_file: Path) -> None:
    (task, other_seed, *_) = tasks_from(suite_file)
    keys = Keys()
    assert keys.of(task, "fcfs") == Keys().of(task, "fcfs")
    with_file = Keys([PolicyFile("mine.py", BREAKS)])
    changed = Keys([PolicyFile("mine.py", BREAKS + "\n")])
    slower = Task(
        task.cell, task.coordinates, task.scenario.with_overrides({"hardware.dram.bandwidth": "1 GB/s"}), ()
    )
    found = [
        keys.of(task, "fcfs"),
        keys.of(task, "edf"),
        keys.of(other_seed, "fcfs"),
        keys.of(slower, "fcfs"),
        with_file.of(task, "fcfs"),
        changed.of(task, "fcfs"),
    ]
    assert len(set(found)) == len(found)


def test_a_line_that_was_cut_off_is_run_again(suite_file: Path, tmp_path: Path) -> None:
    tasks = tasks_from(suite_file)[:1]
    first = evaluate(tasks, tmp_path, Backend())
    (part,) = (tmp_path / PARTS).glob("*.jsonl")
    part.write_bytes(part.read_bytes()[:-40])
    assert len(finished(tmp_path)) == 1
    again = evaluate(tasks, tmp_path, Backend())
    assert [shown(row) for row in again] == [shown(row) for row in first]


def test_a_part_that_ends_in_a_cut_line_takes_whole_lines(tmp_path: Path) -> None:
    """As after a crash, once another process with the same number comes."""
    Part(tmp_path, "process-1").add({"key": "a", "failed": False})
    (file,) = (tmp_path / PARTS).iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b'\n{"key": "b", "fai')
    Part(tmp_path, "process-1").add({"key": "c", "failed": False})
    Part(tmp_path, "process-1").add({"key": "d", "failed": False})
    assert sorted(finished(tmp_path)) == ["a", "c", "d"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    part = Part(tmp_path, "process-1")
    (tmp_path / PARTS / "process-1.jsonl").symlink_to("/dev/full")
    with pytest.raises(HeadwayError, match=r"process-1\.jsonl cannot be written: No space left on device"):
        part.add({"key": "a", "failed": False})


def test_a_run_in_which_no_request_counts_has_failed(suite_file: Path, tmp_path: Path) -> None:
    task = tasks_from(suite_file)[0]
    idle = replace(task, scenario=task.scenario.with_overrides({"warmup": "1000 s"}))
    rows = evaluate([idle], tmp_path, Backend())
    assert [row["failed"] for row in rows] == [True, True]
    assert "none arrived after the warm-up; accepted: a shorter warmup" in rows[0]["cause"]


def test_a_policy_file_may_have_dataclasses(suite_file: Path, tmp_path: Path) -> None:
    PolicyFile("notes.py", NOTES).register()
    (row,) = evaluate(tasks_from(suite_file, ["notes"])[:1], tmp_path, Backend())
    assert not row["failed"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\nimport nothing_of_that_name\n", r"mine\.py:2: ModuleNotFoundError: No module named"),
        ("x = (", r"mine\.py: SyntaxError: '\(' was never closed \(.*line 1\)"),
        ("from headway import policy\nfrom headway.policies.edf import Edf as E\n"
         "@policy('edf')\nclass Edf(E): ...", r"mine\.py:3: ValueError: policy 'edf' is already registered"),
        (BREAKS.replace('"breaks"', '"a,b"'), "policy 'a,b': accepted as a name: letters, digits"),
        (BREAKS.replace('"breaks"', '"a:drop"'), "without ':drop' at the end"),
    ],
)  # fmt: skip
def test_mistakes_in_a_policy_file_have_its_line(tmp_path: Path, source: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(HeadwayError, match=said):
        PolicyFile.read(file).register()


def test_a_policy_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(HeadwayError, match=r"mine\.py: 'utf-8' codec .* accepted: a Python file in UTF-8"):
        PolicyFile.read(file)


def test_a_new_version_of_a_policy_file_takes_the_place_of_the_old_one() -> None:
    PolicyFile("mine.py", BREAKS).register()
    PolicyFile("mine.py", BREAKS.replace("RuntimeError", "ValueError")).register()
    with pytest.raises(HeadwayError, match="policy 'breaks' is already registered by Breaks"):
        PolicyFile("other.py", BREAKS).register()


def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(HeadwayError, match=r"--out .*file: is a file; accepted: a folder"):
        require_folder(file)
    with pytest.raises(HeadwayError, match=r"--out .*file/below: nothing can be written there: Not a dir"):
        require_folder(file / "below")
    require_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_failures_are_told_once_for_each_cause(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"cell": "a", "policy": "x", "seed": seed, "failed": seed != 9, "cause": f"cause {seed % 2}"}
        for seed in range(10)
    ]
    with pytest.raises(typer.Exit):
        end_with(rows)
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "failed: a, x, seed 0 and 4 more: cause 0",
        "failed: a, x, seed 1 and 3 more: cause 1",
        "error: 9 of 10 runs failed; the others are in the results",
    ]
    end_with(rows[9:])
    with pytest.raises(typer.Exit):
        end_with(rows[:2])
    assert "the others" not in capsys.readouterr().err


def test_a_failing_policy_loses_no_other_run(suite_file: Path, tmp_path: Path) -> None:
    PolicyFile("breaks.py", BREAKS).register()
    tasks = tasks_from(suite_file, ["breaks", "fcfs"])[:1]
    rows = evaluate(tasks, tmp_path, Backend())
    assert [row["failed"] for row in rows] == [True, False]
    assert "on purpose" in rows[0]["cause"]
    assert rows[0].get("sla_satisfaction") is None
    written = write_evaluation(tmp_path, "tiny", rows, {})
    assert "on purpose" in written.report.read_text(encoding="utf-8")
    assert pq.read_table(written.results).column("failed").to_pylist() == [True, False]
    seen: list[int] = []
    evaluate(tasks, tmp_path, Backend(), on_rows=lambda found: seen.append(len(found)))
    assert seen == [1, 1]  # what failed is tried again


def test_an_unknown_policy_is_said_before_anything_runs(suite_file: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="fcsf"):
        evaluate(tasks_from(suite_file, ["fcsf"]), tmp_path / "out", Backend())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_processes_give_the_same_as_one(suite_file: Path, tmp_path: Path) -> None:
    tasks = tasks_from(suite_file)
    alone = evaluate(tasks, tmp_path / "one", Backend())
    together = evaluate(tasks, tmp_path / "two", Backend(workers=2))
    assert [shown(row) for row in together] == [shown(row) for row in alone]
    assert len(finished(tmp_path / "two")) == 8


@pytest.mark.slow
def test_a_process_that_dies_loses_no_other_run(suite_file: Path, tmp_path: Path) -> None:
    file = PolicyFile("dies.py", DIES)
    file.register()
    tasks = [*tasks_from(suite_file, ["dies"])[:1], *tasks_from(suite_file)[:3]]
    rows = evaluate(tasks, tmp_path, Backend(workers=2), [file])
    assert [row["failed"] for row in rows] == [True] + [False] * 6
    assert rows[0]["cause"] == DIED


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resumes_after_it_is_stopped(suite_file: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Stopped when some runs are done: those stay, the others are run, and all are as if never stopped."""
    out = tmp_path / "out"
    stopped = run(suite_file, out, "--workers", "2")
    until = time.monotonic() + 120
    while not finished(out) and stopped.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(stopped.pid, how)
    _, said = stopped.communicate(timeout=60)
    assert stopped.returncode != 0
    if how is signal.SIGINT:
        assert f"runs are kept in {out}; the same command goes on from there" in said
    kept = {key: row["wall_s"] for key, row in finished(out).items()}
    assert kept
    assert not (out / "results.parquet").exists()

    resumed = run(suite_file, out, "--workers", "2")
    shown_table, said = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, said
    assert "Policies over 2 cells and 2 seeds" in shown_table
    table = pq.read_table(out / "results.parquet")
    assert table.num_rows == 8
    assert table.column("failed").to_pylist() == [False] * 8
    took = dict(zip(table.column("key").to_pylist(), table.column("wall_s").to_pylist(), strict=True))
    assert kept.items() <= took.items()  # not run again: they took exactly as long

    alone = evaluate(tasks_from(suite_file), tmp_path / "alone", Backend())
    assert table.column("sla_satisfaction").to_pylist() == [row["sla_satisfaction"] for row in alone]


@pytest.mark.slow
def test_the_command_says_which_runs_failed(suite_file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(BREAKS)
    more = ("--policies", "breaks,fcfs", "--seeds", "5", "--workers", "1", "--policy-file", str(mine))
    process = run(suite_file, tmp_path / "out", *more)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "2 of 4 runs failed" in said
    assert "on purpose" in said
    rows = [json.loads(line) for line in next((tmp_path / "out" / PARTS).iterdir()).read_text().splitlines()]
    assert {row["seed"] for row in rows} == {5}


def test_without_ray_the_extra_is_named(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HeadwayError, match=r'pip install "headway\[scale\]"'):
        evaluate(tasks_from(suite_file), tmp_path, Backend(ray="auto"))


@pytest.mark.slow
def test_ray_gives_the_same_as_one_process(suite_file: Path, tmp_path: Path) -> None:
    """On a cluster of this machine alone, in a process of its own, so that it ends whatever Ray does."""
    if importlib.util.find_spec("ray") is None:
        assert not os.environ.get("CI"), "Ray is missing where everything is to be tested"
        pytest.skip('needs Ray: pip install "headway[scale]"')
    process = run(suite_file, tmp_path / "ray", "--seeds", "1", "--policies", "fcfs", "--ray", "local")
    try:
        _, said = process.communicate(timeout=180)  # seconds, but for a busy machine
    finally:
        process.kill()
    assert process.returncode == 0, said
    table = pq.read_table(tmp_path / "ray" / "results.parquet")
    tasks = [task for task in tasks_from(suite_file, ["fcfs"]) if task.seed == 1]
    alone = evaluate(tasks, tmp_path / "one", Backend())
    assert table.column("sla_satisfaction").to_pylist() == [row["sla_satisfaction"] for row in alone]
    assert len(finished(tmp_path / "ray")) == 2
