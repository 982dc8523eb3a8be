"""What the plots of the report show, as plain lists for its script. Long runs are thinned out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headway.record.columns import (
    ENDINGS,
    IN_TIME,
    Requests,
    Stretches,
    requests_of,
    stretches_of,
    warmup_end_s,
)
from headway.record.log import LogTable
from headway.record.metrics import Scores, Summary
from headway.record.timeline import bandwidth_steps, runs_of

MAX_PANELS: Final = 12
MAX_CURVE_POINTS: Final = 300
MAX_SLICES: Final = 1_500
VIEW_SLICES_PER_CORE: Final = 30
MAX_MISSES: Final = 500
BANDWIDTH_BINS: Final = 120
VIOLATIONS: Final = ENDINGS[1:]

# Okabe and Ito, "Color Universal Design" (2008): told apart with any common colour blindness.
TENANT_COLOURS: Final = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#B8A800",
    "#8C8C8C",
)


def charts(logs: Mapping[str, LogTable], summaries: Mapping[str, Summary]) -> dict[str, Any]:
    """Everything that the page's script draws. Times are milliseconds, shares are percent."""
    tenants = list(dict.fromkeys(tenant for summary in summaries.values() for tenant in summary.tenants))
    work = {name: stretches_of(log) for name, log in logs.items()}
    requests = {name: requests_of(log) for name, log in logs.items()}
    return {
        "policies": list(logs),
        "tenants": [{"name": name, "colour": tenant_colour(place)} for place, name in enumerate(tenants)],
        "sla": _sla(tenants, summaries),
        "violations": _violations(summaries),
        "latency": _latency(tenants[:MAX_PANELS], logs, requests),
        "gantt": _gantt(tenants, logs, work, requests, summaries),
        "bandwidth": _bandwidth(logs, work),
        "modes": {name: _modes(summary) for name, summary in summaries.items()},
        "cores": {name: _utilisation(summary) for name, summary in summaries.items()},
    }


def tenant_colour(place: int) -> str:
    """The colour of the tenant at that place; beyond the palette, hues a golden angle apart."""
    if place < len(TENANT_COLOURS):
        return TENANT_COLOURS[place]
    return f"hsl({(place * 137.508) % 360:.0f} 55% 50%)"


def _sla(tenants: list[str], summaries: Mapping[str, Summary]) -> dict[str, Any]:
    def bar(scores: Scores | None) -> list[float | None]:
        if (
            scores is None
            or scores.sla_satisfaction is None
            or scores.sla_low is None
            or scores.sla_high is None
        ):
            return [None, None, None]
        return [round(100 * share, 3) for share in (scores.sla_satisfaction, scores.sla_low, scores.sla_high)]

    described = {
        str(entry["name"]): entry
        for summary in summaries.values()
        for entry in summary.metadata.get("tenants", ())
    }
    return {
        "bars": {
            name: [bar(summary.tenants.get(tenant)) for tenant in tenants] + [bar(summary.total)]
            for name, summary in summaries.items()
        },
        "targets": [described.get(tenant, {}).get("percentile") for tenant in tenants] + [None],
    }


