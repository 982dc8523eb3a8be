"""Headway's policies beside bare ONNX Runtime, live, on the same arrivals.

Three models of very different cost are served on this machine under Poisson arrivals, each with a third of
the work. Utilisation 1 is what one bare worker per thread, with sessions of one thread, gets done; deadlines
are multiples of what a bare session with all threads takes for the model alone. Systems:

    fifo-wide    one session per model with all threads, first in first out, one worker; idle threads
                 spin or not, whichever is faster at the start
    fifo-narrow  sessions of one thread, first in first out, one worker per thread
    POLICY       Headway under that policy, with one lane per thread

and, simulated, the ideal: one wide lane without any overhead, blocks of 2 ms, preemptive earliest deadline
that drops what can no longer be in time, at the speed that bare sessions with all threads had in that round.
"ideal, our times" is the same with what our blocks and a dispatch take by their profiles, as much slower or
faster as the bare sessions were in that round: what is lost between the two no policy can win back.

All systems meet the same arrivals, in turns within a round, in an order that rotates from round to round; a
round has arrivals of its own. Between runs the bare sessions' times are taken again, since the speed of
a machine that others use drifts. The first second of arrivals warms up and is not counted.

    python bench/live.py --utilisations 0.8 --slas 4 --duration 10 --repeats 3       # five minutes
    python bench/live.py --policies edf:planned --repeats 1 --minutes 12             # all cells, shortly
    python bench/live.py --duration 30 --repeats 5                                   # hours

`--minutes` chooses the duration so that all runs and their preparation take about so long.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil
from pathlib import Path
from statistics import mean, median
from typing import Any

import onnxruntime
from _bare import Bare, alone_s, serve
from _scores import Score, ends_of, ideal, numbers

from headway import wiring
from headway.config import Scenario
from headway.core.request import Request
from headway.models import zoo
from headway.workload.sources import TenantLoad

MODELS: Mapping[str, tuple[str, dict[str, int]]] = {
    "small": ("mobilenet_v2", {"image_size": 128}),
    "middle": ("resnet18", {}),
    "large": ("bert_base", {"sequence_length": 64}),
}
OUR_IDEAL = "ideal, our times"
POLICIES = "laxity:wide,laxity:adaptive,edf:adaptive,edf:planned"
CALIBRATION_S = 0.4
BACKLOG_S = 4.0
PREPARATION_S = 40.0
RUN_MORE_S = 1.5  # of a run: opening sessions, and what is left at its end
SHORTEST_S = 5.0
EFFICIENCY_TARGET = 0.95
GOODPUT_TARGETS = {0.8: 0.9, 0.95: 0.85}
WITHIN_POINTS = 3.0
SCHEDULER_TARGET = 0.02


@dataclass
class Bench:
    """The bare sessions, what they take alone, and how many requests a second utilisation 1 is."""

    seed: int
    base: wiring.Prepared
    wide: Bare
    narrow: list[Bare]
    isolated_s: dict[str, float]
    capacity_s: float
    drift: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, seed: int) -> Bench:
        """Open the bare sessions and measure them."""
        models = {
            name: zoo.build(model, weights=True, **options).SerializeToString()
            for name, (model, options) in MODELS.items()
        }
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        prepared = wiring.prepare(
            scenario(seed, dict.fromkeys(MODELS, 1.0), dict.fromkeys(MODELS, 1.0), requests=1)
        )
        assert prepared.measured is not None
        keys = {load.tenant: load.model for load in prepared.loads}
        inputs = {name: prepared.measured.intakes[keys[name]].inputs for name in MODELS}
        # Idle threads that spin win where nobody else wants the processor, and lose much where somebody does.
        choices = [Bare(threads, models, inputs, spinning=spinning) for spinning in (True, False)]
        times: list[list[dict[str, float]]] = [[], []]
        for _ in range(4):
            for one, found in zip(choices, times, strict=True):
                found.append(alone_s(one, CALIBRATION_S))
        medians = [{name: median(t[name] for t in found) for name in MODELS} for found in times]
        ratio = mean(medians[0][name] / medians[1][name] for name in MODELS)
        wide, isolated_s = (choices[0], medians[0]) if ratio <= 1.0 else (choices[1], medians[1])
        narrow = [Bare(1, models, inputs) for _ in range(threads)]
        bench = cls(seed, prepared, wide, narrow, isolated_s, 1.0)
        bench.capacity_s = median(bench.narrow_capacity(round) for round in range(3))
        return bench

    def prepared(self, scenario: Scenario) -> wiring.Prepared:
        """Another scenario of the same models, which are not loaded again."""
        loads = tuple(
            TenantLoad.of(tenant, load.model, load.blocks, load.isolated_s)
            for tenant, load in zip(scenario.tenants, self.base.loads, strict=True)
        )
        return replace(self.base, scenario=scenario, loads=loads, expected_requests=None)

    @property
    def ours_s(self) -> dict[str, float]:
        """What our blocks and a dispatch take of each model alone, by its profile."""
        return {load.tenant: load.isolated_s for load in self.base.loads}

    def rates(self, utilisation: float) -> dict[str, float]:
        """Requests a second of each tenant, equal in work: that share of what the narrow workers get done."""
        return {
            name: utilisation * self.capacity_s / len(MODELS) / alone
            for name, alone in self.isolated_s.items()
        }

    def backlog(self, seed: int) -> Scenario:
        """Work for BACKLOG_S on one wide lane, all of it there at the start, nothing of it urgent."""
        rates = {name: 1e3 * rate for name, rate in self.rates(1.0).items()}
        count = ceil(sum(BACKLOG_S / len(MODELS) / alone for alone in self.isolated_s.values()))
        return scenario(seed, rates, dict.fromkeys(MODELS, 3600.0), requests=count)

    def narrow_capacity(self, round: int) -> float:
        """Work, in seconds of the wide session, that the narrow workers get done in a second."""
        requests = arrivals(self.prepared(self.backlog(self.seed + round)))
        return self.work_s(requests) / max(serve(self.narrow, requests).values())

    def work_s(self, requests: Sequence[Request]) -> float:
        """Seconds of the wide session for these requests."""
        return sum(self.isolated_s[request.tenant] for request in requests)


def scenario(
    seed: int,
    rates: Mapping[str, float],
    sla_s: Mapping[str, float],
    *,
    requests: int | None = None,
    duration_s: float | None = None,
) -> Scenario:
    """The three tenants with these rates and latencies, for a number of requests or a time."""
    length = {"requests": requests} if requests is not None else {"duration": f"{duration_s} s"}
    return Scenario.from_mapping(
        {
            "name": "bench-live",
            "seed": seed,
            "hardware": "cpu-lanes",
            **length,
            "tenants": [
                {
                    "name": name,
                    "model": model,
                    "options": options,
                    "sla": {"deadline": f"{1e3 * sla_s[name]:.6f} ms"},
                    "arrivals": {"process": "poisson", "rate": f"{rates[name]:.6f} /s"},
                }
                for name, (model, options) in MODELS.items()
            ],
        }
    )


def arrivals(prepared: wiring.Prepared) -> list[Request]:
    """The requests of a scenario, in order of arrival."""
    return [arrival.request for arrival in prepared.source().first()]


def measure_throughput(bench: Bench, policies: Sequence[str], repeats: int) -> dict[str, list[float]]:
    """Work done a second by each system of a backlog, in each repeat."""
    found: dict[str, list[float]] = {}
    systems = ["fifo-wide", "fifo-narrow", *policies]
    for repeat in range(repeats):
        prepared = bench.prepared(bench.backlog(bench.seed + repeat))
        requests = arrivals(prepared)
        for system in rotated(systems, repeat):
            if system == "fifo-wide":
                ended_s = serve([bench.wide], requests)
            elif system == "fifo-narrow":
                ended_s = serve(bench.narrow, requests)
            else:
                ended_s = ends_of(wiring.run(prepared, system).log)
            found.setdefault(system, []).append(bench.work_s(requests) / max(ended_s.values()))
    return {system: found[system] for system in systems}


def measure_cell(
    bench: Bench,
    utilisation: float,
    slas: Sequence[float],
    policies: Sequence[str],
    duration_s: float,
    repeats: int,
) -> dict[float, dict[str, Score]]:
    """Scores of all systems at one utilisation, by SLA. First in first out, deaf to SLAs, runs once."""
    scores: dict[float, dict[str, Score]] = {
        sla: {name: Score() for name in ("ideal", OUR_IDEAL, "fifo-wide", "fifo-narrow", *policies)}
        for sla in slas
    }
    limits = {sla: {name: sla * alone for name, alone in bench.isolated_s.items()} for sla in slas}
    for repeat in range(repeats):
        prepared = {
            sla: bench.prepared(
                scenario(bench.seed + repeat, bench.rates(utilisation), limits[sla], duration_s=duration_s)
            )
            for sla in slas
        }
        requests = {sla: arrivals(one) for sla, one in prepared.items()}
        jobs: list[tuple[str, float | None]] = [("fifo-wide", None), ("fifo-narrow", None)]
        jobs += [(policy, sla) for policy in policies for sla in slas]
        speeds = [alone_s(bench.wide, CALIBRATION_S)]
        for system, sla in rotated(jobs, repeat):
            if sla is None:
                same = requests[slas[0]]
                ended_s = serve([bench.wide] if system == "fifo-wide" else bench.narrow, same)
                for each in slas:
                    scores[each][system].add(same, ended_s, limits[each])
            else:
                live = wiring.run(prepared[sla], system)
                score = scores[sla][system]
                score.add(requests[sla], ends_of(live.log), limits[sla])
                score.scheduler.append(live.report.scheduler_share)
                score.per_request_s.append(live.report.driver_cpu_s / max(1, live.report.requests))
            speeds.append(alone_s(bench.wide, CALIBRATION_S))
        alone = {name: mean(speed[name] for speed in speeds) for name in MODELS}
        bench.drift += [mean(speed[name] / bench.isolated_s[name] for name in MODELS) for speed in speeds]
        for sla in slas:
            scores[sla]["ideal"].add(requests[sla], ideal(requests[sla], alone), limits[sla])
            ours = {name: bench.ours_s[name] * alone[name] / bench.isolated_s[name] for name in MODELS}
            scores[sla][OUR_IDEAL].add(requests[sla], ideal(requests[sla], ours), limits[sla])
    return scores


def rotated(items: Sequence[Any], by: int) -> list[Any]:
    """The items from another beginning."""
    by %= len(items)
    return [*items[by:], *items[:by]]


def print_throughput(found: Mapping[str, list[float]]) -> None:
    """Work done a second, and beside the best bare system of the same repeat."""
    print("\n## Throughput of a backlog\n")
    print("Seconds of work, as the wide session takes them alone, done in a second; efficiency is the median")
    print("over repeats of its ratio to the best bare system of the same repeat.\n")
    print("| system | work | efficiency | least | most |\n| --- | --- | --- | --- | --- |")
    best = [max(pair) for pair in zip(found["fifo-wide"], found["fifo-narrow"], strict=True)]
    for system, work in found.items():
        ratios = [mine / top for mine, top in zip(work, best, strict=True)]
        figures = (median(work), median(ratios), min(ratios), max(ratios))
        print(" | ".join([f"| {system}", *(f"{figure:.3f}" for figure in figures)]) + " |", flush=True)
    print(f"\nTarget for policies that may use narrow lanes: {EFFICIENCY_TARGET}.")


def print_cell(
    utilisation: float, sla: float, scores: Mapping[str, Score], seconds: Mapping[str, float]
) -> None:
    """One table: all systems at one utilisation and SLA."""
    offered = scores["ideal"].offered
    counts = ", ".join(f"{name} {count}" for name, count in offered.items())
    print(f"\n## Utilisation {utilisation:g}, SLA {sla:g} x isolated\n")
    print(f"Requests counted: {counts}.\n")
    heads = ["system", *(f"{name} %" for name in MODELS), "goodput %", "of work %", "worst %", "below ideal"]
    heads += ["scheduler %", "at 100/s %"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for system, score in scores.items():
        below = max(scores["ideal"].share(name) - score.share(name) for name in MODELS)
        cells = [system, *(f"{100 * score.share(name):.1f}" for name in MODELS)]
        spread = half_range(score.each_goodput)
        cells += [f"{100 * score.goodput:.1f} ±{100 * spread:.1f}", f"{100 * score.weighted(seconds):.1f}"]
        cells += [f"{100 * score.worst:.1f}", f"{100 * below:+.1f}"]
        if score.scheduler:
            cells += [f"{100 * mean(score.scheduler):.2f}", f"{1e4 * mean(score.per_request_s):.2f}"]
        else:
            cells += ["", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def print_targets(cells: Mapping[tuple[float, float], Mapping[str, Score]], policies: Sequence[str]) -> None:
    """What of the targets each policy meets."""
    print("\n## Targets\n")
    print(f"Within {WITHIN_POINTS:g} points: in how many cells no tenant is further below the ideal.\n")
    heads = ["policy", f"within {WITHIN_POINTS:g} points", "furthest below"]
    heads += [
        f"least goodput at {utilisation:g} (target {target:g})"
        for utilisation, target in GOODPUT_TARGETS.items()
    ]
    heads += [f"scheduler at 100/s % (target {100 * SCHEDULER_TARGET:g})"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for policy in policies:
        below = [
            100 * max(scores["ideal"].share(name) - scores[policy].share(name) for name in MODELS)
            for scores in cells.values()
        ]
        row = [policy, f"{sum(b <= WITHIN_POINTS for b in below)} of {len(below)}", f"{max(below):+.1f}"]
        for utilisation in GOODPUT_TARGETS:
            there = [scores[policy].goodput for (at, _), scores in cells.items() if at == utilisation]
            row.append(f"{min(there):.3f}" if there else "not run")
        row.append(f"{max(1e4 * mean(scores[policy].per_request_s) for scores in cells.values()):.2f}")
        print("| " + " | ".join(row) + " |")


def affordable_s(total_s: float, policies: int, slas: int, utilisations: int, repeats: int) -> float:
    """Seconds of arrivals in each run, so that all of them and what comes before take about `total_s`."""
    runs = repeats * utilisations * (2 + policies * slas)
    backlogs = repeats * (2 + policies) + 3
    left_s = total_s - PREPARATION_S - backlogs * BACKLOG_S - runs * (CALIBRATION_S + RUN_MORE_S)
    duration_s = left_s / runs
    if duration_s < SHORTEST_S:
        least = (total_s - left_s + runs * SHORTEST_S) / 60.0
        raise SystemExit(f"--minutes: {runs} runs take at least {least:.0f} minutes; take fewer policies")
    return round(duration_s, 1)


def half_range(values: Sequence[float]) -> float:
    """Half the largest difference between two of them."""
    return max((abs(a - b) for a, b in combinations(values, 2)), default=0.0) / 2


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utilisations", type=numbers, default=[0.3, 0.6, 0.8, 0.95])
    parser.add_argument("--slas", type=numbers, default=[2.0, 4.0, 8.0], help="multiples of isolated latency")
    parser.add_argument("--policies", default=POLICIES, help="of Headway, comma-separated")
    parser.add_argument("--duration", type=float, default=20.0, help="seconds of arrivals in a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="of all of it, in place of --duration")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    policies = options.policies.split(",")
    if options.minutes is not None:
        slas, cells = len(options.slas), len(options.utilisations)
        options.duration = affordable_s(60.0 * options.minutes, len(policies), slas, cells, options.repeats)
    wiring.require_policies(policies)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADWAY_CACHE"] = folder  # profiles of another hour would not do
        bench = Bench.start(options.seed)
    command = f"python bench/live.py {' '.join(sys.argv[1:])}".strip()
    print(f"`{command}`\n")
    print(
        f"{processor()}, {len(bench.narrow)} threads; Python {platform.python_version()}, ONNX Runtime"
        f" {onnxruntime.__version__}; seed {options.seed}; {datetime.date.today().isoformat()};"
        f" {options.duration:g} s of arrivals, {options.repeats} repeats\n"
    )
    print("| tenant | model | isolated ms | our blocks ms | rate at utilisation 1, /s |")
    print("|" + " --- |" * 5)
    for name, (model, chosen) in MODELS.items():
        shown = " ".join([model, *(f"{key}={value}" for key, value in chosen.items())])
        times = f"{1e3 * bench.isolated_s[name]:.2f} | {1e3 * bench.ours_s[name]:.2f}"
        print(f"| {name} | {shown} | {times} | {bench.rates(1.0)[name]:.2f} |")
    spinning = "spin" if bench.wide.spinning else "do not spin (faster here than the default)"
    print(f"\nIdle threads of the wide session {spinning}.")
    print(
        f"The narrow workers together do {bench.capacity_s:.3f} times the work of the wide session.",
        flush=True,
    )
    print_throughput(measure_throughput(bench, policies, options.repeats))
    cells: dict[tuple[float, float], dict[str, Score]] = {}
    for utilisation in options.utilisations:
        found = measure_cell(bench, utilisation, options.slas, policies, options.duration, options.repeats)
        for sla, scores in found.items():
            cells[utilisation, sla] = scores
            print_cell(utilisation, sla, scores, bench.isolated_s)
    print_targets(cells, policies)
    print(
        f"\nWhat the wide session took between runs, beside the start: median {median(bench.drift):.2f},"
        f" from {min(bench.drift):.2f} to {max(bench.drift):.2f}."
    )


if __name__ == "__main__":
    main()
