"""The files of a comparison of lane policies, and its tables on the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from headway.record.block_figures import BLOCK_FIGURES
from headway.record.evaluation import Row
from headway.record.figures import NOTHING
from headway.record.results import write_text
from headway.record.tables_page import Plot, Section, write_tables_page

if TYPE_CHECKING:
    from rich.table import Table

COUNTS: Final = ("requests", "late", "dropped", "rejected", "unfinished", "new_models", "first_requests")
AXES: Final = ("device", "models", "utilisation", "sla", "newcomers")
RIVAL: Final = "skadi"
"""Whose work in time the others' is compared with."""


@dataclass(frozen=True, slots=True)
class BlockPaths:
    """What was written."""

    runs: Path
    summary: Path
    report: Path


@dataclass(frozen=True, slots=True)
class Pooled:
    """A cell under a policy, all seeds together: counts added up, `violations` and `first_violations` of all
    requests, the rest means over seeds."""

    cell: str
    coordinates: Mapping[str, Any]
    policy: str
    seeds: int
    figures: Mapping[str, float | None]


def pooled(rows: Sequence[Row]) -> list[Pooled]:
    """Cells and policies in the order in which they come; those with a failed run are left out."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["cell"], row["policy"]), []).append(row)
    return [
        Pooled(cell, found[0]["coordinates"], policy, len(found), _together(found))
        for (cell, policy), found in groups.items()
        if not any(row["failed"] for row in found)
    ]


def _together(rows: Sequence[Row]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in BLOCK_FIGURES:
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = None if not known else sum(known) if name in COUNTS else fmean(known)
    for share, of in (("violations", "requests"), ("first_violations", "first_requests")):
        asked = sum(row[of] for row in rows if row[share] is not None)
        bad = sum(row[share] * row[of] for row in rows if row[share] is not None)
        found[share] = bad / asked if asked else None
    return found


def write_blocks(folder: Path, rows: Sequence[Row], about: Mapping[str, str]) -> BlockPaths:
    """Write runs.csv with every run, summary.csv with every cell and policy, and report.html."""
    paths = BlockPaths(folder / "runs.csv", folder / "summary.csv", folder / "report.html")
    runs = [
        [row["cell"], *(row["coordinates"][axis] for axis in AXES), row["policy"], row["seed"]]
        + [_written(row.get(name)) for name in BLOCK_FIGURES]
        + [row["cause"] or ""]
        for row in rows
    ]
    write_text(paths.runs, _csv(["cell", *AXES, "policy", "seed", *BLOCK_FIGURES, "cause"], runs))
    cells = pooled(rows)
    summary = [
        [each.cell, *(each.coordinates[axis] for axis in AXES), each.policy, each.seeds]
        + [_written(each.figures[name]) for name in BLOCK_FIGURES]
        for each in cells
    ]
    write_text(paths.summary, _csv(["cell", *AXES, "policy", "seeds", *BLOCK_FIGURES], summary))
    write_tables_page(paths.report, "Policies on lanes", _lead(cells), sections(cells), about)
    return paths


def _written(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def violations_table(cells: Sequence[Pooled]) -> tuple[list[str], list[list[str]]]:
    """Violations in percent: a row for each cell, a column for each policy."""
    policies = list(dict.fromkeys(each.policy for each in cells))
    found = {(each.cell, each.policy): each.figures["violations"] for each in cells}
    rows = [
        [cell, *(_percent(found.get((cell, policy))) for policy in policies)]
        for cell in dict.fromkeys(each.cell for each in cells)
    ]
    return ["cell", *policies], rows


def means_table(cells: Sequence[Pooled]) -> tuple[list[str], list[list[str]]]:
    """A row for each device and policy: means over its cells without newcomers, and the newcomers' first
    requests. Cells that are not there for every policy are left out."""
    policies = list(dict.fromkeys(each.policy for each in cells))
    by_place = {(each.cell, each.policy): each for each in cells}
    rows = []
    for device in dict.fromkeys(str(each.coordinates["device"]) for each in cells):
        own = [
            cell
            for cell in dict.fromkeys(each.cell for each in cells if each.coordinates["device"] == device)
            if all((cell, policy) in by_place for policy in policies)
        ]
        plain = [cell for cell in own if by_place[cell, policies[0]].coordinates["newcomers"] == "no"]
        for policy in policies:
            at = [by_place[cell, policy].figures for cell in plain]
            rival = [by_place[cell, RIVAL].figures for cell in plain] if RIVAL in policies else []
            first = [by_place[cell, policy].figures for cell in own if cell not in plain]
            gain = _ratio(_mean(at, "work_in_time"), _mean(rival, "work_in_time"))
            asked = sum(each["requests"] or 0.0 for each in at) or None
            rows.append(
                [
                    device,
                    policy,
                    _percent(_mean(at, "violations")),
                    *(
                        _percent(None if asked is None else sum(each[name] or 0.0 for each in at) / asked)
                        for name in ("late", "dropped", "rejected")
                    ),
                    _number(_mean(at, "p99_ms")),
                    _number(_mean(at, "work_in_time")),
                    NOTHING if gain is None else f"{100 * (gain - 1):+.1f}",
                    _number(_mean(at, "jitter")),
                    _number(_mean(at, "jain")),
                    _percent(_mean(first, "first_violations")),
                ]
            )
    header = ["device", "policy", "violations", "late", "dropped", "rejected", "p99 ms", "work in time"]
    return [*header, f"over {RIVAL}", "jitter", "Jain", "new models' first"], rows


def rich_table(
    title: str, table: tuple[Sequence[str], Sequence[Sequence[str]]], shown: Sequence[str] | None = None
) -> Table:
    """For the terminal, with the columns `shown`, by default all. Print it with rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns, rows = table
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), title=title, title_justify="left")
    chosen = [at for at, name in enumerate(columns) if shown is None or name in shown]
    for at in chosen:
        found.add_column(Text(columns[at]), justify="left" if at == 0 else "right", overflow="fold")
    for row in rows:
        found.add_row(*(Text(row[at]) for at in chosen))
    return found


