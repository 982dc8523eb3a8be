"""Runs of an evaluation for bench/evaluation.py: from its folder, or from the CSV behind a docs page."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from headway.record.evaluation import Row
from headway.record.evaluation_stats import Evaluation
from headway.scale.store import finished

SEED = "seed "
"""Begins the name of a column with the SLA satisfaction of one seed; the rest is the seed."""
BOUND = "bound "

MEAN = "sla_satisfaction"
_IN_SUMMARY = ("cell", "models", "hardware", "qos", "load", "arrivals", "priorities", "policy")


def runs(source: Path) -> list[Row]:
    """The runs that did not fail, of a folder of headway evaluate (also of one that is not done), of a
    CSV that `write_csv` wrote, or of a summary.csv.

    Exits where a folder has a run twice, since then some of its runs are of an older version of the code.
    """
    rows = _from_csv(source) if source.is_file() else list(finished(source).values())
    if not rows:
        raise SystemExit(
            f"{source}: no runs there; accepted: a folder of headway evaluate, or a CSV of this script"
        )
    places = {(row["cell"], row["policy"], row["seed"]) for row in rows}
    if len(places) < len(rows):
        raise SystemExit(
            f"{source}: some runs are there twice, by two versions of the code; accepted: runs of one"
        )
    return sorted(rows, key=_place)


def write_csv(path: Path, evaluation: Evaluation, cells: Sequence[str]) -> None:
    """A row for each of the cells and each policy: bound and SLA satisfaction in percent by seed."""
    varying = _varying(evaluation, cells)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        seeds = evaluation.seeds
        bounds = [f"{BOUND}{seed}" for seed in seeds]
        writer.writerow(["cell", *varying, "policy", *bounds, *(f"{SEED}{seed}" for seed in seeds)])
        for cell in cells:
            for policy in evaluation.compared:
                found = [
                    evaluation.values(figure, policy, cell).get(seed)
                    for figure in ("sla_bound", "sla_satisfaction")
                    for seed in seeds
                ]
                shares = ["" if share is None else f"{100 * share:.6g}" for share in found]
                place = evaluation.coordinates[cell]
                writer.writerow([cell, *(place[axis] for axis in varying), policy, *shares])


def _place(row: Row) -> list[tuple[bool, float, str]]:
    """Sorts by where the cell lies, numbers as numbers, and then by seed."""
    places = [*row["coordinates"].values(), row["seed"]]
    numbers = [isinstance(place, (int, float)) for place in places]
    return [
        (not of_number, float(place) if of_number else 0.0, "" if of_number else str(place))
        for place, of_number in zip(places, numbers, strict=True)
    ]


def _varying(evaluation: Evaluation, cells: Iterable[str]) -> list[str]:
    """The axes on which the cells lie at more than one place."""
    places = [evaluation.coordinates[cell] for cell in cells]
    return [axis for axis in places[0] if len({place[axis] for place in places}) > 1]


def _from_csv(path: Path) -> list[Row]:
    rows: list[Row] = []
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            if MEAN in line:  # a summary.csv, whose means are taken for one seed
                line = {name: line[name] for name in _IN_SUMMARY if name in line} | {
                    f"{SEED}0": line[MEAN] and str(100 * float(line[MEAN])),
                    f"{BOUND}0": line["sla_bound"] and str(100 * float(line["sla_bound"])),
                }
            shares = [name for name in line if name.startswith((SEED, BOUND))]
            known = ("cell", "policy", *shares)
            place = {axis: _number(value) for axis, value in line.items() if axis not in known}
            for name in shares:
                if name.startswith(SEED) and line[name]:
                    seed = name.removeprefix(SEED)
                    bound = line[f"{BOUND}{seed}"]
                    rows.append(
                        {
                            "cell": line["cell"],
                            "policy": line["policy"],
                            "seed": int(seed),
                            "coordinates": place,
                            "failed": False,
                            "sla_satisfaction": float(line[name]) / 100,
                            "sla_bound": float(bound) / 100 if bound else None,
                            "requests": 0,
                            "dropped": 0,
                        }
                    )
    return rows


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
