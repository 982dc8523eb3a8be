"""Lucas beside its ablations and the list policies: SLA satisfaction in bandwidth- and compute-bound cells.

Each cell is a suite of models with equal rates on a preset with a DRAM bandwidth, an offered load and an
SLA in multiples of the isolated latency. Load 1 is the capacity of the tighter of cores and bandwidth,
as `headway.cost.capacity` has it. The policies meet the same arrivals and the same noise. Prints a
markdown table of mean SLA satisfaction over the seeds.

    .venv/bin/python bench/lucas.py [--requests 400] [--seeds 101,102,103]
"""

from __future__ import annotations

import argparse
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from statistics import mean
from typing import NamedTuple

from headway import wiring
from headway.config import Scenario
from headway.record.metrics import summarise

POLICIES = ("fcfs", "edf", "laxity", "lucas:lbl", "lucas:scf", "lucas:mcf", "lucas")

_LIGHT = ("squeezenet", "mobilenet_v2", "kws_res8", "yolo_lite", "resnet18")
_HEAVY = ("resnet50", "alexnet", "googlenet", "bert_base", "vgg16")
SUITES = {
    "light": _LIGHT,
    "heavy": _HEAVY,
    "mixed": _LIGHT + _HEAVY,
    "fusion": ("fsrcnn", "unet", "mobilenet_v2", "efficientnet_b0"),
    "weight": ("vgg16", "bert_base", "gpt2_small"),
}


class Cell(NamedTuple):
    """One row of the table."""

    suite: str
    hardware: str
    bandwidth_gb_s: float
    load: float
    sla_isolated: float


CELLS = (
    Cell("light", "stream-hetero4", 8, 0.4, 0.9),
    Cell("heavy", "stream-hetero4", 16, 0.5, 1.2),
    Cell("fusion", "stream-hetero4", 8, 0.4, 0.9),
    Cell("fusion", "stream-hetero4", 8, 1.1, 2.0),
    Cell("light", "stream-hetero4", 8, 1.5, 3.0),
    Cell("mixed", "stream-hetero4", 16, 1.4, 3.0),
    Cell("heavy", "stream-hetero4", 16, 1.1, 4.0),
    Cell("fusion", "stream-hetero4", 8, 1.8, 4.0),
    Cell("fusion", "xr-quad4k", 8, 1.5, 4.0),
    Cell("mixed", "moca8", 8, 1.1, 3.0),
    Cell("weight", "stream-hetero4", 16, 1.1, 4.0),
    Cell("light", "stream-hetero4", 64, 1.0, 4.0),
    Cell("heavy", "stream-hetero4", 64, 1.0, 4.0),
    Cell("fusion", "stream-hetero4", 64, 1.0, 4.0),
    Cell("mixed", "xr-quad4k", 128, 1.0, 4.0),
)


def scenario(cell: Cell, requests: int, seed: int) -> Scenario:
    """The cell with every model arriving at one rate, together the cell's load."""
    return Scenario.from_mapping(
        {
            "name": cell.suite,
            "seed": seed,
            "hardware": {"preset": cell.hardware, "dram": {"bandwidth": f"{cell.bandwidth_gb_s} GB/s"}},
            "requests": requests,
            "load": cell.load,
            "tenants": [
                {
                    "name": model.replace("_", "-"),
                    "model": model,
                    "sla": {"isolated": cell.sla_isolated},
                    "arrivals": {"process": "poisson", "rate": "1 /s"},
                }
                for model in SUITES[cell.suite]
            ],
        }
    )


def prepare(cell: Cell, requests: int, seed: int) -> tuple[wiring.Prepared, bool]:
    """The cell at its load, and whether bandwidth rather than the cores limits it."""
    prepared = wiring.prepare(scenario(cell, requests, seed))
    assert prepared.demand is not None
    return prepared, prepared.demand.memory_bound


def measure(cell: Cell, requests: int, seed: int) -> tuple[bool, dict[str, float]]:
    """SLA satisfaction of every policy in one cell with one seed."""
    prepared, memory_bound = prepare(cell, requests, seed)
    satisfaction = {}
    for policy in POLICIES:
        share = summarise(wiring.simulate(prepared, policy)).total.sla_satisfaction
        assert share is not None
        satisfaction[policy] = share
    return memory_bound, satisfaction


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--seeds", default="101,102,103")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{options.requests} requests a run, seeds {options.seeds}, SLA satisfaction in percent\n")
    print("| bound by | suite | hardware | GB/s | load | SLA | " + " | ".join(POLICIES) + " |")
    print("| --- " * (6 + len(POLICIES)) + "|")
    jobs = [(cell, options.requests, seed) for cell in CELLS for seed in seeds]
    totals: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    with ProcessPoolExecutor() as pool:
        results = iter(list(pool.map(measure, *zip(*jobs, strict=True))))
    for cell in CELLS:
        runs = [next(results) for _ in seeds]
        memory_bound = runs[0][0]
        means = {policy: mean(run[policy] for _, run in runs) for policy in POLICIES}
        for policy, share in means.items():
            totals[memory_bound].setdefault(policy, []).append(share)
        shares = " | ".join(f"{100 * share:.1f}" for share in means.values())
        bound = "bandwidth" if memory_bound else "cores"
        print(
            f"| {bound} | {cell.suite} | {cell.hardware} | {cell.bandwidth_gb_s:g} | {cell.load} "
            f"| {cell.sla_isolated} | {shares} |"
        )
    for memory_bound, by_policy in totals.items():
        shares = " | ".join(f"{100 * mean(by_policy[policy]):.1f}" for policy in POLICIES)
        print(f"| {'bandwidth' if memory_bound else 'cores'} | **mean** | | | | | {shares} |")


if __name__ == "__main__":
    main()
