"""Figures of lane policies from a log, pooled over seeds, in files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from headway.record.block_figures import BLOCK_FIGURES
from headway.record.block_outputs import means_table, pooled, violations_table, write_blocks


def row(policy: str, seed: int, **figures: Any) -> dict[str, Any]:
    known = dict.fromkeys(BLOCK_FIGURES, 0.0) | {"requests": 100, "first_violations": None} | figures
    place = {"device": "gpu", "models": 4.0, "utilisation": 0.7, "sla": 5.0, "newcomers": "no"}
    about = {"cell": "one", "coordinates": place, "policy": policy, "seed": seed, "cause": None}
    return about | known | {"failed": False}


ROWS = [
    row("skadi", 1, violations=0.10, late=4, dropped=6, work_in_time=0.5, p99_all_ms=float("inf")),
    row("skadi", 2, violations=0.20, late=8, dropped=12, work_in_time=0.5, requests=300),
    row("headway", 1, violations=0.0, work_in_time=0.6),
    row("headway", 2, violations=0.02, late=2, work_in_time=0.5),
]


def test_seeds_are_pooled_by_their_requests() -> None:
    skadi, headway = pooled(ROWS)
    assert skadi.seeds == 2
    assert skadi.figures["violations"] == pytest.approx((10 + 60) / 400)
    assert skadi.figures["late"] == 12
    assert skadi.figures["p99_all_ms"] == float("inf")
    assert headway.figures["violations"] == pytest.approx(0.01)
    assert headway.figures["first_violations"] is None


def test_tables_say_what_is_gained() -> None:
    cells = pooled(ROWS)
    assert violations_table(cells) == (["cell", "skadi", "headway"], [["one", "17.50", "1.00"]])
    columns, rows = means_table(cells)
    headway = dict(zip(columns, rows[1], strict=True))
    assert headway["over skadi"] == "+10.0"
    assert headway["late"] == "1.00"
    assert headway["new models' first"] == "–"


def test_a_failed_run_is_in_the_file_and_in_no_mean(tmp_path: Path) -> None:
    broken = {key: ROWS[3][key] for key in ("cell", "coordinates", "policy", "seed")}
    rows = [*ROWS[:3], broken | {"failed": True, "cause": "it broke"}]
    written = write_blocks(tmp_path, rows, {"Date": "today"})
    with written.runs.open() as file:
        found = list(csv.DictReader(file))
    assert [each["cause"] for each in found] == ["", "", "", "it broke"]
    assert found[0]["p99_all_ms"] == "inf"
    with written.summary.open() as file:
        assert [each["policy"] for each in csv.DictReader(file)] == ["skadi"]
    page = written.report.read_text(encoding="utf-8")
    assert "<h1>Policies on lanes</h1>" in page
    assert "17.50" in page
