"""`headway.run` and `headway.twin`: real models from a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.record.conservation import check_conservation


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("headway.live.rehearsal.disturbance", lambda *_: "")


def scenario(hardware: Any = None) -> headway.Scenario:
    return headway.Scenario.from_mapping(
        {
            "name": "small",
            "hardware": hardware
            or {"name": "one", "lanes": {"count": 1, "threads_per_lane": 1}, "overlap": 0.0},
            "requests": 20,
            "policy": "edf",
            "tenants": [
                {
                    "name": "words",
                    "model": "kws_res8",
                    "sla": {"deadline": "500 ms"},
                    "arrivals": {"process": "poisson", "rate": "100 /s"},
                }
            ],
        }
    )


def test_run_gives_a_result_with_the_drivers_report() -> None:
    result = headway.run(scenario())
    assert isinstance(result, headway.Result)
    assert result.policy == "edf"
    assert result.report.requests == 20
    outcomes = result.log.strings("outcome")[result.log.where("reply")]
    assert list(outcomes) == ["done"] * 20
    assert check_conservation(result.log) == []
    assert "words" in repr(result)


def test_twin_gives_a_prediction_and_repeats(tmp_path: Path) -> None:
    twin = headway.twin(scenario(), "fcfs", repeats=2)
    assert [result.policy for result in (twin.predicted, *twin.repeats)] == ["fcfs"] * 3
    assert len(twin.report.tenants[0].sla.repeats) == 2
    assert "predicted and measured" in repr(twin)
    twin.write(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "twin.json").read_text())["policy"] == "fcfs"
    results = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    assert set(results) == {"predicted", "measured-1", "measured-2"}


def test_doubtful_profiles_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.live.rehearsal.disturbance", lambda *_: "it shook")
    with pytest.warns(UserWarning, match=r"busy machine \(it shook\); it will be measured again next time"):
        headway.run(scenario())


@pytest.mark.parametrize("call", [headway.run, headway.twin])
def test_mistakes_are_said_before_anything_is_measured(call: Any, tmp_path: Path) -> None:
    with pytest.raises(headway.HeadwayError, match="found 'nope'"):
        call(scenario(), "nope")
    with pytest.raises(headway.HeadwayError, match="can only be simulated; accepted: lanes of this machine"):
        call(scenario("stream-hetero4"))
    assert not (tmp_path / "cache").exists()


def test_a_twin_needs_a_repeat() -> None:
    with pytest.raises(headway.HeadwayError, match="repeats: found 0"):
        headway.twin(scenario(), repeats=0)
