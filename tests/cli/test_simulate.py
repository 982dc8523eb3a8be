"""`headway simulate` and `compare` with what users and their policies do wrong."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from headway.cli import app
from headway.record.log import read_log
from headway.sim import driver

SCENARIO = """
name: small
hardware: stream-hetero4
requests: {requests}
tenants:
  - {{name: a, model: kws_res8, sla: {{isolated: 4.0}}, arrivals: {{process: poisson, rate: 2000 /s}}}}
"""

HEADWAY = (sys.executable, "-c", "from headway.cli.app import main; main()")

POLICIES = """
import sys
from headway import Dispatch, Policy, Wake, policy

def serve(view):
    return [
        Dispatch((r,), range(r.next_block, r.blocks), (c,)) for r, c in zip(view.ready, view.idle)
    ]

@policy("t-undocumented")
class Undocumented(Policy):
    def decide(self, view):
        return serve(view)

@policy("t-raises-late")
class RaisesLate(Undocumented):
    calls = 0
    def decide(self, view):
        self.calls += 1
        return serve(view) if self.calls < 20 else [1 / 0]

@policy("t-none")
class Nothing(Policy):
    def decide(self, view):
        return None

@policy("t-fields")
class Fields(Policy):
    def decide(self, view):
        return [Dispatch(view.ready[0], 3, view.idle)]

@policy("t-stalls")
class Stalls(Policy):
    def decide(self, view):
        return []

@policy("t-only-wakes")
class OnlyWakes(Policy):
    def decide(self, view):
        return [Wake(view.now + 1e-6)]

@policy("t-wakes-never")
class WakesNever(Policy):
    def decide(self, view):
        return [Wake(float("nan"))]

@policy("t-busy")
class Busy(Policy):
    def decide(self, view):
        return [Dispatch((r,), range(r.next_block, r.blocks), view.device.cores[:1]) for r in view.ready]

@policy("t-endless")
class Endless(Policy):
    def decide(self, view):
        while view.ready:
            yield serve(view)[0]

@policy("t-takes")
class Takes(Policy):
    def decide(self, view):
        return serve(view) if view.ready.pop() else []

@policy("t-nan-key")
class NanKey(Undocumented):
    def key(self, request, view):
        return (float("nan"),)

@policy("t-unmakeable")
class Unmakeable(Undocumented):
    def __init__(self):
        raise KeyError("no such thing")

@policy("t-finish")
class FinishFails(Undocumented):
    def on_finish(self, run, actual_s, view):
        raise ValueError("boo")

@policy("t-exits")
class Exits(Policy):
    def decide(self, view):
        sys.exit(0)

@policy("t-preempts")
class Preempts(Undocumented):
    def decide(self, view):
        from headway import Preempt
        return [*serve(view), *(Preempt(run) for run in view.running)]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO.format(requests=40))
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path


def call(capsys, *arguments):
    """Exit status, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        app.main([str(each) for each in arguments])
    printed = capsys.readouterr()
    return ended.value.code or 0, printed.out, printed.err


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("t-raises-late", r"decide raised ZeroDivisionError: division by zero \(.*policies.py, line 20"),
        ("t-none", "decide returned None; accepted: an iterable"),
        ("t-fields", r"requests = Request\(id=0.*; accepted: a tuple of Request"),
        ("t-stalls", "40 requests wait, nothing runs"),
        ("t-only-wakes", "woken 1000 times in a row and did nothing"),
        ("t-wakes-never", "woken at nan"),
        ("t-busy", "on core '.*', which is busy"),
        ("t-endless", "more than 16 decisions for 1 waiting"),
        ("t-takes", "no attribute 'pop'"),
        ("t-nan-key", r"key returned \(nan,\)"),
        ("t-unmakeable", "cannot be made: KeyError: 'no such thing'"),
        ("t-finish", "on_finish raised ValueError: boo"),
        ("t-exits", "decide raised SystemExit"),
        ("t-preempts", "without declaring that it needs 'preempt'"),
    ],
)
def test_a_policy_that_fails_is_named_with_the_cause(name, cause, folder, capsys, monkeypatch):
    monkeypatch.setattr(driver, "MOST_IDLE_WAKES", 1000)
    status, out, error = call(
        capsys, "simulate", folder / "s.yaml", "--policy", name, "--policy-file", folder / "policies.py"
    )
    assert (status, out) == (2, "")
    assert error.startswith(f"error: policy '{name}'")
    assert error.count("\n") == 1
    assert re.search(cause, error)


def test_what_came_before_a_failure_stays_readable(folder, capsys):
    out = folder / "out"
    policies = "fcfs,t-raises-late"
    status, _, error = call(
        capsys, "compare", folder / "s.yaml", "--policies", policies, "--policy-file",
        folder / "policies.py", "--out", out,
    )  # fmt: skip
    assert status == 2
    assert "t-raises-late" in error
    assert len(read_log(out / "fcfs").where("reply")) == 40
    assert 0 < len(read_log(out / "t-raises-late").where("reply")) < 40


def test_policies_without_a_docstring_are_listed(folder, capsys):
    status, out, _ = call(capsys, "policies", "--policy-file", folder / "policies.py")
    assert status == 0
    assert "t-undocumented" in out


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
        ("from headway import policy\n@policy('x')\nclass X: pass", "X is no subclass of headway.Policy"),
    ],
)
def test_a_policy_file_that_fails_is_named(text, cause, folder, capsys):
    file = folder / "own.py"
    file.write_text(text)
    status, _, error = call(capsys, "simulate", folder / "s.yaml", "--policy-file", file)
    assert status == 2
    assert f"--policy-file {file}:" in error
    assert cause in error


def test_the_same_scenario_writes_the_same_bytes(folder):
    """In two processes that order sets and hashes differently."""
    written = []
    for seed in ("1", "2"):
        out = folder / f"out{seed}"
        subprocess.run(
            [*HEADWAY, "compare", folder / "s.yaml", "--policies", "edf,lucas", "--out", out],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        files = sorted(path for path in out.rglob("*") if path.is_file())
        written.append({path.relative_to(out).as_posix(): path.read_bytes() for path in files})
    assert len(written[0]) == 6
    assert written[0] == written[1]
    json.loads(written[0]["edf/timeline.json"])


def test_an_interrupt_leaves_a_readable_log(folder):
    (folder / "long.yaml").write_text(SCENARIO.format(requests=2_000_000))
    out = folder / "out"
    process = subprocess.Popen(
        [*HEADWAY, "simulate", folder / "long.yaml", "--policy", "fcfs", "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    segment = out / "fcfs" / "log-00000.arrows"
    while process.poll() is None and not (segment.exists() and segment.stat().st_size > 100_000):
        pass
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert len(read_log(out / "fcfs").where("reply")) > 100


def test_results_are_written_even_if_nobody_reads_the_output(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO.format(requests=50))
    command = [*HEADWAY, "compare", "s.yaml", "--policies", "fcfs,edf", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    process.wait(60)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["policies"]) == {"fcfs", "edf"}
    assert (tmp_path / "out" / "report.html").is_file()
