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
faster as the bare sessions were in that round: what is lost between the two no policy can win back. Both are
of a steady machine. "This machine" is the same on one that varies as the bare wide sessions did in that
round: how many times longer than in their median runs took over time, in pieces of a second drawn at random.

All systems meet the same arrivals, in turns within a round, in an order that rotates from round to round; a
round has arrivals of its own. First in first out, deaf to SLAs, runs only for the first SLA of a utilisation.
Between runs the bare sessions' times are taken again, since the speed of a machine that others use drifts.
The first second of arrivals warms up and is not counted.

    python bench/live.py --utilisations 0.8 --slas 4 --repeats 2 --minutes 4
    python bench/live.py --policies edf:planned,headway --repeats 1 --minutes 9      # all cells, shortly
    python bench/live.py --duration 30 --repeats 5 --results live.jsonl              # all cells: hours

Each cell is printed when it is measured. `--minutes` bounds the time of all of it: it chooses the duration,
and cells for which no time is left are named and left out. The models are always taken in first, which takes
most of a minute on two processors that nobody else uses. What is in `--results` is not measured again: the
same command goes on where an earlier one ended, with its arrivals, deadlines and duration.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import onnxruntime
from _bare import Timed, alone_runs, medians, serve
from _live_bench import CALIBRATION_S, MODELS, Bench, add_ideals, arrivals, scenario
from _live_records import Backlog, Machine, Records, Run
from _live_tables import IDEALS, print_cell, print_drift, print_machine, print_targets, print_throughput
from _scores import Score, ends_of, numbers
from _speed import Stretch, against_median, stretches_of

from headway import wiring

POLICIES = "laxity:adaptive,edf:planned,headway"
BACKLOG_S = 4.0
RUN_MORE_S = 2.0  # of a run: opening sessions, and what is left at its end
SHORTEST_S = 3.0


@dataclass
class Clock:
    """How long all of it may take; `more_s` is what a run took at most beside its arrivals."""

    limit_s: float | None
    began_s: float = field(default_factory=perf_counter)
    more_s: float = RUN_MORE_S

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return float("inf") if self.limit_s is None else self.limit_s - (perf_counter() - self.began_s)

    def allows(self, duration_s: float) -> bool:
        """Whether one more run of so many seconds of arrivals ends in time."""
        return self.left_s > duration_s + self.more_s + CALIBRATION_S


def measure_throughput(
    bench: Bench, policies: Sequence[str], repeats: int, records: Records, clock: Clock
) -> None:
    """Work done a second by each system of a backlog, in each repeat."""
    known = {(found.system, found.repeat) for found in records.backlogs}
    systems = ["fifo-wide", "fifo-narrow", *policies]
    for repeat in range(repeats):
        prepared = bench.prepared(bench.backlog(bench.seed + repeat))
        requests = arrivals(prepared)
        for system in rotated(systems, repeat):
            if (system, repeat) in known or not clock.allows(bench.backlog_s):
                continue
            if system == "fifo-wide":
                ended_s = serve([bench.wide], requests)
            elif system == "fifo-narrow":
                ended_s = serve(bench.narrow, requests)
            else:
                ended_s = ends_of(wiring.run(prepared, system).log)
            records.add(Backlog(system, repeat, bench.work_s(requests) / max(ended_s.values())))


def measure_cell(
    bench: Bench,
    utilisation: float,
    sla: float,
    slas: Sequence[float],
    policies: Sequence[str],
    machine: Machine,
    records: Records,
    clock: Clock,
) -> dict[str, Score] | None:
    """Scores of all systems at one utilisation and SLA; None if there was no time for all of them."""
    scores = {name: Score() for name in (*IDEALS, "fifo-wide", "fifo-narrow", *policies)}
    for repeat in range(machine.repeats):
        known = {run.system: run for run in records.of(utilisation, sla, repeat)}
        for system in rotated(["fifo-wide", "fifo-narrow", *policies], repeat):
            if system in known:
                continue
            if not clock.allows(machine.duration_s):
                return None
            began_s = perf_counter()
            found = known[system] = measure_run(bench, utilisation, sla, slas, system, repeat, machine)
            records.add(found)
            clock.more_s = max(clock.more_s, perf_counter() - began_s - machine.duration_s)
            tell(f"utilisation {utilisation:g}, SLA {sla:g}, repeat {repeat + 1}: {system}")
        speeds = [run.speed_s for run in known.values()]
        alone = {name: mean(speed[name] for speed in speeds) for name in MODELS}
        stretches = [Stretch(*each) for run in known.values() for each in run.stretches]
        requests = arrivals(of_cell(bench, utilisation, sla, repeat, machine))
        place = (f"{utilisation:g}", repeat)
        add_ideals(bench, scores, requests, limits_of(bench, sla), alone, stretches, place)
        for system in ("fifo-wide", "fifo-narrow", *policies):
            scores[system].include(known[system].score(sla))
    return scores


