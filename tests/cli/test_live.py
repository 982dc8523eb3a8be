"""`headway run` and `headway twin` on small real models."""

import json
from pathlib import Path

import pytest

from headway.cli import app
from headway.record.conservation import check_conservation
from headway.record.log import read_log

SCENARIO = """
name: live
hardware: {hardware}
requests: 40
policy: {policy}
tenants:
  - {{name: a, model: kws_res8, sla: {{isolated: 50.0}}, arrivals: {{process: poisson, rate: 60 /s}}}}
  - {{name: b, model: fsrcnn, options: {{image_size: 24}}, sla: {{deadline: 200 ms}},
      arrivals: {{process: poisson, rate: 40 /s}}}}
"""


@pytest.fixture
def headway(tmp_path, monkeypatch, capsys):
    """Runs the command line in a folder of its own; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))

    def run(*arguments):
        with pytest.raises(SystemExit) as ending:
            app.main(arguments)
        out, err = capsys.readouterr()
        return ending.value.code or 0, out, err

    return run


def write(policy="edf", hardware="{name: one, lanes: {count: 1, threads_per_lane: 1}}"):
    Path("s.yaml").write_text(SCENARIO.format(policy=policy, hardware=hardware))
    return "s.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["edf", "laxity", "split"])
def test_run_answers_every_request_and_writes_what_simulate_writes(headway, policy):
    code, out, _ = headway("run", write(policy), "--out", "results")
    assert code == 0
    assert "scheduler:" in out
    results = json.loads(Path("results/results.json").read_text())["policies"][policy]
    assert set(results["tenants"]) == {"a", "b"}
    assert results["total"]["failed"] == results["total"]["unfinished"] == 0
    log = read_log_of(policy)
    assert len(log.where("arrive")) == len(log.where("reply")) == 40
    assert check_conservation(log) == []
    assert Path("results/report.html").read_text().startswith("<!doctype html>")


def read_log_of(policy):
    return read_log(Path("results") / policy)


@pytest.mark.slow
def test_lanes_in_a_process_of_their_own_do_the_same(headway):
    hardware = "{name: one, lanes: {count: 1, threads_per_lane: 1}, isolation: process}"
    code, _, _ = headway("run", write(hardware=hardware), "--out", "results")
    assert code == 0
    assert len(read_log_of("edf").where("reply")) == 40


@pytest.mark.slow
def test_twin_predicts_runs_and_compares(headway):
    code, out, _ = headway("twin", write(), "--repeats", "2", "--out", "results")
    assert code == 0
    assert "predicted and measured" in out
    twin = json.loads(Path("results/twin.json").read_text())
    assert [tenant["tenant"] for tenant in twin["tenants"]] == ["a", "b"]
    assert all(len(tenant["sla"]["repeats"]) == 2 for tenant in twin["tenants"])
    assert set(json.loads(Path("results/results.json").read_text())["policies"]) == {
        "predicted",
        "measured-1",
        "measured-2",
    }


@pytest.mark.slow
def test_a_simulation_from_the_profile_is_the_same_twice(headway, monkeypatch):
    monkeypatch.setattr("headway.live.rehearsal.disturbance", lambda *_: "")
    scenario = write()
    headway("simulate", scenario, "--out", "first")
    headway("simulate", scenario, "--out", "second")
    assert Path("first/results.json").read_text() == Path("second/results.json").read_text()


def test_an_accelerator_cannot_be_run(headway):
    code, _, err = headway("run", write(hardware="stream-hetero4"))
    assert code == 2
    assert "can only be simulated; accepted: lanes of this machine" in err


def test_more_lanes_than_processors_are_refused(headway):
    code, _, err = headway("run", write(hardware="{name: many, lanes: {count: 200, threads_per_lane: 1}}"))
    assert code == 2
    assert "need 200 processors" in err


def test_an_unknown_policy_is_named_before_anything_is_measured(headway):
    code, _, err = headway("run", write(), "--policy", "fastest")
    assert code == 2
    assert "found 'fastest'" in err


@pytest.mark.parametrize("command", ["run", "twin"])
def test_an_unknown_policy_is_refused_before_anything_is_measured(headway, command):
    code, _, err = headway(command, write(policy="nope"))
    assert code == 2
    assert "policy: found 'nope'" in err
    assert not Path("cache").exists()


@pytest.mark.slow
def test_damaged_overheads_are_measured_again_and_said(headway):
    scenario = write()
    headway("simulate", scenario)
    (kept,) = Path("cache").glob("lanes-*.json")
    whole = kept.read_text()
    kept.write_text("{")
    with pytest.warns(UserWarning, match="measured again"):
        code, _, _ = headway("simulate", scenario)
    assert code == 0
    assert json.loads(kept.read_text()).keys() == json.loads(whole).keys()


@pytest.mark.slow
def test_a_profile_taken_on_a_busy_machine_is_said_and_taken_again(headway, monkeypatch):
    monkeypatch.setattr("headway.live.rehearsal.disturbance", lambda *_: "others played chess")
    scenario = write()
    code, _, err = headway("simulate", scenario)
    assert code == 0
    busy = "was profiled on a busy machine (others played chess)"
    assert f"warning: kws_res8: {busy}; it will be measured again next time" in err
    monkeypatch.setattr("headway.live.rehearsal.disturbance", lambda *_: "")
    assert f"warning: kws_res8: {busy}; measured again\n" in headway("simulate", scenario)[2]
    assert "busy" not in headway("simulate", scenario)[2]
