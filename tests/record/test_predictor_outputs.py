"""Files of an evaluation of overlap predictors."""

from __future__ import annotations

import csv
from pathlib import Path

from headway.record.predictor_outputs import ErrorRow, LearntRow, SampleTables, write_predictor

SAMPLE = SampleTables(
    "pairs <1>",
    1_234,
    0.41,
    [
        ErrorRow("random", "noise floor", 300, 0.027, 0.066, 0.078, None),
        ErrorRow("family", "trees", 1_144, 0.0241, 0.061, 0.056, 0.92),
    ],
    [ErrorRow("family: bert", "trees", 80, 0.03, 0.07, 0.05, 0.95)],
    [LearntRow(0, 31, 473, 0.0235, 0.953), LearntRow(20, 25, 401, 0.0243, 0.952)],
    {"trees": 108.5},
)


def test_tables_are_in_percent() -> None:
    _, rows = SAMPLE.errors_table()
    assert rows[0] == ["random", "noise floor", "300", "2.7", "6.6", "7.8", "–"]
    assert rows[1][-1] == "92.0"
    assert SAMPLE.curve_table()[1][1] == ["20", "25", "401", "2.4", "95.2"]


def test_files_hold_every_row_and_keep_costs_apart(tmp_path: Path) -> None:
    written = write_predictor(tmp_path, [SAMPLE], {"Date": "today"})
    with written.errors.open() as file:
        errors = list(csv.DictReader(file))
    assert [(row["of"], row["split"]) for row in errors] == [
        ("all", "random"),
        ("all", "family"),
        ("fold", "family: bert"),
    ]
    assert float(errors[1]["mape"]) == 0.0241
    assert errors[0]["covered"] == ""
    assert "108" not in written.errors.read_text() + written.curve.read_text()
    with written.costs.open() as file:
        assert [row["eight_us"] for row in csv.DictReader(file)] == ["108.500"]
    page = written.report.read_text(encoding="utf-8")
    assert "<h1>Overlap predictors</h1>" in page
    assert "pairs &lt;1&gt;: errors" in page
    assert "pairs <1>" not in page
