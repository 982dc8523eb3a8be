"""The twin at utilisation 0.5 and 0.8: how far a prediction is from live runs of the same arrivals.

Three models arrive at one rate on one lane per processor, under `edf:planned`, with an SLA of four times the
isolated latency. Utilisation 1 is what the lanes do side by side. Prints for each tenant SLA satisfaction
and median latency, predicted and measured, and how much of the error live repeats do not account for; and
which share of each tenant's time on lanes was spent on all lanes at once. The machine should have nothing
else to do.

    python bench/twin.py [--requests 1500] [--repeats 3] [--utilisations 0.5,0.8]
    python bench/twin.py --minutes 7 --policy headway

Each utilisation is printed when it is measured. `--minutes` bounds the time of all of it: it chooses the
number of requests, and repeats for which no time is left are left out, which the table then says.
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
from functools import partial
from time import perf_counter

import onnxruntime

from headway import wiring
from headway.config import Scenario
from headway.record.columns import stretches_of
from headway.record.log import LogTable
from headway.record.twin import Pair, compare_twin

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


def affordable_requests(left_s: float, rates: Sequence[float], repeats: int) -> int:
    """Requests of each tenant, so that all repeats at these rates and what comes before take that long."""
    left_s -= PREPARATION_S * (len(rates) - 1) + RUN_MORE_S * repeats * len(rates)
    requests = int(left_s / (repeats * sum(1.0 / rate for rate in rates)))
    return max(FEWEST_REQUESTS, requests)


def wide_share(log: LogTable, tenant: str) -> float:
    """The share of a tenant's time on lanes in which a run had more than one."""
    work = stretches_of(log)
    work = work.only(work.tenant == work.tenants.index(tenant))
    wide = [len(cores) > 1 for cores in work.core_sets]
    seconds = work.core_seconds
    return float(sum(seconds[[wide[at] for at in work.cores]]) / sum(seconds))


def measured_logs(prepared: wiring.Prepared, policy: str, repeats: int, ends_s: float) -> list[LogTable]:
    """Live repeats of the same arrivals, as long as there is time for another one; one at least."""
    logs: list[LogTable] = []
    longest_s = 0.0
    while len(logs) < repeats and (not logs or perf_counter() + longest_s < ends_s):
        began_s = perf_counter()
        logs.append(wiring.run(prepared, policy).log)
        longest_s = max(longest_s, perf_counter() - began_s)
        print(
            f"{prepared.scenario.name}: repeat {len(logs)} in {longest_s:.0f} s", file=sys.stderr, flush=True
        )
    return logs


def main() -> None:
    """Measure and print."""
    began_s = perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500, help="of each tenant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="that all of it takes at most, in place of --requests")
    parser.add_argument("--utilisations", default="0.5,0.8")
    parser.add_argument("--policy", default="edf:planned")
    options = parser.parse_args()
    show = partial(print, flush=True)
    utilisations = [float(part) for part in options.utilisations.split(",")]
    limit_s = math.inf if options.minutes is None else 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEADWAY_CACHE"] = cache  # nothing that was measured on a busier day
        prepared = wiring.prepare(scenario(1.0, 1, options.policy), fresh=True)
        work_s = sum(table.remaining_s[0] for table in prepared.tables.values())
        rates = [utilisation * len(prepared.device.cores) / work_s for utilisation in utilisations]
        if options.minutes is not None:
            left_s = began_s + limit_s - perf_counter()
            options.requests = affordable_requests(left_s, rates, options.repeats)
        command = f"python bench/twin.py {' '.join(sys.argv[1:])}".strip()
        show(f"`{command}`\n")
        show(f"{platform.machine()}, {os.cpu_count()} processors, Python {sys.version.split()[0]},")
        show(f"ONNX Runtime {onnxruntime.__version__}, {date.today()}, seed {SEED}, policy {options.policy},")
        show(f"{options.requests} requests a tenant, {options.repeats} repeats\n")
        show("| utilisation | tenant | figure | predicted | measured | repeats | error | beyond |")
        show("| --- " * 8 + "|")
        for number, (utilisation, rate) in enumerate(zip(utilisations, rates, strict=True), 1):
            # An even part of the time that is left, so that no utilisation is left out.
            left_s = began_s + limit_s - perf_counter()
            ends_s = perf_counter() + left_s / (len(rates) - number + 1)
            prepared = wiring.prepare(scenario(rate, options.requests, options.policy), fresh=True)
            predicted = wiring.simulate(prepared, options.policy)
            logs = measured_logs(prepared, options.policy, options.repeats, ends_s)
            report = compare_twin(predicted, logs)
            for row in report.tenants:
                show(f"| {utilisation} | {row.tenant} | SLA | {shown(row.sla, 100, ' %')} |")
                show(f"| {utilisation} | {row.tenant} | p50 | {shown(row.p50_ms, 1, ' ms')} |")
                wide = [100 * wide_share(log, row.tenant) for log in (predicted, *logs)]
                measured = sum(wide[1:]) / len(logs)
                show(
                    f"| {utilisation} | {row.tenant} | wide | {wide[0]:.1f} % | {measured:.1f} %"
                    f" | {max(wide[1:]) - min(wide[1:]):.1f} % | {abs(wide[0] - measured):.1f} % | |"
                )
            for repeat, (low, middle, high) in enumerate(report.drift, 1):
                show(
                    f"| {utilisation} | repeat {repeat} | drift | {low:.2f} to {high:.2f} "
                    f"| {middle:.2f} | | | |"
                )
            if len(logs) < options.repeats:
                show(f"| {utilisation} | | no time for more than {len(logs)} repeats | | | | | |")


if __name__ == "__main__":
    main()
