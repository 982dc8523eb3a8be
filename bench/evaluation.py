"""The page docs/evaluation.md's tables from the summary of an evaluation, as Markdown on standard output.

headway evaluate core-grid --seeds 101 --out out/grid
python bench/evaluation.py out/grid/summary.csv
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean

OURS = ("headway", "lucas", "lucas:lbl", "lucas:scf", "lucas:mcf")
CLOSE = 0.01
"""Within one percentage point of the first."""

Shares = dict[str, dict[str, float]]


def read(path: Path) -> tuple[Shares, dict[str, float]]:
    """SLA satisfaction by cell and policy, and the bound by cell, of the cells in which every policy ran."""
    shares: Shares = defaultdict(dict)
    bounds: dict[str, float] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["sla_satisfaction"] and not int(row["failed"]):
                shares[row["cell"]][row["policy"]] = float(row["sla_satisfaction"])
                bounds[row["cell"]] = float(row["sla_bound"])
    most = max(len(found) for found in shares.values())
    return {cell: found for cell, found in shares.items() if len(found) == most}, bounds


def standings(shares: Shares, bounds: dict[str, float]) -> None:
    """A row per policy: mean, gap to the bound, in how many cells it is first or close to it, worst lack."""
    print("| policy | on time % | below the bound | first in | within 1 point in | most behind the first |")
    print("| --- | --- | --- | --- | --- | --- |")
    policies = next(iter(shares.values()))
    for policy in sorted(policies, key=lambda name: -fmean(found[name] for found in shares.values())):
        behind = [max(found.values()) - found[policy] for found in shares.values()]
        mean = fmean(found[policy] for found in shares.values())
        gap = fmean(bounds[cell] - found[policy] for cell, found in shares.items())
        print(
            f"| `{policy}` | {100 * mean:.1f} | {100 * gap:.1f} | {sum(lack <= 0.0 for lack in behind)}"
            f" | {sum(lack <= CLOSE for lack in behind)} | {100 * max(behind):.1f} |"
        )


def cells(shares: Shares, bounds: dict[str, float]) -> None:
    """A row per cell: the bound, ours, and the best of the published policies."""
    print("| cell | bound | headway | lucas | lucas:lbl | best published | lucas beside it |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for cell, found in shares.items():
        others = {policy: share for policy, share in found.items() if policy not in OURS}
        best = max(others, key=lambda policy: others[policy])
        lead = 100 * (found["lucas"] - others[best])
        ours = " | ".join(f"{100 * found[policy]:.1f}" for policy in ("headway", "lucas", "lucas:lbl"))
        published = f"{100 * others[best]:.1f} `{best}`"
        print(f"| {cell.replace('_', ' ')} | {100 * bounds[cell]:.1f} | {ours} | {published} | {lead:+.1f} |")


def main() -> None:
    """Read and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("summary", type=Path, help="summary.csv of headway evaluate")
    shares, bounds = read(parser.parse_args().summary)
    standings(shares, bounds)
    print()
    cells(shares, bounds)


if __name__ == "__main__":
    main()
