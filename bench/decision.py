"""How long one decision takes: a policy's `decide` with 100 waiting requests on eight cores.

Closed-loop clients keep a hundred requests of ten models waiting on preset moca8, with an SLA that most of
them can still meet. Every state in which the simulation asks the policy is asked about again with
1, 2, 4 and 8 cores idle: the runs on those cores are left out of what the policy sees, and the answers are
thrown away. All of an answer is collected, as the engine does. Each question is asked four times: the first
fills tables and the policy's look-ups and is not counted, and of the others the least counts, in processor
time, so that other programs disturb as little as they can. Prints a markdown table, the growth with the
number of idle cores relative to linear growth, and the machine.

    .venv/bin/python bench/decision.py [--policy lucas] [--requests 700] [--hardware moca8]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from time import thread_time_ns
from typing import ClassVar

from headway import wiring
from headway.config import Scenario
from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies import Policy, make, policy

MODELS = (
    "squeezenet",
    "mobilenet_v2",
    "kws_res8",
    "yolo_lite",
    "resnet18",
    "resnet50",
    "alexnet",
    "googlenet",
    "bert_base",
    "vgg16",
)
WAITING = 100
WARM_UP = 500
REPEATS = 3


class Imagined:
    """The view with some more cores idle: what runs there is left out."""

    def __init__(self, view: View, idle: int) -> None:
        free = {core.index for core in view.idle}
        for core in view.device.cores:
            if len(free) < idle:
                free.add(core.index)
        self.now, self.device, self.ready = view.now, view.device, view.ready
        self.idle = tuple(core for core in view.device.cores if core.index in free)
        self.running: tuple[Run, ...] = tuple(
            run for run in view.running if not any(core.index in free for core in run.cores)
        )
        self.table, self.extra_dram_bytes = view.table, view.extra_dram_bytes
        self.remaining_s, self.memory_free = view.remaining_s, view.memory_free
        self.estimate, self.moving = view.estimate, view.moving

    def bandwidth_free(self) -> float:
        """As the engine's view has it."""
        asked = sum(run.bandwidth_bytes_s for run in self.running)
        return self.device.dram_bandwidth_bytes_s - asked


@policy("measured")
class Measured(Policy):
    """Another policy, whose every decision is also taken for other numbers of idle cores and timed."""

    inner: Policy
    taken_ns: ClassVar[dict[int, list[int]]] = {}  # by the number of idle cores
    savable: ClassVar[list[float]] = []  # share of the waiting requests, by decision

    @classmethod
    def wrap(cls, inner: Policy, idle_cores: Sequence[int]) -> None:
        """Measure that policy from now on."""
        cls.inner, cls.needs = inner, inner.needs
        cls.taken_ns = {idle: [] for idle in idle_cores}
        cls.savable = []

    def __init__(self) -> None:
        self._decisions = 0

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The inner policy's."""
        return self.inner.key(request, view)

    def decide(self, view: View) -> Iterable[Decision]:
        """The inner policy's decisions; the measured ones are thrown away."""
        self._decisions += 1
        if len(view.ready) >= WAITING and self._decisions > WARM_UP:
            for idle, taken_ns in self.taken_ns.items():
                imagined = Imagined(view, idle)
                if len(imagined.idle) == idle:
                    list(self.inner.decide(imagined))
                    taken_ns.append(min(self._time_ns(imagined) for _ in range(REPEATS)))
            in_time = sum(r.deadline_s - view.now >= view.remaining_s(r) for r in view.ready)
            self.savable.append(in_time / len(view.ready))
        return self.inner.decide(view)

    def _time_ns(self, view: View) -> int:
        begin = thread_time_ns()
        list(self.inner.decide(view))
        return thread_time_ns() - begin

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """The inner policy's."""
        self.inner.on_finish(run, actual_s, view)


def scenario(hardware: str, cores: int, requests: int, seed: int) -> Scenario:
    """As many clients as keep `WAITING` requests waiting while every core is busy."""
    clients = -(-(WAITING + cores) // len(MODELS))
    return Scenario.from_mapping(
        {
            "name": "decision",
            "seed": seed,
            "hardware": {"preset": hardware},
            "requests": requests,
            "tenants": [
                {
                    "name": model.replace("_", "-"),
                    "model": model,
                    "sla": {"isolated": 3.0},
                    "arrivals": {"process": "closed", "clients": clients, "think_time": "1 us"},
                }
                for model in MODELS
            ],
        }
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="lucas")
    parser.add_argument("--requests", type=int, default=700)
    parser.add_argument("--hardware", default="moca8")
    parser.add_argument("--seed", type=int, default=101)
    options = parser.parse_args()
    cores = len(scenario(options.hardware, 0, 1, options.seed).device().cores)
    idle_cores = [idle for idle in (1, 2, 4, 8, 16) if idle <= cores]
    prepared = wiring.prepare(scenario(options.hardware, cores, options.requests, options.seed))
    Measured.wrap(make(options.policy), idle_cores)
    wiring.simulate(prepared, "measured")
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(
        f"{options.policy} on {options.hardware}: {WAITING} or more waiting requests,"
        f" {100 * statistics.mean(Measured.savable):.0f} % of them savable on the mean\n"
    )
    print("| idle cores | decisions | p50 us | p99 us | max us | p50 beside linear | p99 beside linear |")
    print("| --- " * 7 + "|")
    base: tuple[float, float] | None = None
    for idle, taken_ns in Measured.taken_ns.items():
        if len(taken_ns) < 100:
            continue
        cuts = statistics.quantiles(taken_ns, n=100)
        p50, p99 = cuts[49] / 1e3, cuts[98] / 1e3
        base = base or (p50, p99)
        print(
            f"| {idle} | {len(taken_ns)} | {p50:.0f} | {p99:.0f} | {max(taken_ns) / 1e3:.0f}"
            f" | {p50 / base[0] / idle:.2f} | {p99 / base[1] / idle:.2f} |"
        )


if __name__ == "__main__":
    main()
