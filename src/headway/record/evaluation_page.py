"""One self-contained HTML page about an evaluation or a sweep. It works without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from headway.record.evaluation import BINS, MODES, Row
from headway.record.evaluation_stats import Evaluation
from headway.record.figures import joules, number, percent, points
from headway.record.intervals import Interval
from headway.record.page import Filters, render_page
from headway.record.results import write_text


def write_evaluation_page(path: Path, name: str, rows: Sequence[Row], about: Mapping[str, str]) -> None:
    """Write the page. `about` has lines on how the results were made."""
    write_text(path, render(name, rows, about))


def render(name: str, rows: Sequence[Row], about: Mapping[str, str]) -> str:
    """The page as text."""
    filters: Filters = {
        "number": number,
        "percent": percent,
        "points": points,
        "with": _with_half,
    }

    evaluation = Evaluation(rows)
    return render_page(
        "evaluation",
        plotted(evaluation),
        filters,
        name=name,
        evaluation=evaluation,
        lead=_lead(evaluation),
        about=about,
        runs=f"{len(rows):,}",
    )


def plotted(evaluation: Evaluation) -> dict[str, Any]:
    """What the page's script draws. Shares are percent."""
    policies, cells = evaluation.policies, evaluation.cells
    ranking = evaluation.ranking
    sla = "sla_satisfaction"
    return {
        "policies": list(policies),
        "cells": list(cells),
        "heat": [[_percent(evaluation.mean(sla, policy, cell)) for policy in policies] for cell in cells],
        "bound": [_percent(evaluation.bound(cell)) for cell in cells],
        "ranks": None
        if ranking is None
        else {
            "policies": list(ranking.mean_ranks),
            "ranks": list(ranking.mean_ranks.values()),
            "difference": ranking.critical_difference,
            "groups": [list(group) for group in ranking.groups],
        },
        "axes": {axis: _curves(evaluation, places) for axis, places in evaluation.axes.items()},
        "fairness": [_of(evaluation.over("fairness", policy, evaluation.complete)) for policy in policies],
        "energy": [_of(evaluation.over("energy_mj", policy, evaluation.complete)) for policy in policies],
        "modes": {policy: _modes(evaluation, policy) for policy in policies},
    }


def _curves(evaluation: Evaluation, places: Mapping[str, tuple[float, str]]) -> dict[str, Any]:
    """SLA satisfaction along an axis: over all complete cells, and by set of models and hardware."""
    groups: dict[str, list[str]] = {"all": []}
    for cell in evaluation.complete:
        if cell in places:
            at = evaluation.coordinates[cell]
            named = [str(at[axis]) for axis in ("models", "hardware") if at.get(axis) is not None]
            groups["all"].append(cell)
            groups.setdefault(", ".join(named) or "all", []).append(cell)
    if len(groups) == 2:
        groups = {"all": groups["all"]}
    return {
        group: _along(evaluation, {cell: places[cell] for cell in dict.fromkeys(cells)})
        for group, cells in groups.items()
    }


def _along(evaluation: Evaluation, places: Mapping[str, tuple[float, str]]) -> dict[str, Any]:
    values = sorted(set(places.values()))
    at = {value: [cell for cell in places if places[cell] == value] for value in values}
    bounds = [[evaluation.bound(cell) for cell in at[value]] for value in values]
    return {
        "x": [value for value, _ in values],
        "labels": [label for _, label in values],
        "lines": {
            policy: [_of(evaluation.over("sla_satisfaction", policy, at[value]), 100.0) for value in values]
            for policy in evaluation.policies
        },
        "bound": [
            _percent(fmean(known)) if (known := [bound for bound in found if bound is not None]) else None
            for found in bounds
        ],
    }


def _modes(evaluation: Evaluation, policy: str) -> dict[str, Any]:
    """Shares of busy core time: by cell, and over the time of a run, on average over all runs."""
    by_cell = {
        mode: [_percent(evaluation.mean(f"time_share_{mode}", policy, cell)) for cell in evaluation.cells]
        for mode in MODES
    }
    parts: list[list[list[float]]] = []
    for row in evaluation.rows:
        if row["policy"] == policy and not row["failed"]:
            busy = row["modes_over_time"]
            totals = [sum(busy[mode][at] for mode in MODES) for at in range(BINS)]
            parts.append(
                [
                    [busy[mode][at] / totals[at] for mode in MODES] if totals[at] > 0 else []
                    for at in range(BINS)
                ]
            )
    over_time: dict[str, list[float | None]] = {mode: [] for mode in MODES}
    for at in range(BINS):
        shares = [part[at] for part in parts if part[at]]
        for position, mode in enumerate(MODES):
            over_time[mode].append(_percent(fmean(share[position] for share in shares)) if shares else None)
    return {"cells": by_cell, "time": over_time}


def _lead(evaluation: Evaluation) -> str:
    """One sentence: who is first, and by how much."""
    standings = evaluation.standings
    if not standings:
        return "No cell has a result of every policy."
    first = standings[0]
    text = f"{first.policy} has {percent(first.sla.mean)} of requests on time, on average over cells"
    if len(standings) > 1 and standings[1].behind is not None:
        behind = standings[1].behind
        text += f"; {standings[1].policy} is {points(behind.mean)} behind"
        if behind.half is not None and not behind.away_from_zero:
            text += ", which may be chance"
    return (text + ".").replace(" %", "\N{NO-BREAK SPACE}%")


def _with_half(found: Interval | None, unit: str = "") -> str:
    """A mean with half its interval: `%` for shares, `pp` for their differences, `J` for millijoules."""
    if found is None:
        return number(None)
    if unit in ("%", "pp"):
        half = "" if found.half is None else f" ±{100 * found.half:.1f}"
        return f"{100 * found.mean:.1f}{half} {unit}"
    if unit == "J":
        return joules(found.mean)
    return number(found.mean)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)


def _of(found: Interval | None, factor: float = 1.0) -> list[float | None]:
    """Mean and half of the interval, None without."""
    if found is None:
        return [None, None]
    return [found.mean * factor, None if found.half is None else found.half * factor]