def measure_run(
    bench: Bench,
    utilisation: float,
    sla: float,
    slas: Sequence[float],
    system: str,
    repeat: int,
    machine: Machine,
) -> Run:
    """One system on one repeat's arrivals; first in first out scores at all SLAs at once."""
    prepared = of_cell(bench, utilisation, sla, repeat, machine)
    requests = arrivals(prepared)
    scores: dict[str, Score] = {}
    served: list[Timed] = []
    if system == "fifo-wide":
        ended_s = serve([bench.wide], requests, served)
    elif system == "fifo-narrow":
        ended_s = serve(bench.narrow, requests)
    if system.startswith("fifo-"):
        for each in slas:
            scores[f"{each:g}"] = Score()
            scores[f"{each:g}"].add(requests, ended_s, limits_of(bench, each))
    else:
        live = wiring.run(prepared, system)
        score = scores[f"{sla:g}"] = Score()
        score.add(requests, ends_of(live.log), limits_of(bench, sla))
        score.scheduler.append(live.report.scheduler_share)
        score.per_request_s.append(live.report.driver_cpu_s / max(1, live.report.requests))
    alone = alone_runs(bench.wide, CALIBRATION_S)
    stretches = [
        (round(stretch.duration_s, 6), round(stretch.factor, 3))
        for runs in (served, alone)
        for stretch in stretches_of(against_median(runs))
        if stretch.duration_s >= 1e-6
    ]
    sla_or_all = None if system.startswith("fifo-") else sla
    return Run(utilisation, sla_or_all, repeat, system, scores, medians(alone), stretches)


def of_cell(bench: Bench, utilisation: float, sla: float, repeat: int, machine: Machine) -> wiring.Prepared:
    """The scenario of a cell's repeat."""
    rates, limits = bench.rates(utilisation), limits_of(bench, sla)
    return bench.prepared(scenario(bench.seed + repeat, rates, limits, duration_s=machine.duration_s))


def limits_of(bench: Bench, sla: float) -> dict[str, float]:
    """The latencies that are in time."""
    return {name: sla * alone for name, alone in bench.isolated_s.items()}


def tell(what: str) -> None:
    """Show how far it is, beside the tables."""
    print(f"{datetime.datetime.now():%H:%M:%S} {what}", file=sys.stderr, flush=True)


def rotated(items: Sequence[Any], by: int) -> list[Any]:
    """The items from another beginning."""
    by %= len(items)
    return [*items[by:], *items[:by]]


def affordable_s(left_s: float, policies: int, slas: int, utilisations: int, repeats: int) -> float:
    """Seconds of arrivals in each run, so that all runs fit into what is left; not less than SHORTEST_S."""
    runs = repeats * utilisations * (2 + policies * slas)
    return max(SHORTEST_S, round(left_s / runs - CALIBRATION_S - RUN_MORE_S, 1))


def start(options: argparse.Namespace, policies: Sequence[str], records: Records, clock: Clock) -> Bench:
    """Open the sessions, measure the machine or take what is known of it, and choose the duration."""
    known = records.machine
    if known is not None and (known.seed, known.repeats) != (options.seed, options.repeats):
        raise SystemExit(
            f"{records.path}: measured with --seed {known.seed} --repeats {known.repeats};"
            f" accepted: the same, or another file"
        )
    whole_s = clock.limit_s or float("inf")
    backlog_s = min(BACKLOG_S, whole_s / 100.0)
    tell("taking in the models and measuring the machine")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADWAY_CACHE"] = folder  # profiles of another hour would not do
        bench = Bench.start(options.seed, backlog_s, known)
    tell(f"done, {clock.left_s:.0f} s are left")
    if known is not None:
        return bench
    duration_s = options.duration
    if clock.limit_s is not None:
        backlogs_s = options.repeats * (2 + len(policies)) * (backlog_s + RUN_MORE_S / 2)
        cells = (len(options.slas), len(options.utilisations))
        duration_s = affordable_s(clock.left_s - backlogs_s, len(policies), *cells, options.repeats)
    shown = (
        f"{processor()}, {len(bench.narrow)} threads; Python {platform.python_version()}, ONNX Runtime"
        f" {onnxruntime.__version__}; seed {options.seed}; {datetime.date.today().isoformat()};"
        f" {duration_s:g} s of arrivals, {options.repeats} repeats"
    )
    spinning, times = bench.wide.spinning, (bench.isolated_s, bench.ours_s, bench.capacity_s)
    records.add(Machine(options.seed, duration_s, options.repeats, spinning, *times, shown))
    return bench


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
    parser.add_argument("--minutes", type=float, help="that all of it takes at most, in place of --duration")
    parser.add_argument("--results", type=Path, help="a file of what was measured, to go on from")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    policies = options.policies.split(",")
    wiring.require_policies(policies)
    clock = Clock(None if options.minutes is None else 60.0 * options.minutes)
    records = Records.read(options.results)
    bench = start(options, policies, records, clock)
    machine = records.machine
    assert machine is not None
    print_machine(bench, machine)
    measure_throughput(bench, policies, options.repeats, records, clock)
    print_throughput(["fifo-wide", "fifo-narrow", *policies], records.backlogs)
    cells: dict[tuple[float, float], dict[str, Score]] = {}
    missing = []
    for utilisation in options.utilisations:
        for sla in options.slas:
            scores = measure_cell(bench, utilisation, sla, options.slas, policies, machine, records, clock)
            if scores is None:
                missing.append(f"{utilisation:g} at SLA {sla:g}")
                continue
            cells[utilisation, sla] = scores
            print_cell(utilisation, sla, scores, bench.isolated_s)
    if cells:
        print_targets(cells, policies)
    if missing:
        more = "more minutes" if options.results is None else "the same command goes on"
        print(f"\nNo time was left for utilisation {', '.join(missing)}: {more}.")
    print_drift(bench, records.runs)


if __name__ == "__main__":
    main()
