"""headway beside lucas, both with and without early drops: SLA satisfaction, paired by cell and seed.

The cells are those of bench/lucas.py, or those of the suite core-grid at a load of at least --least-load.
Every policy meets the same arrivals and the same noise. Prints a markdown table: the mean over the seeds, and
the mean difference of the second policy to the first, with half of its 95 % interval over the seeds, and the
least and the greatest of a seed; below that the means over cells, differences with their interval likewise.

    .venv/bin/python bench/beside_lucas.py [--cells lucas|core-grid] [--requests 800] [--seeds 101,102,103]
"""

from __future__ import annotations

import argparse
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from statistics import mean

import lucas

from headway import wiring
from headway.config import load_suite
from headway.record.intervals import interval
from headway.record.metrics import summarise

SUITE = "core-grid"


def cells(of: str, least_load: float) -> list[str]:
    """The names of the cells: positions in bench/lucas.py, or names in the suite."""
    if of == "lucas":
        return [str(at) for at in range(len(lucas.CELLS))]
    loads = {cell.name: cell.coordinates["load"] for cell in load_suite(SUITE).cells()}
    return [name for name, load in loads.items() if isinstance(load, float) and load >= least_load]


def measure(cell: str, policies: list[str], requests: int, seed: int) -> tuple[bool, dict[str, float]]:
    """SLA satisfaction in percent of every policy in one cell with one seed."""
    if cell.isdigit():
        scenario = lucas.scenario(lucas.CELLS[int(cell)], requests, seed)
    else:
        suite = load_suite(SUITE)
        found = next(each for each in suite.cells() if each.name == cell)
        scenario = suite.scenario(found, seed).model_copy(update={"requests": requests})
    prepared = wiring.prepare(scenario)
    assert prepared.demand is not None
    satisfaction = {}
    for policy in policies:
        share = summarise(wiring.simulate(prepared, policy)).total.sla_satisfaction
        assert share is not None
        satisfaction[policy] = 100.0 * share
    return prepared.demand.memory_bound, satisfaction


def with_half(gains: list[float]) -> str:
    """A mean difference with half of its 95 % interval over the seeds."""
    found = interval(gains)
    return f"{found.mean:+.1f}" + ("" if found.half is None else f" ± {found.half:.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", choices=("lucas", SUITE), default="lucas")
    parser.add_argument("--least-load", type=float, default=1.0)
    parser.add_argument("--policies", default="lucas,headway,lucas:drop,headway:drop")
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--seeds", default="101,102,103")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    policies = options.policies.split(",")
    names = cells(options.cells, options.least_load)
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{options.requests} requests a run, seeds {options.seeds}, SLA satisfaction in percent\n")
    print(f"| bound by | cell | {' | '.join(policies)} | {policies[1]} - {policies[0]} |")
    print("| --- " * (3 + len(policies)) + "|")
    jobs = [(name, policies, options.requests, seed) for name in names for seed in seeds]
    totals: dict[bool, list[list[float]]] = {True: [], False: []}
    gained: dict[bool, list[list[float]]] = {True: [], False: []}
    with ProcessPoolExecutor() as pool:
        results = pool.map(measure, *zip(*jobs, strict=True))
        for name in names:
            runs = [next(results) for _ in seeds]
            memory_bound = runs[0][0]
            means = [mean(run[policy] for _, run in runs) for policy in policies]
            totals[memory_bound].append(means)
            gains = [run[policies[1]] - run[policies[0]] for _, run in runs]
            gained[memory_bound].append(gains)
            label = " ".join(map(str, lucas.CELLS[int(name)])) if name.isdigit() else name
            shares = " | ".join(f"{share:.1f}" for share in means)
            print(
                f"| {'bandwidth' if memory_bound else 'cores'} | {label} | {shares}"
                f" | {with_half(gains)} ({min(gains):+.1f} to {max(gains):+.1f}) |",
                flush=True,
            )
    for memory_bound, rows in totals.items():
        if rows:
            means = [mean(column) for column in zip(*rows, strict=True)]
            shares = " | ".join(f"{share:.1f}" for share in means)
            bound = "bandwidth" if memory_bound else "cores"
            of_seeds = [mean(column) for column in zip(*gained[memory_bound], strict=True)]
            print(f"| {bound} | **mean of {len(rows)}** | {shares} | {with_half(of_seeds)} |")
    everything = [mean(column) for column in zip(*gained[True], *gained[False], strict=True)]
    print(f"\n{policies[1]} - {policies[0]} over all cells: {with_half(everything)}")


if __name__ == "__main__":
    main()