def sections(cells: Sequence[Pooled]) -> list[Section]:
    """What the page shows."""
    means, places = means_table(cells), violations_table(cells)
    return [
        Section(
            "Means by device",
            "Means over cells without newcomers. Violations are requests not done by their deadline, in"
            " percent, split by cause; work in time in seconds alone a second, and what it gains on"
            f" {RIVAL} in percent; last, the violations among the first requests of new models.",
            *means,
        ),
        *(_curves(cells, device) for device in dict.fromkeys(str(c.coordinates["device"]) for c in cells)),
        Section("Violations by cell", "In percent, all causes together.", *places),
    ]


def _curves(cells: Sequence[Pooled], device: str) -> Section:
    """Violations along utilisation on one device, means over the other axes."""
    own = [
        each
        for each in cells
        if each.coordinates["device"] == device and each.coordinates["newcomers"] == "no"
    ]
    loads = sorted({float(each.coordinates["utilisation"]) for each in own})
    series = {}
    for policy in dict.fromkeys(each.policy for each in own):
        at = [
            [c.figures for c in own if c.policy == policy and c.coordinates["utilisation"] == load]
            for load in loads
        ]
        found = [_mean(figures, "violations") for figures in at]
        series[policy] = [None if mean is None else 100.0 * mean for mean in found]
    return Section(
        f"Violations on {device}",
        "Mean over cells with the same utilisation, in percent.",
        plot=Plot("utilisation", "violations, %", loads, series),
    )


def _lead(cells: Sequence[Pooled]) -> str:
    requests = sum(each.figures["requests"] or 0.0 for each in cells)
    places, policies = len({each.cell for each in cells}), len({each.policy for each in cells})
    return f"{places} cells, {policies} policies, {requests:,.0f} simulated requests on two lanes."


def _mean(figures: Sequence[Mapping[str, float | None]], name: str) -> float | None:
    known = [value for each in figures if (value := each[name]) is not None]
    return fmean(known) if known else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.2f}"


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"
