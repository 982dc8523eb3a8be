"""Simulating a scenario under one policy after the other, with the figures of each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from headway import wiring
from headway.config import Scenario
from headway.core.decision_time import DecisionTimes
from headway.core.errors import HeadwayError
from headway.core.messages import Reply
from headway.record.evaluation import Row, figures_of
from headway.record.metrics import summarise

_SHELF = wiring.Shelf()
"""Models priced by this process."""


def scenario_runs(scenario: Scenario) -> Callable[[str], Row]:
    """Prepare a scenario; what comes back runs it under a policy and gives the figures.

    Raises HeadwayError for a scenario that cannot be prepared.
    """
    prepared = wiring.prepare(scenario, shelf=_SHELF)
    bounding = wiring.Bounding(prepared)
    return lambda policy: _run(prepared, bounding, policy)


def _run(prepared: wiring.Prepared, bounding: wiring.Bounding, policy: str) -> Row:
    priorities: dict[int, int] = {}

    def on_reply(reply: Reply) -> None:
        priorities[reply.request.id] = reply.request.priority

    times = DecisionTimes(perf_counter)
    began_s = perf_counter()
    log = wiring.simulate(prepared, policy, on_reply=on_reply, decision_times=times)
    wall_s = perf_counter() - began_s
    bound = bounding.of(log)
    summary = replace(summarise(log), sla_bound=bounding.share(log))
    if not summary.total.requests:
        raise HeadwayError(
            "no request counts: none arrived after the warm-up; accepted: a shorter warmup, or more requests"
        )
    measured = times.microseconds()
    device, demand = prepared.device, prepared.demand
    figures: dict[str, Any] = {
        "hopeless": bound.hopeless,
        "decisions": measured["count"],
        "decision_p50_us": measured["p50"],
        "decision_p99_us": measured["p99"],
        "demand_cores": None if demand is None else demand.cores,
        "demand_bandwidth": None if demand is None else demand.bandwidth,
        "dram_bandwidth_gb_s": device.dram_bandwidth_bytes_s / 1e9,
        "sram_mib": sum(core.sram_bytes for core in device.cores) / (1 << 20),
        "cores": float(len(device.cores)),
        "wall_s": wall_s,
    }
    return figures_of(log, summary, priorities) | figures
