"""What a worker does: simulate a task's scenario under each of its policies, and say what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from headway import wiring
from headway.core.decision_time import DecisionTimes
from headway.core.errors import HeadwayError
from headway.core.messages import Reply
from headway.record.evaluation import Row, figures_of
from headway.record.metrics import summarise
from headway.scale.tasks import Task

_SHELF = wiring.Shelf()
"""Models priced by this process."""


@dataclass(frozen=True, slots=True)
class Job:
    """A task with the keys of its runs, by policy."""

    task: Task
    keys: Mapping[str, str]


def run_job(job: Job, done: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """A row for each policy, in order; `done` is called with each as soon as it is there.

    A run that fails has its cause in its row, and the others go on.
    """
    rows = []
    for row in _rows(job):
        done(row)
        rows.append(row)
    return rows


def failed_rows(job: Job, cause: str) -> list[Row]:
    """Rows for runs that never came back."""
    return [_about(job, policy) | {"failed": True, "cause": cause} for policy in job.task.policies]


def _rows(job: Job) -> Iterator[Row]:
    try:
        prepared = wiring.prepare(job.task.scenario, shelf=_SHELF)
        bounding = wiring.Bounding(prepared)
    except Exception as error:
        yield from failed_rows(job, _cause(error))
        return
    for policy in job.task.policies:
        try:
            yield _about(job, policy) | {"failed": False} | _run(prepared, bounding, policy)
        except Exception as error:
            yield _about(job, policy) | {"failed": True, "cause": _cause(error)}


def _run(prepared: wiring.Prepared, bounding: wiring.Bounding, policy: str) -> Row:
    priorities: dict[int, int] = {}

    def on_reply(reply: Reply) -> None:
        priorities[reply.request.id] = reply.request.priority

    times = DecisionTimes(perf_counter)
    began_s = perf_counter()
    log = wiring.simulate(prepared, policy, on_reply=on_reply, decision_times=times)
    wall_s = perf_counter() - began_s
    bound = bounding.of(log)
    summary = replace(summarise(log), sla_bound=bound.sla_satisfaction)
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


def _about(job: Job, policy: str) -> Row:
    task = job.task
    return {
        "key": job.keys[policy],
        "cell": task.cell,
        "coordinates": dict(task.coordinates),
        "policy": policy,
        "seed": task.seed,
        "cause": None,
    }


def _cause(error: Exception) -> str:
    text = str(error)
    return text if isinstance(error, HeadwayError) else f"{type(error).__name__}: {text}"
