"""The tables of docs pages from the runs of an evaluation, as Markdown on standard output.

Cells in which a policy or a seed is missing are left out, so it works while an evaluation goes on. With
several seeds figures are means with half of their 95 % intervals; differences are taken seed by seed.

    headway evaluate core-grid --seeds 101,102 --out out/grid
    python bench/evaluation.py out/grid [--seeds 101,102] [--csv FILE.csv] [--heat-map FILE.svg]
    python bench/evaluation.py out/load-sweep --along load [--curves FILE.svg]
    python bench/evaluation.py docs/data/FILE.csv

Without a source it is that of docs/evaluation.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from _evaluation_plots import curves, heat_map
from _evaluation_rows import runs, write_csv

from headway.record.evaluation_stats import Evaluation
from headway.record.figures import number
from headway.record.intervals import Interval, interval, paired

OURS = ("headway", "lucas", "lucas:lbl", "lucas:scf", "lucas:mcf")
SLA = "sla_satisfaction"
PAIRS = (
    *(("headway", other) for other in ("lucas", "lucas:lbl", "lucas:scf", "lucas:mcf")),
    *(("lucas", other) for other in ("lucas:lbl", "lucas:scf", "lucas:mcf")),
)
GRID = Path(__file__).parent.parent / "docs" / "data" / "core-grid-medium.csv"


def share(found: Interval | None, sign: str = "") -> str:
    """A share in percent, with half of its interval."""
    if found is None:
        return "–"
    half = "" if found.half is None else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:{sign}.1f}{half}"


def words(cell: str) -> str:
    """A cell's name as a page has it."""
    return cell.replace("_", " ")


def percent(share: float | None) -> str:
    """A share in percent; a dash for none."""
    return "–" if share is None else f"{100 * share:.1f}"


def plain(name: str) -> str:
    """A policy without what stands for the common early-drop rule."""
    return name.removesuffix(":drop")


def standings(evaluation: Evaluation) -> None:
    """A row per policy: mean, gap to the bound, mean rank, in how many cells it is first or close to it."""
    columns = ("policy", "on time %", "behind the first", "below the bound", "mean rank", "first in")
    print(f"| {' | '.join((*columns, 'within 1 point in', 'most behind'))} |")
    print("| --- " * 8 + "|")
    for found in evaluation.standings:
        print(
            f"| `{found.policy}` | {share(found.sla)} | {share(found.behind)} | {share(found.gap)}"
            f" | {number(found.rank)} | {found.best} | {found.close} | {100 * found.worst_gap:.1f} |"
        )
    ranking = evaluation.ranking
    if ranking is not None:
        best = next(iter(ranking.mean_ranks))
        alike = [
            f"`{name}`"
            for name, rank in ranking.mean_ranks.items()
            if name != best and rank - ranking.mean_ranks[best] <= ranking.critical_difference
        ]
        p_value, apart = f"{ranking.p_value:.2g}", f"{ranking.critical_difference:.2f}"
        print(
            f"\nSuch ranks in {ranking.cells} cells have a probability of {p_value} if all policies are alike"
            f" (Friedman); those {apart} apart are told apart at 95 % (Nemenyi). Like `{best}` thereby:"
            f" {', '.join(alike) or 'none'}."
        )


def between(evaluation: Evaluation, first: str, second: str) -> None:
    """How far one policy is ahead of another: in the mean, and in which cells beyond noise.

    The interval of the mean is over seeds; with one seed, over cells.
    """
    if not {first, second} <= set(evaluation.compared):
        return
    cells = evaluation.complete
    mean = paired(evaluation.by_seed(SLA, first, cells), evaluation.by_seed(SLA, second, cells))
    by_cell = {
        cell: paired(evaluation.values(SLA, first, cell), evaluation.values(SLA, second, cell))
        for cell in cells
    }
    leads = {cell: lead for cell, lead in by_cell.items() if lead is not None}
    beyond = [cell for cell, lead in leads.items() if lead.mean < 0 and lead.away_from_zero]
    over = "seeds"
    if len(evaluation.seeds) == 1:
        mean, over = interval([lead.mean for lead in leads.values()]), "cells"
    least = min(leads, key=lambda cell: leads[cell].mean)
    most = max(leads, key=lambda cell: leads[cell].mean)
    names = ", ".join(f"{words(cell)} {share(leads[cell], '+')}" for cell in beyond)
    print(
        f"\n`{first}` - `{second}`: {share(mean, '+')} in the mean (over {over});"
        f" {share(leads[least], '+')} in {words(least)} to {share(leads[most], '+')} in {words(most)};"
        f" behind beyond its interval in {len(beyond)} of {len(cells)} cells{': ' if names else ''}{names}"
    )


