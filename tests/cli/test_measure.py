"""`--measure`: what decisions really take, beside results that stay the same; and what they are charged."""

import json
import subprocess
import sys

SCENARIO = """
name: small
hardware: stream-hetero4
requests: 40
noise: {solo_std: 0.0}
tenants:
  - {name: a, model: kws_res8, sla: {isolated: 4.0}, arrivals: {process: periodic, rate: 10 /s}}
"""


def headway(*words, cwd):
    command = [sys.executable, "-c", "from headway.cli.app import main; main()", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_decision_times_are_told_beside_results_that_stay_the_same(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    plain = headway("compare", "s.yaml", "--policies", "fcfs,edf", "--out", "plain", cwd=tmp_path)
    timed = headway(
        "compare", "s.yaml", "--policies", "fcfs,edf", "--out", "timed", "--measure", cwd=tmp_path
    )
    assert "decisions, us: p50" not in plain
    assert "\nfcfs: " in timed
    assert "\nedf: " in timed
    measured = json.loads((tmp_path / "timed" / "measured.json").read_text())["policies"]
    for figures in measured.values():
        times = figures["decision_us"]
        assert times["count"] >= 40
        assert 0.0 < times["p50"] <= times["p99"] <= times["max"]
    assert set(measured) == {"fcfs", "edf"}
    assert not (tmp_path / "plain" / "measured.json").exists()
    for name in ("results.json", "edf/log-00000.arrows"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "timed" / name).read_bytes()


def test_a_charged_decision_delays_every_run_that_it_starts(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "slow.yaml").write_text(SCENARIO + "decision_time: {fixed: 1 ms, per_ready: 1 ms}\n")
    means = []
    for name in ("s", "slow"):
        headway("simulate", f"{name}.yaml", "--policy", "fcfs", "--out", name, cwd=tmp_path)
        total = json.loads((tmp_path / name / "results.json").read_text())["policies"]["fcfs"]["total"]
        means.append(total["mean_ms"])
    # Nobody waits for anybody: one decision among one waiting request for each.
    assert abs(means[1] - means[0] - 2.0) < 1e-6
