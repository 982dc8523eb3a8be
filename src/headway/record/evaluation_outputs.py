"""The files of an evaluation or a sweep, and its table on the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.record.evaluation import Row, write_rows
from headway.record.evaluation_page import write_evaluation_page
from headway.record.evaluation_stats import Evaluation
from headway.record.figures import NOTHING, number, percent, points
from headway.record.intervals import Interval, interval
from headway.record.results import write_text

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class EvaluationPaths:
    """What was written."""

    results: Path
    summary: Path
    report: Path


def write_evaluation(
    folder: Path, name: str, rows: Sequence[Row], about: Mapping[str, str]
) -> EvaluationPaths:
    """Write results.parquet with every run, summary.csv with every cell and policy, and report.html."""
    folder = Path(folder)
    paths = EvaluationPaths(folder / "results.parquet", folder / "summary.csv", folder / "report.html")
    evaluation = Evaluation(rows)
    coordinates = list(dict.fromkeys(axis for place in evaluation.coordinates.values() for axis in place))
    write_rows(paths.results, rows, coordinates, about)
    write_text(paths.summary, _summary(evaluation, coordinates))
    write_evaluation_page(paths.report, name, rows, about)
    return paths


def standings(evaluation: Evaluation) -> Table:
    """A row per policy over all complete cells. Print it with rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title=f"Policies over {_count(len(evaluation.complete), 'cell')}"
        f" and {_count(len(evaluation.seeds), 'seed')}",
        caption="means over cells; ± is half a 95 % interval over seeds; behind: to the first, seeds paired;"
        " gap: to the clairvoyant bound",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("policy", overflow="ellipsis", no_wrap=True, min_width=12)
    for name in ("on time", "behind", "gap", "rank", "≤1 pp", "ANTT"):
        table.add_column(name, justify="right", no_wrap=True)
    for standing in evaluation.standings:
        table.add_row(
            Text(standing.policy),
            _share(standing.sla, "%"),
            _share(standing.behind, "pp"),
            NOTHING if standing.gap is None else points(standing.gap.mean),
            number(standing.rank),
            str(standing.close),
            number(None if standing.antt is None else standing.antt.mean),
        )
    return table


def cells(evaluation: Evaluation, coordinates: Sequence[str]) -> Table:
    """A row per cell with the SLA satisfaction of every policy, `*` at the best. Print it with rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title="Requests on time",
        caption="± is half a 95 % interval over seeds; bound: the most that any policy could reach;"
        " gap: what the best one here lacks to it",
        title_justify="left",
        caption_justify="left",
    )
    for name in coordinates or ["cell"]:
        table.add_column(name, overflow="fold")
    for name in (*evaluation.policies, "bound", "gap"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for cell in evaluation.cells:
        place = evaluation.coordinates[cell]
        means = {policy: evaluation.mean("sla_satisfaction", policy, cell) for policy in evaluation.policies}
        best = max((mean for mean in means.values() if mean is not None), default=None)
        bound = evaluation.bound(cell)
        texts = []
        for policy, mean in means.items():
            values = list(evaluation.values("sla_satisfaction", policy, cell).values())
            text = _share(interval(values) if values else None, "%")
            texts.append(
                Text(f"{text} *", style="bold green") if mean == best and values else Text(f"{text}  ")
            )
        table.add_row(
            *(Text(str(place[name])) for name in coordinates or ()),
            *([] if coordinates else [Text(cell)]),
            *texts,
            percent(bound),
            NOTHING if bound is None or best is None else points(bound - best),
        )
    return table


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _share(found: Interval | None, unit: str) -> str:
    if found is None:
        return NOTHING
    half = "" if found.half is None else f" ±{100 * found.half:.1f}"
    return f"{100 * found.mean:.1f}{half} {unit}"


_COLUMNS = (
    "sla_satisfaction",
    "sla_bound",
    "sla_worst_tenant",
    "antt",
    "stp_eyerman",
    "stp_inferences_s",
    "fairness",
    "energy_mj",
    "goodput_s",
    "decision_p99_us",
)


def _summary(evaluation: Evaluation, coordinates: Sequence[str]) -> str:
    """CSV: a row for each cell and policy with means over seeds, and half the interval of the SLA."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", *coordinates, "policy", "seeds", "failed", *_COLUMNS, "sla_half_interval"])
    for cell in evaluation.cells:
        for policy in evaluation.policies:
            values = list(evaluation.values("sla_satisfaction", policy, cell).values())
            failed = sum(row["cell"] == cell and row["policy"] == policy for row in evaluation.failures)
            means = [evaluation.mean(column, policy, cell) for column in _COLUMNS]
            half = interval(values).half if values else None
            place = evaluation.coordinates[cell]
            writer.writerow(
                [cell, *(place.get(name) for name in coordinates), policy, len(values), failed]
                + ["" if value is None else f"{value:.6g}" for value in (*means, half)]
            )
    return text.getvalue()