def _violations(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    return {
        "causes": list(VIOLATIONS),
        "counts": {name: [getattr(s.total, cause) for cause in VIOLATIONS] for name, s in summaries.items()},
        "requests": {name: summary.total.requests for name, summary in summaries.items()},
    }


def _latency(
    tenants: list[str], logs: Mapping[str, LogTable], requests: Mapping[str, Requests]
) -> list[dict[str, Any]]:
    """Per tenant a cumulative curve for each policy: how many percent of its requests were done by then.
    Requests that were never done keep a curve below 100, so at the deadline it shows SLA satisfaction."""
    panels = []
    for tenant in tenants:
        deadline_ms = None
        curves = {}
        for name, log in logs.items():
            entry: dict[str, Any] = next(
                (e for e in log.metadata.get("tenants", ()) if e["name"] == tenant), {}
            )
            if entry.get("relative_deadline_s") is not None:
                deadline_ms = float(entry["relative_deadline_s"]) * 1e3
            asked = requests[name]
            own = asked.arrival_s >= warmup_end_s(log)
            if tenant not in asked.tenants:
                continue
            asked = asked.only(own & (asked.tenant == asked.tenants.index(tenant)))
            done_ms = np.sort(asked.turnaround_s[asked.completed]) * 1e3
            ranks = np.unique(
                np.linspace(0, len(done_ms) - 1, min(len(done_ms), MAX_CURVE_POINTS)).astype(int)
            )
            if deadline_ms is not None and len(done_ms):
                at = int(np.searchsorted(done_ms, deadline_ms, side="right"))
                ranks = np.unique(np.append(ranks, [max(0, at - 1), min(at, len(done_ms) - 1)]))
            curves[name] = {
                "ms": np.round(done_ms[ranks], 5).tolist(),
                "percent": np.round(100 * (ranks + 1) / max(1, len(asked)), 4).tolist(),
            }
        panels.append({"tenant": tenant, "deadline_ms": deadline_ms, "curves": curves})
    return panels


def _gantt(
    tenants: list[str],
    logs: Mapping[str, LogTable],
    work: Mapping[str, Stretches],
    requests: Mapping[str, Requests],
    summaries: Mapping[str, Summary],
) -> dict[str, Any]:
    """Slices of a window that starts at the end of the warm-up and ends where the busiest policy has
    `MAX_SLICES` of them; the same window for each policy, so that they can be compared. `view_ms` is where
    the part to show first ends."""
    from_s = max((warmup_end_s(log) for log in logs.values()), default=0.0)
    end_s = max((log.end_s for log in logs.values()), default=0.0)
    slices = {name: [s for s in _slices(all_) if s.end_s > from_s] for name, all_ in work.items()}

    def reached_s(count: int) -> float:
        return min([end_s, *(found[count].start_s for found in slices.values() if len(found) > count)])

    until_s = reached_s(MAX_SLICES)
    cores = {name: [core.name for core in summary.cores] for name, summary in summaries.items()}
    return {
        "from_ms": from_s * 1e3,
        "until_ms": until_s * 1e3,
        "view_ms": reached_s(VIEW_SLICES_PER_CORE * max(map(len, cores.values()), default=1)) * 1e3,
        "end_ms": end_s * 1e3,
        "cores": cores,
        "slices": {
            name: _rows(tenants, [s for s in found if s.start_s < until_s], requests[name])
            for name, found in slices.items()
        },
        "misses": {name: _misses(tenants, requests[name], from_s, until_s) for name in logs},
    }


@dataclass(slots=True)
class _Slice:
    """What one core did for one request in one mode without a break."""

    core: int
    tenant: str
    request: int
    mode: str
    start_s: float
    end_s: float
    first_block: int
    end_block: int


def _slices(work: Stretches) -> list[_Slice]:
    """The slices of every core, by start; runs of a request that follow each other at once are one slice."""
    slices: list[_Slice] = []
    latest: dict[int, _Slice] = {}
    for part in runs_of(work):
        first, last = int(part[0]), int(part[-1])
        request, mode = int(work.request[first]), work.modes[work.mode[first]]
        start_s, end_s = float(work.start_s[first]), float(work.end_s[last])
        for core in work.core_sets[work.cores[first]]:
            before = latest.get(core)
            if before and (before.request, before.mode, before.end_s) == (request, mode, start_s):
                before.end_s, before.end_block = end_s, int(work.end_block[last])
                continue
            tenant, first_block = work.tenants[work.tenant[first]], int(work.first_block[first])
            found = _Slice(
                core, tenant, request, mode, start_s, end_s, first_block, int(work.end_block[last])
            )
            latest[core] = found
            slices.append(found)
    return slices


def _rows(tenants: list[str], slices: list[_Slice], requests: Requests) -> list[list[Any]]:
    """Per slice: tenant, core, start and length in ms, mode, request, blocks, how the request ended."""
    endings = dict(zip(requests.id.tolist(), requests.ending.tolist(), strict=True))
    return [
        [
            tenants.index(found.tenant),
            found.core,
            round(found.start_s * 1e3, 6),
            round((found.end_s - found.start_s) * 1e3, 6),
            found.mode,
            found.request,
            f"{found.first_block} to {found.end_block - 1}",
            ENDINGS[endings[found.request]] if found.request in endings else "",
        ]
        for found in slices
    ]


def _misses(tenants: list[str], requests: Requests, from_s: float, until_s: float) -> list[list[Any]]:
    """Requests that were late or never done in a window: tenant, time in ms, how it ended, request."""
    missed = (
        (requests.ending != ENDINGS.index(IN_TIME)) & (requests.end_s >= from_s) & (requests.end_s <= until_s)
    )
    return [
        [
            tenants.index(requests.tenants[requests.tenant[at]]),
            round(float(requests.end_s[at]) * 1e3, 6),
            ENDINGS[requests.ending[at]],
            int(requests.id[at]),
        ]
        for at in np.flatnonzero(missed)[:MAX_MISSES].tolist()
    ]


def _bandwidth(logs: Mapping[str, LogTable], work: Mapping[str, Stretches]) -> dict[str, Any]:
    """Mean memory traffic in GB/s in equal bins over the run, and what the memory gives."""
    capacities = [log.metadata.get("device", {}).get("dram_bandwidth_bytes_s") for log in logs.values()]
    end_s = max((log.end_s for log in logs.values()), default=0.0)
    edges = np.linspace(0.0, end_s, BANDWIDTH_BINS + 1)
    lines = {}
    for name, stretches in work.items():
        times, levels = bandwidth_steps(stretches)
        if len(times) < 2:
            continue
        moved = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(times))))
        mean = np.diff(np.interp(edges, times, moved)) / np.diff(edges) / 1e9
        lines[name] = np.round(mean, 5).tolist()
    return {
        "capacity": None if not capacities or capacities[0] is None else float(capacities[0]) / 1e9,
        "ms": np.round((edges[:-1] + edges[1:]) * 500, 4).tolist(),
        "lines": lines,
    }


def _modes(summary: Summary) -> dict[str, list[float]]:
    return {
        name: [round(100 * mode.block_share, 2), round(100 * mode.core_time_share, 2)]
        for name, mode in summary.modes.items()
    }


def _utilisation(summary: Summary) -> dict[str, Any]:
    return {
        "names": [core.name for core in summary.cores],
        "percent": [round(100 * core.utilisation, 2) for core in summary.cores],
    }