def cells(evaluation: Evaluation) -> None:
    """A row per cell: the bound, ours, and the best of the published policies."""
    ours = [policy for policy in evaluation.compared if plain(policy) in OURS[:3]]
    others = [policy for policy in evaluation.compared if plain(policy) not in OURS]
    lucas = next((policy for policy in ours if plain(policy) == "lucas"), None)
    print(f"\n| cell | bound | {' | '.join(ours)} | best published | lucas beside it |")
    print("| --- " * (4 + len(ours)) + "|")
    for cell in evaluation.complete:
        means = {policy: evaluation.mean(SLA, policy, cell) or 0.0 for policy in (*ours, *others)}
        texts = [percent(means[policy]) for policy in ours]
        best = max(others, key=lambda policy: means[policy], default=None)
        lead = None
        if lucas is not None and best is not None:
            lead = paired(evaluation.values(SLA, lucas, cell), evaluation.values(SLA, best, cell))
        print(
            f"| {words(cell)} | {percent(evaluation.bound(cell))} | {' | '.join(texts)}"
            f" | {'–' if best is None else f'{percent(means[best])} `{best}`'} | {share(lead, '+')} |"
        )


def groups(evaluation: Evaluation, axis: str) -> list[tuple[str, list[str]]]:
    """The complete cells by where they lie on all other axes, each group with a name."""
    found: dict[str, list[str]] = {}
    axes = evaluation.coordinates[evaluation.complete[0]]
    varying = [
        other
        for other in axes
        if other != axis and len({evaluation.coordinates[cell][other] for cell in evaluation.complete}) > 1
    ]
    for cell in evaluation.complete:
        place = evaluation.coordinates[cell]
        title = ", ".join(str(place[other]) for other in varying) or str(place.get("models", "all"))
        found.setdefault(title, []).append(cell)
    return list(found.items())


def along(evaluation: Evaluation, axis: str, policies: Sequence[str]) -> None:
    """A table for each group of cells: a row per value of the axis, a column per policy."""
    if axis not in evaluation.axes:
        raise SystemExit(
            f"--along {axis}: accepted: {', '.join(evaluation.axes) or 'nothing, since no axis varies'}"
        )
    places = evaluation.axes[axis]
    for title, members in groups(evaluation, axis):
        print(
            f"\n| {title}: {axis} | bound | {' | '.join(policies)} |\n" + "| --- " * (2 + len(policies)) + "|"
        )
        for cell in sorted(members, key=lambda cell: places[cell]):
            shares = [share(evaluation.over(SLA, policy, [cell])) for policy in policies]
            print(f"| {places[cell][1]} | {percent(evaluation.bound(cell))} | {' | '.join(shares)} |")


def main() -> None:
    """Read and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sources", type=Path, nargs="*", default=[GRID], help="folders of headway evaluate, or CSV files"
    )
    parser.add_argument("--seeds", help="only these, separated by commas")
    parser.add_argument("--policies", help="only these, separated by commas")
    parser.add_argument("--along", metavar="AXIS", help="tables along an axis instead of those of all cells")
    parser.add_argument("--csv", type=Path, help="where the runs behind the tables go")
    parser.add_argument("--heat-map", type=Path, help="an SVG file")
    parser.add_argument("--curves", type=Path, help="an SVG file; with --along")
    options = parser.parse_args()
    rows = [row for source in options.sources for row in runs(source)]
    if options.seeds is not None:
        rows = [row for row in rows if str(row["seed"]) in options.seeds.split(",")]
    if options.policies is not None:
        rows = [row for row in rows if row["policy"] in options.policies.split(",")]
    evaluation = Evaluation(rows)
    if not evaluation.complete:
        raise SystemExit("no cell has every policy with every seed; accepted: fewer --seeds or --policies")
    seeds = ", ".join(map(str, evaluation.seeds))
    print(f"{len(evaluation.complete)} of {len(evaluation.cells)} cells are complete, seeds {seeds}\n")
    if options.along is None:
        standings(evaluation)
        for first, second in PAIRS:
            between(evaluation, first, second)
        cells(evaluation)
    else:
        along(evaluation, options.along, evaluation.compared)
        if options.curves is not None:
            drawn = curves(evaluation, options.along, groups(evaluation, options.along), evaluation.compared)
            options.curves.write_text(drawn, encoding="utf-8")
    if options.csv is not None:
        write_csv(options.csv, evaluation, evaluation.complete)
    if options.heat_map is not None:
        drawn = heat_map(evaluation, [found.policy for found in evaluation.standings], evaluation.complete)
        options.heat_map.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
