"""The published baselines beside first-come-first-served and Lucas: SLA satisfaction, a sanity check.

Some cells of bench/lucas.py, and moca8 as its authors have it (16 GB/s, loads of 0.9). Prints a markdown
table of mean SLA satisfaction over the seeds, in percent.

    .venv/bin/python bench/baselines.py [--requests 100] [--seeds 1] [--policies fcfs,moca] [--drop]
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import date
from statistics import mean

from lucas import CELLS, Cell, measure

POLICIES = (
    *("fcfs", "edf", "kedf", "prema", "herald", "layerweaver", "dream", "dysta", "relmas", "terastal"),
    *("xrbench", "planaria", "veltair", "moca", "moca:static", "aurora", "lucas"),
)

CHOSEN = (
    *(CELLS[at] for at in (4, 6, 9, 11, 14)),
    Cell("mixed", "moca8", 16, 0.9, 4.0),
    Cell("light", "moca8", 16, 0.9, 3.0),
    Cell("heavy", "moca8", 64, 0.9, 4.0),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--drop", action="store_true", help="all of them with the common early-drop rule")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    policies = [name + (":drop" if options.drop else "") for name in options.policies.split(",")]
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{options.requests} requests, seeds {options.seeds}\n")
    print(f"| suite, hardware, bandwidth, load | {' | '.join(policies)} |\n|---|{'---|' * len(policies)}")
    rows = []
    for cell in CHOSEN:
        _, shares = measure(cell, options.requests, seeds, policies)
        rows.append({policy: 100.0 * share for policy, share in shares.items()})
        name = f"{cell.suite}, {cell.hardware}, {cell.bandwidth_gb_s:g} GB/s, {cell.load:g}"
        print(f"| {name} | {' | '.join(f'{each:.1f}' for each in rows[-1].values())} |", flush=True)
    print(f"| mean | {' | '.join(f'{mean([row[policy] for row in rows]):.1f}' for policy in policies)} |")


if __name__ == "__main__":
    main()
