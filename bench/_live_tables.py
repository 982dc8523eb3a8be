"""The tables of bench/live.py, in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, median

from _live_bench import IDEALS, MODELS, Bench
from _live_records import Backlog, Machine, Run
from _scores import Score
from _speed import Stretch, described

EFFICIENCY_TARGET = 0.95
GOODPUT_TARGETS = {0.8: 0.9, 0.95: 0.85}
WITHIN_POINTS = 3.0
SCHEDULER_TARGET = 0.02


def print_machine(bench: Bench, machine: Machine) -> None:
    """The machine, the models, and what they take."""
    print(f"`python bench/live.py {' '.join(sys.argv[1:])}`\n\n{machine.shown}\n")
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


def print_throughput(systems: Sequence[str], backlogs: Sequence[Backlog]) -> None:
    """Work done a second, and beside the best bare system of the same repeat."""
    by_repeat: dict[int, dict[str, float]] = {}
    for backlog in backlogs:
        by_repeat.setdefault(backlog.repeat, {})[backlog.system] = backlog.work_s
    whole = [one for one in by_repeat.values() if set(systems) <= set(one)]
    if not whole:
        print("\nNo time was left for the throughput of a backlog.", flush=True)
        return
    found = {system: [one[system] for one in whole] for system in systems}
    print("\n## Throughput of a backlog\n")
    print("Seconds of work, as the wide session takes them alone, done in a second; efficiency is the median")
    print("over repeats of its ratio to the best bare system of the same repeat.\n")
    print("| system | work | efficiency | least | most |\n| --- | --- | --- | --- | --- |")
    best = [max(pair) for pair in zip(found["fifo-wide"], found["fifo-narrow"], strict=True)]
    for system, work in found.items():
        ratios = [mine / top for mine, top in zip(work, best, strict=True)]
        figures = (median(work), median(ratios), min(ratios), max(ratios))
        print(" | ".join([f"| {system}", *(f"{figure:.3f}" for figure in figures)]) + " |", flush=True)
    print(f"\nTarget for policies that may use narrow lanes: {EFFICIENCY_TARGET}.", flush=True)


def print_cell(
    utilisation: float, sla: float, scores: Mapping[str, Score], seconds: Mapping[str, float]
) -> None:
    """One table: all systems at one utilisation and SLA."""
    offered = scores["ideal"].offered
    counts = ", ".join(f"{name} {count}" for name, count in offered.items())
    print(f"\n## Utilisation {utilisation:g}, SLA {sla:g} x isolated\n")
    print(f"Requests counted: {counts}.\n")
    heads = ["system", *(f"{name} %" for name in MODELS), "goodput %", "of work %", "worst %", "below ideal"]
    heads += ["below it here", "scheduler %", "at 100/s %"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for system, score in scores.items():
        cells = [system, *(f"{100 * score.share(name):.1f}" for name in MODELS)]
        spread = half_range(score.each_goodput)
        cells += [f"{100 * score.goodput:.1f} ±{100 * spread:.1f}", f"{100 * score.weighted(seconds):.1f}"]
        cells += [f"{100 * score.worst:.1f}"]
        cells += [f"{100 * furthest_below(scores[top], score):+.1f}" for top in IDEALS[:2]]
        if score.scheduler:
            cells += [f"{100 * mean(score.scheduler):.2f}", f"{1e4 * mean(score.per_request_s):.2f}"]
        else:
            cells += ["", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def print_targets(cells: Mapping[tuple[float, float], Mapping[str, Score]], policies: Sequence[str]) -> None:
    """What of the targets each policy meets."""
    print("\n## Targets\n")
    print(
        f"Within {WITHIN_POINTS:g} points: in how many cells no tenant is further below the ideal; here: the"
    )
    print("ideal on a machine that varies as this one did.\n")
    heads = ["policy", f"within {WITHIN_POINTS:g} points", "furthest below", "within, here", "furthest, here"]
    heads += [
        f"least goodput at {utilisation:g} (target {target:g})"
        for utilisation, target in GOODPUT_TARGETS.items()
    ]
    heads += [f"scheduler at 100/s % (target {100 * SCHEDULER_TARGET:g})"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for policy in policies:
        row = [policy]
        for top in IDEALS[:2]:
            below = [100 * furthest_below(scores[top], scores[policy]) for scores in cells.values()]
            row += [f"{sum(b <= WITHIN_POINTS for b in below)} of {len(below)}", f"{max(below):+.1f}"]
        for utilisation in GOODPUT_TARGETS:
            there = [scores[policy].goodput for (at, _), scores in cells.items() if at == utilisation]
            row.append(f"{min(there):.3f}" if there else "not run")
        row.append(f"{max(1e4 * mean(scores[policy].per_request_s) for scores in cells.values()):.2f}")
        print("| " + " | ".join(row) + " |")


def print_drift(bench: Bench, runs: Sequence[Run]) -> None:
    """How steady the machine was."""
    drift = [mean(run.speed_s[name] / bench.isolated_s[name] for name in MODELS) for run in runs]
    if drift:
        print(
            f"\nWhat the wide session took between runs, beside the start: median {median(drift):.2f},"
            f" from {min(drift):.2f} to {max(drift):.2f}."
        )
    stretches = [Stretch(*each) for run in runs for each in run.stretches]
    print(f"\nWithin its runs, and between them, it took {described(stretches)}.")


def furthest_below(top: Score, score: Score) -> float:
    """By how much of its requests the tenant that falls furthest below another score does so."""
    return max(top.share(name) - score.share(name) for name in MODELS)


def half_range(values: Sequence[float]) -> float:
    """Half the largest difference between two of them."""
    return max((abs(a - b) for a, b in combinations(values, 2)), default=0.0) / 2
