"""What a run achieved: pure functions of its log. docs/metrics.md has each definition with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.run import How
from headway.record.columns import (
    ENDINGS,
    IN_TIME,
    Requests,
    Stretches,
    by_request,
    requests_of,
    stretches_of,
    warmup_end_s,
)
from headway.record.log import LogTable

WILSON_Z: Final = 1.959963984540054  # the 97.5 % point of the normal distribution, for 95 % intervals


@dataclass(frozen=True, slots=True)
class Scores:
    """Figures of one tenant, or of all of them together.

    Requests that arrived during the warm-up are left out; energy, bytes, operations and preemptions are
    of the whole run. None: there is nothing to compute it from, as on lanes, where neither energy nor bytes
    nor operations are measured. A percentile or mean "with drops" takes
    requests that were not completed as infinitely late, and is then math.inf.
    """

    requests: int
    completed: int
    late: int
    dropped: int
    rejected: int
    failed: int
    cancelled: int
    unfinished: int
    infeasible_at_arrival: int
    sla_satisfaction: float | None
    sla_satisfaction_feasible: float | None
    sla_low: float | None
    sla_high: float | None
    meets_percentile: bool | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p99_ms_with_drops: float | None
    mean_ms: float | None
    antt: float | None
    antt_with_drops: float | None
    stp_eyerman: float | None
    stp_inferences_s: float | None
    fairness: float | None
    energy_mj: float | None
    dram_bytes: float | None
    link_bytes: float | None
    macs: float | None
    core_s: float
    preemptions: int

    @property
    def violations(self) -> int:
        """Requests that were not done by their deadline."""
        return self.requests - self.completed + self.late


@dataclass(frozen=True, slots=True)
class CoreUse:
    """How much one core did: seconds busy, and their share of the run."""

    index: int
    name: str
    kind: str
    busy_s: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class ModeUse:
    """How often a mode was used: blocks run in it (parts of blocks count as parts), share of all blocks,
    and its share of all busy core time. Work that a kill threw away counts in the core time only."""

    blocks: float
    block_share: float
    core_time_share: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What one policy achieved in one run. `metadata` is the log's description of the run.

    `sla_bound` is the clairvoyant upper bound on the total's SLA satisfaction, which a log alone does not
    tell: None unless it was worked out and put in.
    """

    policy: str
    total: Scores
    tenants: Mapping[str, Scores]
    cores: tuple[CoreUse, ...]
    modes: Mapping[str, ModeUse]
    span_s: float
    core_utilisation: float
    dram_utilisation: float | None
    metadata: Mapping[str, Any]
    sla_bound: float | None = None

    @property
    def sla_gap(self) -> float | None:
        """What the total's SLA satisfaction lacks to the bound; None without one."""
        reached = self.total.sla_satisfaction
        return None if self.sla_bound is None or reached is None else self.sla_bound - reached


def summarise(log: LogTable) -> Summary:
    """Compute every figure of a log. Tenants appear in the order of the log's description, also those
    without a request."""
    described = {str(entry["name"]): entry for entry in log.metadata.get("tenants", ())}
    everything, work = requests_of(log), stretches_of(log)
    shared = by_request(log, work)
    measured = everything.only(everything.arrival_s >= warmup_end_s(log))
    priority = np.array([float(described.get(name, {}).get("priority", 0)) for name in measured.tenants])
    stops = log.where("stop")
    stops = stops[np.isin(log.strings("reason")[stops], [how.value for how in How])]
    stopped = log.codes("tenant")[0][stops]

    tenants = {}
    for name in [*described, *(name for name in everything.tenants if name not in described)]:
        code = everything.tenants.index(name) if name in everything.tenants else -2
        percentile = described.get(name, {}).get("percentile")
        tenants[name] = _scores(
            measured.only(measured.tenant == code),
            priority,
            shared,
            shared.tenant == code,
            int((stopped == code).sum()),
            None if percentile is None else float(percentile),
        )
    total = _scores(measured, priority, shared, np.ones(len(shared), dtype=bool), len(stops), None)
    asked = [
        scores.meets_percentile
        for name, scores in tenants.items()
        if described.get(name, {}).get("strict", True) and scores.meets_percentile is not None
    ]
    total = replace(total, meets_percentile=all(asked) if asked else None)

    span_s = log.end_s
    cores = _cores(log, work, span_s)
    bandwidth = float(log.metadata.get("device", {}).get("dram_bandwidth_bytes_s", math.inf))
    if not counts_work(log):
        total = _without_work(total)
        tenants = {name: _without_work(scores) for name, scores in tenants.items()}
    return Summary(
        policy=str(log.metadata.get("policy", "")),
        total=total,
        tenants=tenants,
        cores=cores,
        modes=_modes(work),
        span_s=span_s,
        core_utilisation=sum(core.utilisation for core in cores) / len(cores) if cores else 0.0,
        dram_utilisation=None if total.dram_bytes is None else _share(total.dram_bytes, bandwidth * span_s),
        metadata=log.metadata,
    )


