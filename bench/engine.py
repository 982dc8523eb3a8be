"""Layers per second of the engine and simulator, beside SimPy on the same load in the same run.

Four models of 22 to 56 layers, as they are scheduled, arrive by Poisson at utilisation 0.5, 0.9 and 1.1
under edf, with the log, estimates, noise and contention on. SimPy gets the same requests: one process
each, a priority resource with as many places as there are cores, one timeout per layer. A process takes
its place anew for every layer, so that an earlier deadline gets in at the end of a layer, as under our
edf; without log, estimates, noise and contention. Both see the same arrival times and layer times. Times
are processor time. Prints a markdown table with medians over interleaved repeats, and the machine.

    .venv/bin/python bench/engine.py [--requests 3000] [--repeats 5] [--policy edf]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from datetime import date

import simpy

from headway import wiring
from headway.config import Scenario

MODELS = ("vgg16", "resnet18", "mobilenet_v2", "resnet50")
UTILISATIONS = (0.5, 0.9, 1.1)


def scenario(utilisation: float, requests: int, rates: dict[str, float] | None) -> Scenario:
    """Each model offers the same share of the load."""
    return Scenario.from_mapping(
        {
            "name": f"engine-{utilisation}",
            "hardware": {"preset": "stream-hetero4", "dram": {"bandwidth": "64 GB/s"}},
            "requests": requests,
            "policy": "edf",
            "tenants": [
                {
                    "name": model.replace("_", "-"),
                    "model": model,
                    "sla": {"isolated": 5.0},
                    "arrivals": {"process": "poisson", "rate": f"{rates[model] if rates else 1.0} /s"},
                }
                for model in MODELS
            ],
        }
    )


def prepare(utilisation: float, requests: int) -> wiring.Prepared:
    """The load at a utilisation: arrival rates such that the cores are busy that share of the time."""
    probe = wiring.prepare(scenario(utilisation, 1, None))
    cores = len(probe.device.cores)
    rates = {load.model: utilisation * cores / len(MODELS) / load.isolated_s for load in probe.loads}
    return wiring.prepare(scenario(utilisation, requests, rates))


def run_simpy(prepared: wiring.Prepared) -> tuple[int, float]:
    """Layers run and seconds taken by SimPy."""
    arrivals = [arrive.request for arrive in prepared.source().first()]
    layers = {name: list(table.best_s) for name, table in prepared.tables.items()}
    count = 0

    def one(environment, resource, request):
        nonlocal count
        yield environment.timeout(request.arrival_s)
        for seconds in layers[request.model]:
            with resource.request(priority=request.deadline_s) as place:
                yield place
                yield environment.timeout(seconds)
            count += 1

    begin = time.process_time()
    environment = simpy.Environment()
    resource = simpy.PriorityResource(environment, capacity=len(prepared.device.cores))
    for request in arrivals:
        environment.process(one(environment, resource, request))
    environment.run()
    return count, time.process_time() - begin


def run_headway(prepared: wiring.Prepared, policy: str) -> tuple[int, float]:
    """Layers run and seconds taken by Headway, from arrivals to the log in memory."""
    begin = time.process_time()
    log = wiring.simulate(prepared, policy)
    seconds = time.process_time() - begin
    rows = log.where("progress")
    return int((log.integers("end_block")[rows] - log.integers("first_block")[rows]).sum()), seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--policy", default="edf")
    options = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {platform.system()}, Python {sys.version.split()[0]},"
    )
    print(
        f"SimPy {simpy.__version__}, {date.today()}, seed 0, {options.requests} requests,"
        f" policy {options.policy}\n"
    )
    print("| utilisation | Headway layers/s | Headway requests/s | SimPy layers/s | ratio (median) |")
    print("| --- | --- | --- | --- | --- |")
    for utilisation in UTILISATIONS:
        prepared = prepare(utilisation, options.requests)
        ours, theirs = [], []
        for _ in range(options.repeats):
            layers, seconds = run_headway(prepared, options.policy)
            ours.append((layers / seconds, options.requests / seconds))
            layers, seconds = run_simpy(prepared)
            theirs.append(layers / seconds)
        ratio = statistics.median(our / their for (our, _), their in zip(ours, theirs, strict=True))
        print(
            f"| {utilisation} | {statistics.median(our for our, _ in ours):,.0f} "
            f"| {statistics.median(rate for _, rate in ours):,.0f} "
            f"| {statistics.median(theirs):,.0f} | {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
