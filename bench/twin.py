"""The twin at utilisation 0.5 and 0.8: how far a prediction is from live runs of the same arrivals.

Three models arrive at one rate on one lane per processor, under `edf:planned`, with an SLA of four times the
isolated latency. Utilisation 1 is what the lanes do side by side. Live repeats of all utilisations take
turns, and between them bare ONNX Runtime alone shows how the machine's speed varies, which predictions are
told. Prints for each tenant SLA satisfaction and median latency, predicted and measured, by how much the
repeats differ (95th percentile), and how much of the error that does not account for; which share of each
tenant's time on lanes was spent on all lanes at once; and the time of blocks of each class, by profile,
predicted and measured. "steady" is what would be predicted for a machine whose speed does not vary. The
machine should have nothing else to do.

    python bench/twin.py [--requests 1500] [--repeats 3] [--utilisations 0.5,0.8]
    python bench/twin.py --minutes 7 --policy headway

`--minutes` bounds the time of all of it: it chooses the number of requests, and repeats for which no time is
left are left out, which is then said.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from time import perf_counter

import onnxruntime
from _speed import described

from headway import wiring
from headway.config import Scenario
from headway.record.columns import stretches_of
from headway.record.log import LogTable
from headway.record.twin import Pair, TwinReport, compare_twin
from headway.wiring.host import LEAST_S, SHARE, HostRecord

MODELS = ("kws_res8", "squeezenet", "mobilenet_v2")
SEED = 5
RUN_MORE_S = 1.0  # of a run: opening sessions, and what is left at its end
FEWEST_REQUESTS = 100
HEADS = "utilisation | tenant | figure | steady | predicted | measured | repeats | error | beyond"

show = partial(print, flush=True)


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


def affordable_requests(left_s: float, rates: Sequence[float], repeats: int) -> int:
    """Requests of each tenant, so that all repeats at these rates take that long, with what bare sessions
    run between them."""
    left_s -= (RUN_MORE_S + LEAST_S) * repeats * len(rates)
    requests = int(left_s / (1.0 + SHARE) / (repeats * sum(1.0 / rate for rate in rates)))
    return max(FEWEST_REQUESTS, requests)


def wide_share(log: LogTable, tenant: str) -> float:
    """The share of a tenant's time on lanes in which a run had more than one; nan if it ran nothing."""
    work = stretches_of(log)
    work = work.only(work.tenant == work.tenants.index(tenant))
    wide = [len(cores) > 1 for cores in work.core_sets]
    seconds = work.core_seconds
    whole_s = float(sum(seconds))
    return float(sum(seconds[[wide[at] for at in work.cores]])) / whole_s if whole_s > 0.0 else math.nan


def measured_logs(
    cells: Sequence[wiring.Prepared], policy: str, repeats: int, host: HostRecord, ends_s: float
) -> list[list[LogTable]]:
    """For each cell live repeats of the same arrivals, in turns, as long as there is time for another turn of
    all; one at least."""
    logs: list[list[LogTable]] = [[] for _ in cells]
    longest_s = 0.0
    host.take()
    for number in range(1, repeats + 1):
        turn_s = perf_counter()
        if number > 1 and turn_s + longest_s > ends_s:
            break
        for cell, known in zip(cells, logs, strict=True):
            began_s = perf_counter()
            known.append(wiring.run(cell, policy).log)
            took_s = perf_counter() - began_s
            print(f"repeat {number}: {took_s:.0f} s", file=sys.stderr, flush=True)
            host.take(took_s)
        longest_s = max(longest_s, perf_counter() - turn_s)
    return logs


def figures(steady: float | None, pair: Pair, scale: float, unit: str) -> str:
    """Predicted, measured, difference between repeats, and error beyond it."""
    known = [steady, pair.predicted, pair.measured]
    errors = [pair.repeat_difference, pair.error, pair.beyond]
    return " | ".join(
        [
            *("-" if value is None else f"{scale * value:.4g}{unit}" for value in known),
            *("-" if error is None else f"{100 * error:.1f} %" for error in errors),
        ]
    )