def counts_work(log: LogTable) -> bool:
    """Whether energy, bytes and operations in a log mean something: not on lanes, whose description has no
    memory bandwidth."""
    device = log.metadata.get("device")
    return not device or "dram_bandwidth_bytes_s" in device


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion (E. B. Wilson, JASA 22, 1927). Needs trials > 0."""
    share, z2 = successes / trials, WILSON_Z**2
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = WILSON_Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))  # rounding at 0 and 1


def percentile(values: NDArray[np.float64], percent: float) -> float | None:
    """The least value that at least that share of the values does not exceed (nearest rank), None if there
    are none. Unlike interpolation this stays defined among infinite values, and a p99 is within a deadline
    exactly if 99 % of the values are."""
    if not len(values):
        return None
    return float(np.percentile(values, percent, method="inverted_cdf"))


def _without_work(scores: Scores) -> Scores:
    return replace(scores, energy_mj=None, dram_bytes=None, link_bytes=None, macs=None)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _scores(
    asked: Requests,
    priority: NDArray[np.float64],
    work: Stretches,
    own: NDArray[np.bool_],
    preemptions: int,
    percentile_asked: float | None,
) -> Scores:
    count = len(asked)
    endings = dict(zip(ENDINGS, np.bincount(asked.ending, minlength=len(ENDINGS)).tolist(), strict=True))
    done = asked.only(asked.completed)
    turnaround_ms = done.turnaround_s * 1e3
    with_drops_ms = np.where(asked.completed, asked.turnaround_s * 1e3, np.inf)
    slowdown = done.turnaround_s / done.isolated_s
    antt = float(slowdown.mean()) if len(done) else None
    low, high = wilson(endings[IN_TIME], count) if count else (None, None)
    satisfaction = endings[IN_TIME] / count if count else None
    feasible = asked.only(asked.deadline_s >= asked.arrival_s + asked.isolated_s)
    in_time = int((feasible.ending == ENDINGS.index(IN_TIME)).sum())
    meets = None
    if satisfaction is not None and percentile_asked is not None:
        meets = satisfaction >= percentile_asked / 100 - 1e-12
    busy_s = float(np.nanmax(done.end_s) - asked.arrival_s.min()) if len(done) else 0.0
    return Scores(
        requests=count,
        completed=len(done),
        late=endings["late"],
        dropped=endings["dropped"],
        rejected=endings["rejected"],
        failed=endings["failed"],
        cancelled=endings["cancelled"],
        unfinished=endings["unfinished"],
        infeasible_at_arrival=count - len(feasible),
        sla_satisfaction=satisfaction,
        sla_satisfaction_feasible=in_time / len(feasible) if len(feasible) else None,
        sla_low=low,
        sla_high=high,
        meets_percentile=meets,
        p50_ms=percentile(turnaround_ms, 50),
        p95_ms=percentile(turnaround_ms, 95),
        p99_ms=percentile(turnaround_ms, 99),
        p99_ms_with_drops=percentile(with_drops_ms, 99),
        mean_ms=float(turnaround_ms.mean()) if len(done) else None,
        antt=antt,
        antt_with_drops=antt if len(done) == count else math.inf,
        stp_eyerman=float(sum(_progress_by_model(asked).values())) if count else None,
        stp_inferences_s=len(done) / busy_s if busy_s > 0 else None,
        fairness=_fairness(asked, priority),
        energy_mj=float(work.energy_pj[own].sum()) * 1e-9,
        dram_bytes=float(work.dram_bytes[own].sum()),
        link_bytes=float(work.link_bytes[own].sum()),
        macs=float(work.macs[own].sum()),
        core_s=float(work.core_seconds[own].sum()),
        preemptions=preemptions,
    )


def _progress_by_model(asked: Requests) -> dict[int, float]:
    """Isolated latency over mean turnaround of each model that was asked for; 0 if none was completed."""
    progress = {}
    for model in np.unique(asked.model).tolist():
        own = asked.only((asked.model == model) & asked.completed)
        progress[model] = float(own.isolated_s.mean() / own.turnaround_s.mean()) if len(own) else 0.0
    return progress


def _fairness(asked: Requests, priority: NDArray[np.float64]) -> float | None:
    """The least ratio of two models' progress, each divided by its mean priority plus one (MoCA); None
    with fewer than two models."""
    weights = {
        model: float((priority[asked.tenant[asked.model == model]] + 1).mean())
        for model in np.unique(asked.model).tolist()
    }
    weighed = [progress / weights[model] for model, progress in _progress_by_model(asked).items()]
    if len(weighed) < 2:
        return None
    return min(weighed) / max(weighed) if max(weighed) > 0 else 0.0


def _cores(log: LogTable, work: Stretches, span_s: float) -> tuple[CoreUse, ...]:
    described = {int(c["index"]): c for c in log.metadata.get("device", {}).get("cores", ())}
    core, position = work.per_core()
    count = max([*described, int(core.max()) if len(core) else -1]) + 1 if described or len(core) else 0
    busy = np.bincount(core, weights=(work.end_s - work.start_s)[position], minlength=count)
    return tuple(
        CoreUse(
            index=index,
            name=str(described.get(index, {}).get("name", f"core {index}")),
            kind=str(described.get(index, {}).get("kind", "")),
            busy_s=float(busy[index]),
            utilisation=float(busy[index]) / span_s if span_s > 0 else 0.0,
        )
        for index in range(count)
    )


def _modes(work: Stretches) -> dict[str, ModeUse]:
    blocks = np.where(work.lost, 0.0, work.share * (work.end_block - work.first_block))
    total_blocks, total_s = float(blocks.sum()), float(work.core_seconds.sum())
    modes = {}
    for code, name in enumerate(work.modes):
        own = work.mode == code
        if own.any():
            modes[name] = ModeUse(
                blocks=float(blocks[own].sum()),
                block_share=float(blocks[own].sum()) / total_blocks if total_blocks else 0.0,
                core_time_share=float(work.core_seconds[own].sum()) / total_s if total_s else 0.0,
            )
    return modes
