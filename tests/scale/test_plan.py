"""Plans: limits found by bisection, which tenant breaks first, and what more hardware adds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from headway.cli.app import main
from headway.config import Scenario
from headway.core.errors import HeadwayError
from headway.scale import plan as planning
from headway.scale.plan import AS_IS, FURTHEST, Search, changes_of, plan, search_limits


def search(
    scenario: Scenario, resolution: float = 0.01, guesses: Mapping[str, float] | None = None
) -> Search:
    return Search(AS_IS, scenario, "edf", 1.0, resolution, guesses or {})


@pytest.mark.parametrize("guesses", [{}, {"quick": 2.9, "patient": 0.5}])
def test_limits_are_found_to_the_resolution(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch, guesses: dict[str, float]
) -> None:
    """In place of simulations a rule: quick holds up to 0.37, patient up to 3.1."""
    looked: list[float] = []

    def rule(_: Search, factor: float) -> dict[str, bool]:
        looked.append(factor)
        return {"quick": factor <= 0.37, "patient": factor <= 3.1}

    monkeypatch.setattr(planning, "_holds", rule)
    found = search_limits(search(Scenario.load(scenario_file), guesses=guesses))
    assert 0.37 / 1.01 <= found.by_tenant["quick"] <= 0.37
    assert 3.1 / 1.01 <= found.by_tenant["patient"] <= 3.1
    assert len(looked) == len(set(looked)) == found.simulations <= 30


def test_no_limit_and_no_load(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_holds", lambda _, factor: {"quick": False, "patient": True})
    found = search_limits(search(Scenario.load(scenario_file)))
    assert found.by_tenant == {"quick": 0.0, "patient": math.inf}


def test_what_does_not_fall_steadily_still_ends(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds again above a load at which it does not: the limit is below the lowest at which it breaks."""
    monkeypatch.setattr(
        planning,
        "_holds",
        lambda _, factor: {"quick": factor < 0.5 or 0.9 < factor < 1.3, "patient": factor < 1.0},
    )
    found = search_limits(search(Scenario.load(scenario_file)))
    assert found.by_tenant["patient"] == pytest.approx(1.0, rel=0.02)
    assert found.by_tenant["quick"] < 1.3


def test_changes_are_one_core_of_each_kind_and_a_little_bandwidth(scenario_file: Path) -> None:
    scenario = Scenario.load(scenario_file)
    changed = changes_of(scenario)
    assert list(changed) == ["one more tpu core", "one more meta core", "1 GB/s more"]
    assert changed["one more tpu core"].device().kind_counts == (3, 2)
    assert changed["1 GB/s more"].device().dram_bandwidth_bytes_s == 3e9


def test_a_lane_is_added_to_lanes_where_processors_are_left_for_it(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.load(scenario_file).with_overrides(
        {"hardware": {"name": "two", "lanes": {"count": 2, "threads_per_lane": 1}}}
    )
    monkeypatch.setattr(planning, "machine_threads", lambda: 3)
    (change,) = changes_of(scenario).items()
    assert change[0] == "one more lane"
    assert len(change[1].device().cores) == 3
    monkeypatch.setattr(planning, "machine_threads", lambda: 2)
    assert changes_of(scenario) == {}


@pytest.mark.slow
def test_a_plan_of_a_memory_bound_scenario(scenario_file: Path) -> None:
    """What all carry together is the least of what each carries, and more bandwidth adds to it."""
    scenario = Scenario.load(scenario_file)
    variants = plan(scenario, "edf", [1, 2], resolution=0.1)
    assert [variant.change for variant in variants] == [AS_IS, *changes_of(scenario)]
    now = variants[0]
    assert now.first in ("quick", "patient")
    assert 0.0 < now.tenants["quick"].lowest <= now.tenants["quick"].highest < FURTHEST
    assert now.together.limit is not None
    for each in now.tenants.values():
        assert each.limit is not None
        assert now.together.limit.mean <= each.limit.mean
        assert now.together.lowest <= each.lowest
    assert now.together.gain is None
    faster = variants[-1]
    assert faster.change == "1 GB/s more"
    assert faster.together.gain is not None
    assert faster.together.gain.mean > 0.0  # half as much bandwidth again, where bandwidth is short


@pytest.mark.slow
def test_the_command_prints_a_table_or_json(scenario_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", str(scenario_file), "--seeds", "1,2", "--resolution", "0.2", "--workers", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert document["variants"][0]["change"] == AS_IS
    assert document["variants"][0]["breaks_first"] in ("quick", "patient")
    limit = document["variants"][0]["tenants"]["quick"]["limit"]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"{limit['mean']:.2f} ±{limit['half_interval']:.2f}" in text
    assert "breaks first" in text.replace("\n", " ")


def test_closed_loops_are_refused(scenario_file: Path) -> None:
    closed = {"process": "closed", "clients": 2, "think_time": "1 ms"}
    scenario = Scenario.load(scenario_file).with_overrides(
        {"tenants.0.arrivals": closed, "requests": None, "duration": "1 s"}
    )
    with pytest.raises(HeadwayError, match=r"closed loops.*accepted: arrivals with rates"):
        plan(scenario, "edf", [1])


def test_a_warm_up_that_takes_all_requests_is_no_sla_that_holds(scenario_file: Path) -> None:
    scenario = Scenario.load(scenario_file).with_overrides({"warmup": "1000 s"})
    with pytest.raises(HeadwayError, match=r"plan: at 1 times the rates .* none arrived after the warm-up"):
        plan(scenario, "edf", [1], 0.2, 1)


def test_the_load_of_the_scenario_is_where_multiples_count_from(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario at a load of its own: one times its rates is that load, on any hardware the same rates."""
    scenario = Scenario.load(scenario_file).with_overrides({"load": 0.8})
    asked: dict[str, float] = {}

    def answer(search: Search) -> planning.Limits:
        asked[search.change] = search.per_factor
        return planning.Limits(search.change, search.scenario.seed, {"quick": 1.0, "patient": 2.0}, 1)

    monkeypatch.setattr(planning, "search_limits", answer)
    plan(scenario, "edf", [1])
    assert asked[AS_IS] == pytest.approx(0.8)
    assert asked["one more tpu core"] == pytest.approx(0.8)  # bandwidth limits, with a core more, too
    assert asked["1 GB/s more"] == pytest.approx(0.8 * 2 / 3)
