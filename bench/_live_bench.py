"""What bench/live.py measures on: this machine's bare sessions, and scenarios of the same three models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import mean, median

from _bare import Bare, alone_s, serve
from _live_records import Machine
from _scores import Score, ideal
from _speed import Stretch, varying

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
CALIBRATION_S = 0.4
DRAWS = 5  # of how the machine varies
IDEALS = ("ideal", "ideal, this machine", "ideal, our times", "ideal, our times, this machine")


@dataclass
class Bench:
    """The bare sessions, what they take alone, how many requests a second utilisation 1 is, and what our
    blocks and a dispatch take of each model alone by its profile."""

    seed: int
    base: wiring.Prepared
    wide: Bare
    narrow: list[Bare]
    isolated_s: dict[str, float]
    capacity_s: float
    ours_s: dict[str, float]
    backlog_s: float

    @classmethod
    def start(cls, seed: int, backlog_s: float, known: Machine | None) -> Bench:
        """Open the bare sessions and measure them, unless what was found earlier is to be kept."""
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
        ours_s = {load.tenant: load.isolated_s for load in prepared.loads}
        narrow = [Bare(1, models, inputs) for _ in range(threads)]
        if known is not None:
            wide = Bare(threads, models, inputs, spinning=known.spinning)
            return cls(
                seed, prepared, wide, narrow, known.isolated_s, known.capacity_s, known.ours_s, backlog_s
            )
        # Idle threads that spin win where nobody else wants the processor, and lose much where somebody does.
        choices = [Bare(threads, models, inputs, spinning=spinning) for spinning in (True, False)]
        times: list[list[dict[str, float]]] = [[], []]
        for _ in range(4):
            for one, found in zip(choices, times, strict=True):
                found.append(alone_s(one, CALIBRATION_S))
        medians = [{name: median(t[name] for t in found) for name in MODELS} for found in times]
        ratio = mean(medians[0][name] / medians[1][name] for name in MODELS)
        wide, isolated_s = (choices[0], medians[0]) if ratio <= 1.0 else (choices[1], medians[1])
        bench = cls(seed, prepared, wide, narrow, isolated_s, 1.0, ours_s, backlog_s)
        bench.capacity_s = median(bench.narrow_capacity(round) for round in range(3))
        return bench

    def prepared(self, scenario: Scenario) -> wiring.Prepared:
        """Another scenario of the same models, which are not loaded again."""
        loads = tuple(
            TenantLoad.of(tenant, load.model, load.blocks, load.isolated_s)
            for tenant, load in zip(scenario.tenants, self.base.loads, strict=True)
        )
        return replace(self.base, scenario=scenario, loads=loads, expected_requests=None)

    def rates(self, utilisation: float) -> dict[str, float]:
        """Requests a second of each tenant, equal in work: that share of what the narrow workers get done."""
        return {
            name: utilisation * self.capacity_s / len(MODELS) / alone
            for name, alone in self.isolated_s.items()
        }

    def backlog(self, seed: int) -> Scenario:
        """Work for `backlog_s` on one wide lane, all of it there at the start, nothing of it urgent."""
        rates = {name: 1e3 * rate for name, rate in self.rates(1.0).items()}
        count = ceil(sum(self.backlog_s / len(MODELS) / alone for alone in self.isolated_s.values()))
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


def add_ideals(
    bench: Bench,
    scores: Mapping[str, Score],
    requests: Sequence[Request],
    sla_s: Mapping[str, float],
    alone_s: Mapping[str, float],
    stretches: Sequence[Stretch],
    place: Sequence[str | int],
) -> None:
    """Score the four ideals on the requests of a repeat: on a steady machine and on one that varies by
    `stretches`, at what bare sessions took in that repeat, and at what our blocks take, as much slower or
    faster as those were. `place` names the draws; all SLAs meet the same."""
    ours_s = {name: bench.ours_s[name] * alone_s[name] / bench.isolated_s[name] for name in MODELS}
    for name, here, seconds in zip(IDEALS[::2], IDEALS[1::2], (alone_s, ours_s), strict=True):
        scores[name].add(requests, ideal(requests, seconds), sla_s)
        for draw in range(DRAWS):
            speed = varying(stretches, bench.seed, *place, draw)
            scores[here].add(requests, ideal(requests, seconds, speed), sla_s)


def arrivals(prepared: wiring.Prepared) -> list[Request]:
    """The requests of a scenario, in order of arrival."""
    return [arrival.request for arrival in prepared.source().first()]
