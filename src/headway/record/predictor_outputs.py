"""The files of an evaluation of overlap predictors, and its tables on the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway.record.figures import NOTHING
from headway.record.results import write_text
from headway.record.tables_page import Plot, Section, write_tables_page

Table = tuple[list[str], list[list[str]]]
"""Columns and rows."""

ERRORS = ("split", "predictor", "pairs", "MAPE, %", "p95, %", "under by > 5 %, %", "within 99 % bound, %")

MOST_SHOWN_PERCENT: Final = 100.0
"""In the plot of errors: a network that was asked far from what it was taught can be off by thousands."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of a predictor on a split, as shares: see `headway.predict.assessment.Score`."""

    split: str
    predictor: str
    pairs: int
    mape: float
    p95: float
    under: float
    covered: float | None

    def cells(self) -> list[str]:
        """As ERRORS names them."""
        covered = NOTHING if self.covered is None else f"{100 * self.covered:.1f}"
        shares = [f"{100 * each:.1f}" for each in (self.mape, self.p95, self.under)]
        return [self.split, self.predictor, f"{self.pairs}", *shares, covered]


@dataclass(frozen=True, slots=True)
class LearntRow:
    """The error after a number of overlaps of a new model, as shares."""

    overlaps: int
    models: int
    pairs: int
    mape: float
    covered: float


@dataclass(frozen=True, slots=True)
class SampleTables:
    """What was found on one sample of pairs. `costs` are microseconds for eight candidates, by predictor."""

    sample: str
    pairs: int
    median_loss: float
    errors: Sequence[ErrorRow]
    by_fold: Sequence[ErrorRow]
    curve: Sequence[LearntRow]
    costs: Mapping[str, float]

    def errors_table(self) -> Table:
        """A row for each split and predictor."""
        return list(ERRORS), [row.cells() for row in self.errors]

    def curve_table(self) -> Table:
        """A row for each number of overlaps."""
        rows = [
            [f"{row.overlaps}", f"{row.models}", f"{row.pairs}"]
            + [f"{100 * share:.1f}" for share in (row.mape, row.covered)]
            for row in self.curve
        ]
        return ["overlaps", "models", "pairs", "MAPE, %", "within 99 % bound, %"], rows

    def costs_table(self) -> Table:
        """A row for each predictor."""
        return ["predictor", "us for eight"], [[name, f"{us:.0f}"] for name, us in self.costs.items()]


@dataclass(frozen=True, slots=True)
class PredictorPaths:
    """What was written."""

    errors: Path
    curve: Path
    costs: Path
    report: Path


def write_predictor(
    folder: Path, samples: Sequence[SampleTables], about: Mapping[str, str]
) -> PredictorPaths:
    """Write errors.csv and learning.csv, which follow from samples and seed, costs.csv and report.html."""
    paths = PredictorPaths(
        folder / "errors.csv", folder / "learning.csv", folder / "costs.csv", folder / "report.html"
    )
    errors = [
        [each.sample, kind, row.split, row.predictor, row.pairs]
        + [f"{value:.9g}" for value in (row.mape, row.p95, row.under)]
        + ["" if row.covered is None else f"{row.covered:.9g}"]
        for each in samples
        for kind, rows in (("all", each.errors), ("fold", each.by_fold))
        for row in rows
    ]
    header = ["sample", "of", "split", "predictor", "pairs", "mape", "p95", "under", "covered"]
    write_text(paths.errors, _csv(header, errors))
    curve = [
        [each.sample, row.overlaps, row.models, row.pairs, f"{row.mape:.9g}", f"{row.covered:.9g}"]
        for each in samples
        for row in each.curve
    ]
    write_text(paths.curve, _csv(["sample", "overlaps", "models", "pairs", "mape", "covered"], curve))
    costs = [[each.sample, name, f"{us:.3f}"] for each in samples for name, us in each.costs.items()]
    write_text(paths.costs, _csv(["sample", "predictor", "eight_us"], costs))
    lead = "; ".join(
        f"{each.sample}: {each.pairs:,} pairs, median w {each.median_loss:.2f}" for each in samples
    )
    write_tables_page(paths.report, "Overlap predictors", f"{lead}.", sections(samples), about)
    return paths


def sections(samples: Sequence[SampleTables]) -> list[Section]:
    """What the page shows."""
    found = []
    for each in samples:
        splits = list(dict.fromkeys(row.split for row in each.errors))
        at = {(row.split, row.predictor): 100.0 * row.mape for row in each.errors}
        names = dict.fromkeys(row.predictor for row in each.errors)
        series = {name: [at.get((split, name)) for split in splits] for name in names}
        found.append(
            Section(
                f"{each.sample}: errors",
                "Errors in the time of the pair. Splits say what was not taught: rows at random, a model,"
                " a family, both families, or the batches. Bars that run off the plot are above"
                f" {MOST_SHOWN_PERCENT:.0f} %.",
                *each.errors_table(),
                plot=Plot("split", "MAPE, %", splits, series, bars=True, most=MOST_SHOWN_PERCENT),
            )
        )
        if each.curve:
            found.append(
                Section(
                    f"{each.sample}: after some overlaps",
                    "Of models whose family was not taught, after a number of overlaps of their own.",
                    *each.curve_table(),
                    plot=Plot(
                        "overlaps",
                        "MAPE, %",
                        [f"{row.overlaps}" for row in each.curve],
                        {"trees, calibrated online": [100.0 * row.mape for row in each.curve]},
                    ),
                )
            )
        rows = [row.cells() for row in each.by_fold]
        found.append(
            Section(f"{each.sample}: by what was left out", "Each fold by itself.", list(ERRORS), rows)
        )
        found.append(
            Section(
                f"{each.sample}: cost",
                "Processor time of one prediction for eight candidates, vectors included; the median.",
                *each.costs_table(),
            )
        )
    return found


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
