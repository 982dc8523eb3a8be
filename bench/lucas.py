"""Lucas beside its ablations and the list policies: SLA satisfaction in bandwidth- and compute-bound cells.

Each cell is a suite of models with equal rates on a preset with a DRAM bandwidth, an offered load and an
SLA in multiples of the isolated latency. Load 1 is the capacity of the tighter of cores and bandwidth,
as `headway.cost.capacity` has it. The policies meet the same arrivals and the same noise. Prints a
markdown table of mean SLA satisfaction over the seeds; with `--parts` the policies are Lucas and what becomes
of it without each of its parts.

    .venv/bin/python bench/lucas.py [--requests 400] [--seeds 101,102,103] [--parts]
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from statistics import mean
from typing import NamedTuple

from headway import wiring
from headway.config import Scenario
from headway.record.metrics import summarise

POLICIES = ("fcfs", "edf", "laxity", "lucas:lbl", "lucas:scf", "lucas:mcf", "lucas")
PARTS = (
    "lucas",
    "lucas:no-guard",
    "lucas:no-bandwidth",
    "lucas:no-wait",
    "lucas:fixed-band",
    "lucas:no-preempt",
    "lucas:oracle",
)

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


def measure(
    cell: Cell, requests: int, seeds: Sequence[int], policies: Sequence[str]
) -> tuple[bool, dict[str, float]]:
    """Whether bandwidth limits a cell, and every policy's mean SLA satisfaction there."""
    prepared = wiring.prepare(scenario(cell, requests, seeds[0]))
    assert prepared.demand is not None
    shares: dict[str, list[float]] = {policy: [] for policy in policies}
    for seed in seeds:
        seeded = replace(prepared, scenario=scenario(cell, requests, seed))
        for policy in policies:
            share = summarise(wiring.simulate(seeded, policy)).total.sla_satisfaction
            assert share is not None
            shares[policy].append(share)
    return prepared.demand.memory_bound, {policy: mean(found) for policy, found in shares.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--seeds", default="101,102,103")
    parser.add_argument("--parts", action="store_true", help="Lucas without each of its parts")
    options = parser.parse_args()
    policies = PARTS if options.parts else POLICIES
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{options.requests} requests a run, seeds {options.seeds}, SLA satisfaction in percent\n")
    print("| bound by | suite | hardware | GB/s | load | SLA | " + " | ".join(policies) + " |")
    print("| --- " * (6 + len(policies)) + "|", flush=True)
    totals: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    asked = [(cell, options.requests, seeds, policies) for cell in CELLS]
    with ProcessPoolExecutor() as pool:
        results = pool.map(measure, *zip(*asked, strict=True))
        for cell, (memory_bound, means) in zip(CELLS, results, strict=True):
            for policy, share in means.items():
                totals[memory_bound].setdefault(policy, []).append(share)
            shares = " | ".join(f"{100 * share:.1f}" for share in means.values())
            bound = "bandwidth" if memory_bound else "cores"
            print(
                f"| {bound} | {cell.suite} | {cell.hardware} | {cell.bandwidth_gb_s:g} | {cell.load} "
                f"| {cell.sla_isolated} | {shares} |",
                flush=True,
            )
    for memory_bound, by_policy in totals.items():
        if by_policy:
            shares = " | ".join(f"{100 * mean(by_policy[policy]):.1f}" for policy in policies)
            print(f"| {'bandwidth' if memory_bound else 'cores'} | **mean** | | | | | {shares} |")


if __name__ == "__main__":
    main()
