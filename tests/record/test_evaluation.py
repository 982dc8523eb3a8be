"""What an evaluation says of policies and axes, from rows made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from headway.record.evaluation import BINS, MODES
from headway.record.evaluation_page import plotted
from headway.record.evaluation_stats import Evaluation


def row(cell: str, policy: str, seed: int, sla: float | None, **more: Any) -> dict[str, Any]:
    """A run; without an SLA satisfaction it failed."""
    base: dict[str, Any] = {
        "key": f"{cell}-{policy}-{seed}",
        "cell": cell,
        "coordinates": {"load": float(cell), "hardware": "chip"},
        "policy": policy,
        "seed": seed,
        "failed": sla is None,
        "cause": "on purpose" if sla is None else None,
    }
    if sla is None:
        return base
    figures = {
        "requests": 100,
        "dropped": 5,
        "sla_satisfaction": sla,
        "sla_bound": 1.0 if cell == "0.5" else 0.9,
        "sla_worst_tenant": sla / 2,
        "antt": 2.0,
        "stp_eyerman": 1.0,
        "fairness": 0.5,
        "energy_mj": 10.0,
        "goodput_s": 100.0,
        "decision_p99_us": 50.0 + seed,
        "modes_over_time": {mode: [1.0 if mode == "fused" else 0.0] * BINS for mode in MODES},
        **{f"time_share_{mode}": 1.0 if mode == "fused" else 0.0 for mode in MODES},
    }
    return base | figures | more


ROWS = [
    row("0.5", "a", 1, 0.90), row("0.5", "b", 1, 0.89), row("0.5", "a", 2, 0.70), row("0.5", "b", 2, 0.69),
    row("1.0", "a", 1, 0.60), row("1.0", "b", 1, 0.40), row("1.0", "a", 2, 0.60), row("1.0", "b", 2, 0.40),
]  # fmt: skip


def test_standings_are_means_over_cells_paired_by_seed() -> None:
    first, second = Evaluation(ROWS).standings
    assert (first.policy, second.policy) == ("a", "b")
    assert first.sla.mean == pytest.approx(0.70)
    assert first.behind is None
    assert second.behind is not None
    assert second.behind.mean == pytest.approx(0.105)
    assert second.behind.half == pytest.approx(0.0, abs=1e-9)  # though seeds differ by 0.1
    assert second.gap is not None
    assert second.gap.mean == pytest.approx(0.95 - 0.595)
    assert (first.rank, second.rank) == (1.0, 2.0)
    assert (first.best, first.close, first.worst_gap) == (2, 2, 0.0)
    assert (second.best, second.close, second.worst_gap) == (0, 1, pytest.approx(0.2))
    assert second.dropped == 0.05
    assert second.decision_p99_us == 52.0


def test_cells_with_a_failure_are_left_out_of_means() -> None:
    evaluation = Evaluation([*ROWS[:7], row("1.0", "b", 2, None)])
    assert evaluation.complete == ("0.5",)
    assert [failure["key"] for failure in evaluation.failures] == ["1.0-b-2"]
    assert evaluation.standings[0].sla.mean == pytest.approx(0.80)
    assert evaluation.ranking is None  # of a single cell
    assert evaluation.mean("sla_satisfaction", "b", "1.0") == pytest.approx(0.40)


def test_a_policy_that_always_fails_hides_no_other() -> None:
    broken = [row(cell, "c", seed, None) for cell in ("0.5", "1.0") for seed in (1, 2)]
    evaluation = Evaluation([*broken, *ROWS])
    assert evaluation.complete == ("0.5", "1.0")
    assert evaluation.standings == Evaluation(ROWS).standings
    assert evaluation.ranking == Evaluation(ROWS).ranking
    assert len(evaluation.failures) == 4
    assert [line[0] for line in plotted(evaluation)["heat"]] == [None, None]


def test_without_a_complete_cell_there_is_no_standing() -> None:
    evaluation = Evaluation([row("0.5", "a", 1, None)])
    assert evaluation.standings == []
    assert plotted(evaluation)["heat"] == [[None]]


def test_axes_are_numbers_with_or_without_a_unit() -> None:
    rows = [
        {**row(cell, "a", 1, 0.5), "coordinates": {"load": 1.0, "sram": sram, "dram": dram, "set": name}}
        for cell, sram, dram, name in (("1", "512 KiB", "8GB/s", "x"), ("2", "2 MiB", "16 GB/s", "3"))
    ]
    axes = Evaluation(rows).axes
    assert list(axes) == ["sram", "dram"]
    assert axes["sram"] == {"1": (2.0**19, "512 KiB"), "2": (2.0**21, "2 MiB")}
    assert axes["dram"] == {"1": (8e9, "8GB/s"), "2": (16e9, "16 GB/s")}


def test_curves_and_modes() -> None:
    shown = plotted(Evaluation(ROWS))
    curve = shown["axes"]["load"]["all"]
    assert curve["x"] == [0.5, 1.0]
    assert curve["bound"] == [100.0, 90.0]
    assert [mean for mean, _ in curve["lines"]["b"]] == [pytest.approx(79.0), pytest.approx(40.0)]
    assert shown["modes"]["a"]["cells"]["fused"] == [100.0, 100.0]
    assert shown["modes"]["a"]["time"]["fused"] == [100.0] * BINS
    assert shown["bound"] == [100.0, 90.0]
