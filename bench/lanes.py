"""Policies on two lanes in simulation, on made-up models, beside the ideal of bench/live.py.

Three models take 2.1, 18 and 70 ms alone on both lanes, and each brings a third of the work. On one lane they
take so long that two lanes side by side get 1 / 0.85 of the work done that both together do; that is
utilisation 1. Blocks take 2 ms on one lane unless told otherwise; splitting costs 2 percent; a dispatch takes
66 us; times stray by 5 percent. `--slow-narrow` and `--slow-wide` make runs take longer than their profiles
say. `--stalls 3,0.08,1` makes the whole machine three times slower for 80 ms at a time, once a second in the
mean; the ideals stall likewise, and count on nothing of it.

    python bench/lanes.py [--slas 4] [--slow-narrow 1.2 --slow-wide 1.8]
    python bench/lanes.py --wide-cost 1.2 --dispatch 330 --policies edf:planned --seeds 1,2 --duration 30
    python bench/lanes.py --policies edf:planned,headway --stalls 3,0.08,1
    python bench/lanes.py --minutes 10

With `--wide-cost` blocks over both lanes take that times the bare model, as profiles then say too; "ideal,
our times" is the ideal with what such blocks and a dispatch take. `--minutes` chooses how long arrivals
last, by a short run of every policy, so that all of it takes about so long.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from time import perf_counter

from _scores import Score, ends_of, ideal, numbers

from headway.config.arrivals import Poisson
from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.request import Request
from headway.cost import LaneTable, OverlapLoss
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.record.log import MemoryLog
from headway.sim.driver import Simulation
from headway.sim.noise import LogNormalNoise
from headway.sim.speed import Speed, alternating
from headway.workload.arrivals import stream
from headway.workload.sources import ScenarioSource, TenantLoad

ALONE_S = {"small": 2.1e-3, "middle": 18e-3, "large": 70e-3}
WIDE_EFFICIENCY = 0.85
OVERLAP_W = 0.05
SPLIT_COST = 1.02
NOISE = 0.05
TRIAL_S = 3.0
SHORTEST_S = 5.0
POLICIES = "fcfs,edf,laxity,laxity:wide,laxity:adaptive,edf:adaptive,split,edf:planned"

DEVICE = Device.of_lanes("two lanes", 2, 1, "")


@dataclass(frozen=True)
class Costs:
    """What runs take: a block on one lane, how much longer blocks over both lanes take than the bare model, a
    dispatch, and how many times more than all that runs really take, by width."""

    block_s: float
    wide_cost: float
    dispatch_s: float
    slow: Mapping[int, float]

    @property
    def believed(self) -> Costs:
        """The same without what is not in profiles."""
        return replace(self, slow={1: 1.0, 2: 1.0})


def table(name: str, costs: Costs) -> LaneTable:
    """A model's costs in blocks of that length."""
    narrow_s = ALONE_S[name] * WIDE_EFFICIENCY * 2 / (1 + OVERLAP_W)
    count = max(1, round(narrow_s / costs.block_s))
    seconds = {
        1: Timing.of([costs.slow[1] * narrow_s * SPLIT_COST / count]),
        2: Timing.of([costs.slow[2] * ALONE_S[name] * costs.wide_cost / count]),
    }
    blocks = tuple(BlockProfile(str(index), "", 0, (), seconds) for index in range(count))
    whole = {1: Timing.of([narrow_s]), 2: Timing.of([ALONE_S[name]])}
    none = {1: 0, 2: 0}
    profile = ModelProfile(name, "", "", "", (), blocks, whole, {1: 0.0, 2: 0.0}, none, 0.0)
    return LaneTable(profile, DEVICE, DeviceProfile("", "", 2, costs.dispatch_s, 0.0, OVERLAP_W))


def run(
    policy: str,
    utilisation: float,
    sla: float,
    seed: int,
    duration_s: float,
    costs: Costs,
    stalls: Sequence[float] | None,
) -> tuple[list[Request], dict[int, float]]:
    """The requests of one simulation, and when those that completed ended."""
    believed = {name: table(name, costs.believed) for name in ALONE_S}
    true = {name: table(name, costs) for name in ALONE_S}
    loads = [
        TenantLoad(
            name,
            name,
            believed[name].blocks,
            alone_s,
            sla * alone_s,
            Poisson.model_validate(
                {"process": "poisson", "rate": f"{utilisation / WIDE_EFFICIENCY / 3 / alone_s:.6f} /s"}
            ),
        )
        for name, alone_s in ALONE_S.items()
    ]
    rule, log = OverlapLoss(OVERLAP_W), MemoryLog({})
    engine = Engine(DEVICE, make(policy), AnalyticEstimator(DEVICE, believed, rule), rule, log)
    noise = LogNormalNoise(NOISE, lambda tenant, chunk: stream(seed, "noise", tenant, chunk))
    source = ScenarioSource(loads, seed, duration_s=duration_s)
    Simulation(engine, source, DEVICE, true, rule, noise, speed=speed_of(stalls, seed)).run()
    again = ScenarioSource(loads, seed, duration_s=duration_s)
    return [arrival.request for arrival in again.first()], ends_of(log.table())


