"""The twin at utilisation 0.5 and 0.8: how far a prediction is from live runs of the same arrivals.

Three models arrive at one rate on one lane per processor, under `edf:planned`, with an SLA of four times the
isolated latency. Utilisation 1 is what the lanes do side by side. Prints for each tenant SLA satisfaction
and median latency, predicted and measured, and how much of the error live repeats do not account for. The
machine should have nothing else to do.

    python bench/twin.py [--requests 1500] [--repeats 3] [--utilisations 0.5,0.8]
    python bench/twin.py --minutes 10

`--minutes` chooses the number of requests so that all of it takes about so long.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import date

import onnxruntime

from headway import wiring
from headway.config import Scenario
from headway.record.twin import Pair

MODELS = ("kws_res8", "squeezenet", "mobilenet_v2")
SEED = 5
PREPARATION_S = 30.0  # each time models are taken in
RUN_MORE_S = 1.0  # of a run: opening sessions, and what is left at its end
FEWEST_REQUESTS = 100


def scenario(rate: float, requests: int, policy: str) -> Scenario:
    """Every model arrives at that rate."""
    return Scenario.from_mapping(
        {
            "name": "twin",
            "seed": SEED,
            "hardware": "cpu-lanes",
            "requests": requests * len(MODELS),
            "policy": policy,
            "tenants": [
                {
                    "name": model.replace("_", "-"),
                    "model": model,
                    "sla": {"isolated": 4.0},
                    "arrivals": {"process": "poisson", "rate": f"{rate} /s"},
                }
                for model in MODELS
            ],
        }
    )


def shown(pair: Pair, scale: float, unit: str) -> str:
    """Predicted, measured, difference between repeats, and error beyond it."""
    known = [pair.predicted, pair.measured]
    figures = " | ".join("-" if value is None else f"{scale * value:.4g}{unit}" for value in known)
    errors = [pair.repeat_difference, pair.error, pair.beyond]
    return figures + " | " + " | ".join("-" if e is None else f"{100 * e:.1f} %" for e in errors)


def affordable_requests(total_s: float, rates: Sequence[float], repeats: int) -> int:
    """Requests of each tenant, so that all repeats at these rates and what comes before take that long."""
    left_s = total_s - PREPARATION_S * (1 + len(rates)) - RUN_MORE_S * repeats * len(rates)
    requests = int(left_s / (repeats * sum(1.0 / rate for rate in rates)))
    if requests < FEWEST_REQUESTS:
        least_s = total_s - left_s + FEWEST_REQUESTS * repeats * sum(1.0 / rate for rate in rates)
        raise SystemExit(f"--minutes: accepted: at least {math.ceil(least_s / 60.0)}, or fewer repeats")
    return requests


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500, help="of each tenant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="of all of it, in place of --requests")
    parser.add_argument("--utilisations", default="0.5,0.8")
    parser.add_argument("--policy", default="edf:planned")
    options = parser.parse_args()
    utilisations = [float(part) for part in options.utilisations.split(",")]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEADWAY_CACHE"] = cache  # nothing that was measured on a busier day
        probe = wiring.prepare(scenario(1.0, 1, options.policy), fresh=True)
        work_s = sum(table.remaining_s[0] for table in probe.tables.values())
        rates = [utilisation * len(probe.device.cores) / work_s for utilisation in utilisations]
        if options.minutes is not None:
            options.requests = affordable_requests(60.0 * options.minutes, rates, options.repeats)
        command = f"python bench/twin.py {' '.join(sys.argv[1:])}".strip()
        print(f"`{command}`\n")
        print(f"{platform.machine()}, {os.cpu_count()} processors, Python {sys.version.split()[0]},")
        print(
            f"ONNX Runtime {onnxruntime.__version__}, {date.today()}, seed {SEED}, policy {options.policy},"
        )
        print(f"{options.requests} requests a tenant, {options.repeats} repeats\n")
        print("| utilisation | tenant | figure | predicted | measured | repeats | error | beyond |")
        print("| --- " * 8 + "|")
        for utilisation, rate in zip(utilisations, rates, strict=True):
            prepared = wiring.prepare(scenario(rate, options.requests, options.policy), fresh=True)
            result = wiring.twin(prepared, options.policy, options.repeats)
            for row in result.report.tenants:
                print(f"| {utilisation} | {row.tenant} | SLA | {shown(row.sla, 100, ' %')} |")
                print(f"| {utilisation} | {row.tenant} | p50 | {shown(row.p50_ms, 1, ' ms')} |")
            for number, (low, middle, high) in enumerate(result.report.drift, 1):
                print(
                    f"| {utilisation} | repeat {number} | drift | {low:.2f} to {high:.2f} "
                    f"| {middle:.2f} | | | |"
                )


if __name__ == "__main__":
    main()
