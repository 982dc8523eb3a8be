"""Policies on two simulated lanes that disturb each other by pairs: violations, drops counted.

Made-up models of 2 to 24 ms in blocks of about 1 ms, drawn by seed, some bound by compute, some by memory,
some by neither. On `gpu` a request takes one lane, and what two of them lose is the fluid rule plus a hidden
deviation (0.1); on `cpu` a request may be split over both lanes, at 0.85 of the throughput of two side by
side. Utilisation 1 is one request after the other, as fast as each can be, without a pause. Times stray by 5
percent; a dispatch takes 20 us (gpu) or 66 us (cpu). Arrivals are Poisson, each model brings the same work.
Policies believe what they would in a simulation of Headway: `abacus` and `skadi` networks trained on groups
of these models, the others the fluid rule, corrected by what they see. All tenants have deadlines and the
same priority: `orion` and `reef`, which are about two classes, are left out.

    python bench/blocks.py [--full] [--device gpu] [--policies edf:planned,headway] [--seeds 101,102,103]

The quick form takes a minute or two on an idle machine; the full one has 20,000 requests in every cell.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from datetime import date
from functools import partial
from multiprocessing import Pool
from time import thread_time
from typing import NamedTuple

from _scores import ends_of, numbers

from headway.config.arrivals import Poisson
from headway.core.block import Pressure
from headway.core.decision_time import DecisionTimes
from headway.core.device import Device
from headway.core.engine import Engine
from headway.cost.contention import PairOverlap, fluid_loss
from headway.cost.lanes import LaneTable
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.policies import make
from headway.predict.group import abacus_estimator, skadi_estimator
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.overlap import FluidOverlap, KnownOverlap
from headway.record.log import MemoryLog
from headway.sim.driver import Simulation
from headway.sim.noise import LogNormalNoise
from headway.sim.pairs import HiddenLoss
from headway.workload.draws import stream
from headway.workload.sources import ScenarioSource, TenantLoad

POLICIES = "fcfs,sjf,edf,laxity,edf:planned,split,gslice,abacus,skadi,headway"
DISPATCH_S = {"gpu": 20e-6, "cpu": 66e-6}
WIDE_EFFICIENCY = 0.85
CPU_W = 0.3  # about what two side by side lose there, which the efficiency is relative to
DEVIATION = 0.1
NOISE = 0.05
SHORTEST_S, LONGEST_S, BLOCK_S = 2e-3, 24e-3, 1e-3
SHARES = {"gpu": (0.75, 0.35, 0.35), "cpu": (0.65, 0.65, 0.2)}  # of the scarce resource, the other, places

DEVICE = Device.of_lanes("two lanes", 2, 1, "")


class Cell(NamedTuple):
    """What is simulated once."""

    device: str
    models: int
    utilisation: float
    sla: float
    seed: int
    requests: int


def tables_of(device: str, count: int, seed: int) -> dict[str, LaneTable]:
    """The cost tables of that many models."""
    overheads = DeviceProfile("", "", 2, DISPATCH_S[device], 0.0, 0.0)
    tables = {}
    for at in range(count):
        name = f"m{at}"
        draw = stream(seed, "model", name, 0)
        share = (at + 0.5) / count
        alone_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** share * float(draw.uniform(0.8, 1.25))
        narrow_s = alone_s if device == "gpu" else alone_s * 2 * WIDE_EFFICIENCY / (1 + CPU_W)
        blocks = max(1, round(narrow_s / BLOCK_S))
        parts = draw.uniform(0.5, 1.5, blocks)
        parts /= parts.sum()
        scarce, other, places = SHARES[device]
        bound = (at + int(draw.integers(2))) % 3  # compute, memory, neither
        pressures = []
        for block in range(blocks):
            jitter = float(draw.uniform(0.8, 1.2))
            compute = jitter * (scarce if bound == 0 else other)
            memory = jitter * (scarce if bound == 1 else other)
            pressures.append(Pressure(name, block, 1, compute, memory, places, 0.1))
        seconds = {1: [narrow_s * float(part) for part in parts]}
        if device == "cpu":
            seconds[2] = [alone_s * float(part) for part in parts]
        profiles = tuple(
            BlockProfile(
                f"{name}-{block}",
                "",
                0,
                (),
                {width: Timing.of([each[block]]) for width, each in seconds.items()},
            )
            for block in range(blocks)
        )
        whole = {width: Timing.of([sum(each)]) for width, each in seconds.items()}
        zeros, copies = dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0)
        profile = ModelProfile(name, "", "", "", (), profiles, whole, zeros, copies, 0.0)
        by_lanes = {1: pressures}
        if device == "cpu":
            by_lanes[2] = [each._replace(lanes=2) for each in pressures]
        tables[name] = LaneTable(profile, DEVICE, overheads, by_lanes)
    return tables


def violations(policy: str, cell: Cell, decisions: DecisionTimes | None = None) -> tuple[int, int, float]:
    """Requests not in time, requests, and the work that was in time, in seconds per second."""
    tables = tables_of(cell.device, cell.models, cell.seed)
    draws = partial(stream, cell.seed, "overlap")
    truth = HiddenLoss(fluid_loss, DEVIATION, draws)
    chosen = make(policy)
    if chosen.estimator in ("abacus", "skadi"):
        build = abacus_estimator if chosen.estimator == "abacus" else skadi_estimator
        estimator: LaneEstimator = build(DEVICE, tables, FluidOverlap(), truth, cell.seed)
    else:
        known = chosen.estimator == "oracle-overlap"
        estimator = LaneEstimator(
            DEVICE,
            tables,
            KnownOverlap(truth) if known else FluidOverlap(),
            learns=chosen.estimator != "no-calibration",
            margins=chosen.estimator != "no-margin",
        )
    alone_s = {name: table.isolated_s for name, table in tables.items()}
    rate_s = {name: cell.utilisation / cell.models / each for name, each in alone_s.items()}
    loads = [
        TenantLoad(
            name,
            name,
            tables[name].blocks,
            alone_s[name],
            cell.sla * alone_s[name],
            Poisson.model_validate({"process": "poisson", "rate": f"{rate_s[name]:.6f} /s"}),
        )
        for name in tables
    ]
    duration_s = cell.requests / sum(rate_s.values())
    log = MemoryLog({})
    engine = Engine(DEVICE, chosen, estimator, estimator.contention, log, decision_times=decisions)
    noise = LogNormalNoise(NOISE, lambda tenant, chunk: stream(cell.seed, "noise", tenant, chunk))
    source = ScenarioSource(loads, cell.seed, duration_s=duration_s)
    Simulation(engine, source, DEVICE, tables, PairOverlap(truth), noise).run()
    ended_s = ends_of(log.table())
    asked = [arrival.request for arrival in ScenarioSource(loads, cell.seed, duration_s=duration_s).first()]
    good = [request for request in asked if ended_s.get(request.id, 1e300) <= request.deadline_s]
    return len(asked) - len(good), len(asked), sum(alone_s[each.tenant] for each in good) / duration_s


def decision_times(policy: str, device: str) -> list[float]:
    """Microseconds of processor time of a decision with a hundred requests waiting or more: the median, the
    95th and the 99th percentile. Overload with far deadlines makes the queue that long."""
    times = DecisionTimes(thread_time)
    violations(policy, Cell(device, 4, 8.0, 300.0, 1, 700))
    violations(policy, Cell(device, 4, 8.0, 300.0, 1, 700), times)
    seconds = sorted(list(times.seconds)[len(times.seconds) // 4 : 3 * len(times.seconds) // 4])
    return [1e6 * seconds[int(share * len(seconds))] for share in (0.5, 0.95, 0.99)]


def _measured(job: tuple[str, Cell]) -> tuple[str, Cell, tuple[int, int, float]]:
    return *job, violations(*job)


def main() -> None:
    """Simulate and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="20,000 requests a cell, all cells")
    parser.add_argument("--requests", type=int, help="in a cell, over all its seeds")
    parser.add_argument("--device", default="gpu,cpu")
    parser.add_argument("--models", type=numbers)
    parser.add_argument("--utilisations", type=numbers)
    parser.add_argument("--slas", type=numbers)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--seeds", type=numbers, default=[101.0, 102.0, 103.0])
    parser.add_argument("--decisions", action="store_true", help="only what decisions take, for a long queue")
    options = parser.parse_args()
    if options.decisions:
        print("| device | policy | median, us | 95 % | 99 % |\n" + "|" + " --- |" * 5)
        for device in options.device.split(","):
            for policy in options.policies.split(","):
                cells_us = " | ".join(f"{each:.0f}" for each in decision_times(policy, device))
                print(f"| {device} | {policy} | {cells_us} |", flush=True)
        return
    full = options.full
    counts = [int(each) for each in options.models or ([2, 4, 8] if full else [4])]
    utilisations = options.utilisations or ([0.3, 0.5, 0.7, 0.9, 1.2] if full else [0.5, 0.7, 0.9, 1.2])
    slas = options.slas or ([2, 3, 5, 10] if full else [2, 5])
    seeds = [int(seed) for seed in options.seeds]
    requests = (options.requests or (21_000 if full else 1_500)) // len(seeds)
    policies = options.policies.split(",")
    cells = [
        (device, count, utilisation, sla)
        for device in options.device.split(",")
        for count in counts
        for utilisation in utilisations
        for sla in slas
    ]
    jobs = [(policy, Cell(*cell, seed, requests)) for cell in cells for policy in policies for seed in seeds]
    found: dict[tuple[object, ...], list[tuple[int, int, float]]] = {}
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{len(seeds)} x {requests} requests a cell, seeds {', '.join(map(str, seeds))}\n")
    print("Violations in percent, late and dropped requests together.\n")
    print(f"| device | models | utilisation | SLA | {' | '.join(policies)} |")
    print("|" + " --- |" * (4 + len(policies)))
    with Pool(2) as pool:
        for policy, cell, result in pool.imap(_measured, jobs):
            found.setdefault((*cell[:4], policy), []).append(result)
            if policy == policies[-1] and cell.seed == seeds[-1]:
                each = [f"{100 * _share(found[(*cell[:4], name)]):.2f}" for name in policies]
                named = [cell.device, str(cell.models), f"{cell.utilisation:g}", f"{cell.sla:g}"]
                print("| " + " | ".join([*named, *each]) + " |", flush=True)
    for device in options.device.split(","):
        own = [cell for cell in cells if cell[0] == device]
        shares = [sum(_share(found[(*cell, name)]) for cell in own) / len(own) for name in policies]
        print(f"| {device} | **mean** | | | {' | '.join(f'{100 * share:.2f}' for share in shares)} |")
        work = [_work([found[(*cell, name)] for cell in own]) for name in policies]
        print(f"| {device} | work in time | | | {' | '.join(f'{each:.3f}' for each in work)} |")


def _share(results: Sequence[tuple[int, int, float]]) -> float:
    return sum(bad for bad, _, _ in results) / max(1, sum(asked for _, asked, _ in results))


def _work(cells: Sequence[Sequence[tuple[int, int, float]]]) -> float:
    """Mean of the work in time, in seconds alone per second."""
    each = [work for results in cells for _, _, work in results]
    return sum(each) / len(each)


if __name__ == "__main__":
    main()