def print_tenants(utilisation: float, steady: TwinReport, report: TwinReport, logs: list[LogTable]) -> None:
    """Each tenant's figures, predicted and measured; `logs` begin with the prediction."""
    for before, row in zip(steady.tenants, report.tenants, strict=True):
        for name, of_steady, pair, scale, unit in (
            ("SLA", before.sla, row.sla, 100, " %"),
            ("p50", before.p50_ms, row.p50_ms, 1, " ms"),
            ("p99", before.p99_ms, row.p99_ms, 1, " ms"),
        ):
            cells = figures(of_steady.predicted, pair, scale, unit)
            show(f"| {utilisation} | {row.tenant} | {name} | {cells} |")
        wide = [100 * wide_share(log, row.tenant) for log in logs]
        measured = sum(wide[1:]) / (len(logs) - 1)
        show(
            f"| {utilisation} | {row.tenant} | wide | - | {wide[0]:.1f} % | {measured:.1f} %"
            f" | {max(wide[1:]) - min(wide[1:]):.1f} % | {abs(wide[0] - measured):.1f} % | - |"
        )
    for repeat, (low, middle, high) in enumerate(report.drift, 1):
        show(
            f"| {utilisation} | repeat {repeat} | drift | - | - | {middle:.2f}, {low:.2f} to {high:.2f}"
            " | - | - | - |"
        )


def print_blocks(utilisation: float, report: TwinReport) -> None:
    """Blocks of each class that ran on one lane."""
    for row in report.blocks:
        times = [row.profiled_ms, row.predicted_ms, row.measured_ms]
        shown = " | ".join("-" if value is None else f"{value:.3f}" for value in times)
        error = "-"
        if row.predicted_ms is not None and row.measured_ms:
            error = f"{100 * (row.predicted_ms / row.measured_ms - 1):+.1f} %"
        show(f"| {utilisation} | {row.model} | {row.kind} | {shown} | {error} |")


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
    utilisations = [float(part) for part in options.utilisations.split(",")]
    limit_s = math.inf if options.minutes is None else 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEADWAY_CACHE"] = cache  # nothing that was measured on a busier day
        prepared = wiring.prepare(scenario(1.0, 1, options.policy), fresh=True)
        assert prepared.measured is not None
        work_s = sum(table.remaining_s[0] for table in prepared.tables.values())
        rates = [utilisation * len(prepared.device.cores) / work_s for utilisation in utilisations]
        if options.minutes is not None:
            left_s = began_s + limit_s - perf_counter()
            options.requests = affordable_requests(left_s, rates, options.repeats)
        cells = [wiring.prepare(scenario(rate, options.requests, options.policy)) for rate in rates]
        host = HostRecord(prepared.measured.lanes)
        logs = measured_logs(cells, options.policy, options.repeats, host, began_s + limit_s)
    command = f"python bench/twin.py {' '.join(sys.argv[1:])}".strip()
    overheads = prepared.measured.overheads
    warm_s = overheads.warm_dispatch_s or overheads.dispatch_s
    show(f"`{command}`\n")
    show(f"{platform.machine()}, {os.cpu_count()} processors, Python {sys.version.split()[0]},")
    show(f"ONNX Runtime {onnxruntime.__version__}, {date.today()}, seed {SEED}, policy {options.policy},")
    show(
        f"{options.requests} requests a tenant, {len(logs[0])} of {options.repeats} repeats; a dispatch takes"
    )
    show(f"{1e6 * overheads.dispatch_s:.0f} us, on a lane that was idle for less than", end=" ")
    show(
        f"{1e3 * overheads.cold_after_s:.3g} ms {1e6 * warm_s:.0f} us; overlap loss {overheads.overlap_w:.3f}"
    )
    stretches = host.stretches()
    show(f"\nBare sessions took {described(stretches)}.\n")
    show(f"| {HEADS} |\n{'| --- ' * 9}|")
    reports = []
    for utilisation, cell, measured in zip(utilisations, cells, logs, strict=True):
        steady = compare_twin(wiring.simulate(cell, options.policy), measured)
        predicted = wiring.simulate(replace(cell, host=stretches), options.policy)
        reports.append(compare_twin(predicted, measured))
        print_tenants(utilisation, steady, reports[-1], [predicted, *measured])
    show("\n| utilisation | model | class | profiled ms | predicted ms | measured ms | error |")
    show("| --- " * 7 + "|")
    for utilisation, report in zip(utilisations, reports, strict=True):
        print_blocks(utilisation, report)


if __name__ == "__main__":
    main()