def speed_of(stalls: Sequence[float] | None, seed: int) -> Speed | None:
    """A machine with stalls of that factor, length and distance."""
    return None if stalls is None else Speed(alternating(*stalls, stream(seed, "stalls")))


def affordable_s(options: argparse.Namespace, policies: Sequence[str], costs: Costs) -> float:
    """Seconds of arrivals in each run, so that all runs take about as many minutes as asked for."""
    began_s = perf_counter()
    for policy in policies:
        for utilisation in options.utilisations:
            run(policy, utilisation, options.slas[0], 1, TRIAL_S, costs, options.stalls)
    trial_s = perf_counter() - began_s
    whole_s = 60.0 * options.minutes - trial_s
    each_s = (
        trial_s / TRIAL_S * len(options.slas) * len(options.seeds)
    )  # for a second of arrivals in all runs
    if whole_s < SHORTEST_S * each_s:
        least = ceil((trial_s + SHORTEST_S * each_s) / 60.0)
        raise SystemExit(f"--minutes: accepted: at least {least}, or fewer policies, cells or seeds")
    return round(whole_s / each_s, 1)


def main() -> None:
    """Simulate and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utilisations", type=numbers, default=[0.3, 0.6, 0.8, 0.95])
    parser.add_argument("--slas", type=numbers, default=[2.0, 4.0, 8.0])
    parser.add_argument("--policies", default=POLICIES, help="comma-separated")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of arrivals in a run")
    parser.add_argument("--seeds", type=numbers, default=[1.0, 2.0, 3.0])
    parser.add_argument("--block", type=float, default=2.0, help="milliseconds of a block on one lane")
    parser.add_argument("--wide-cost", type=float, default=SPLIT_COST, help="of blocks over both lanes")
    parser.add_argument("--dispatch", type=float, default=66.0, help="microseconds")
    parser.add_argument("--slow-narrow", type=float, default=1.0, help="times longer than profiled")
    parser.add_argument("--slow-wide", type=float, default=1.0, help="times longer than profiled")
    parser.add_argument("--stalls", type=numbers, help="factor, seconds one lasts, seconds between")
    parser.add_argument("--minutes", type=float, help="of all of it, in place of --duration")
    options = parser.parse_args()
    if options.stalls is not None and not (
        len(options.stalls) == 3 and options.stalls[0] >= 1.0 and 0.0 < options.stalls[1] < options.stalls[2]
    ):
        parser.error("--stalls: accepted: a factor from 1 on, seconds, and more seconds, such as 3,0.08,1")
    slow = {1: options.slow_narrow, 2: options.slow_wide}
    costs = Costs(1e-3 * options.block, options.wide_cost, 1e-6 * options.dispatch, slow)
    policies = options.policies.split(",")
    if options.minutes is not None:
        options.duration = affordable_s(options, policies, costs)
    command = f"python bench/lanes.py {' '.join(sys.argv[1:])}".strip()
    seeds = ", ".join(f"{seed:g}" for seed in options.seeds)
    print(f"`{command}`: {options.duration:g} s of arrivals, seeds {seeds}\n")
    true_s = {name: alone_s * slow[2] for name, alone_s in ALONE_S.items()}
    ours_s = {name: table(name, costs).isolated_s for name in ALONE_S}
    print(
        "Requests in time in percent, by tenant, of all, and of the work; and by how many points the tenant"
    )
    print("that falls furthest below the ideal does so.\n")
    print("| utilisation | SLA | policy | small | middle | large | all | work | below ideal |")
    print("|" + " --- |" * 9)
    for utilisation in options.utilisations:
        for sla in options.slas:
            limits = {name: sla * alone_s for name, alone_s in ALONE_S.items()}
            best, ours = Score(), Score()
            scores = {policy: Score() for policy in policies}
            for seed in map(int, options.seeds):
                for policy, score in scores.items():
                    requests, ended_s = run(
                        policy, utilisation, sla, seed, options.duration, costs, options.stalls
                    )
                    score.add(requests, ended_s, limits)
                best.add(requests, ideal(requests, true_s, speed_of(options.stalls, seed)), limits)
                ours.add(requests, ideal(requests, ours_s, speed_of(options.stalls, seed)), limits)
            for name, score in {"ideal": best, "ideal, our times": ours, **scores}.items():
                below = max(best.share(tenant) - score.share(tenant) for tenant in ALONE_S)
                shares = [
                    *(score.share(tenant) for tenant in ALONE_S),
                    score.goodput,
                    score.weighted(ALONE_S),
                ]
                cells = [f"{utilisation:g}", f"{sla:g}", name, *(f"{100 * share:.1f}" for share in shares)]
                print("| " + " | ".join([*cells, f"{100 * below:+.1f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
