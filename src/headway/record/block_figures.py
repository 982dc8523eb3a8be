"""Figures of one run of lane policies: violations with all causes, latency, goodput, jitter, fairness."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from headway.record.columns import ENDINGS, IN_TIME, LATE, Requests, requests_of
from headway.record.log import LogTable
from headway.record.metrics import percentile

BLOCK_FIGURES: Final = (
    "requests",
    "late",
    "dropped",
    "rejected",
    "unfinished",
    "violations",
    "p50_ms",
    "p99_ms",
    "p50_all_ms",
    "p99_all_ms",
    "goodput_s",
    "work_in_time",
    "jitter",
    "jain",
    "new_models",
    "first_requests",
    "first_violations",
)
"""Keys of `block_figures`, in order."""


def block_figures(
    log: LogTable, duration_s: float, newcomers: Collection[str] = (), first: int = 100
) -> dict[str, float | None]:
    """The figures of a log. None where there is nothing to compute one from.

    | key | |
    | --- | --- |
    | requests, late, dropped, rejected | counts |
    | unfinished | those that failed or were cancelled, too |
    | violations | share of requests that were not done by their deadline, whatever the cause |
    | p50_ms, p99_ms | turnaround of those that were done |
    | p50_all_ms, p99_all_ms | the same with those that were not done as infinitely late |
    | goodput_s | requests in time a second |
    | work_in_time | seconds alone of those in time, a second |
    | jitter | standard deviation of turnaround over time alone, of those that were done |
    | jain | Jain's index (1984) of tenants' shares in time: 1 if all are alike, 1/n if one has all |
    | new_models | tenants among `newcomers` that asked |
    | first_requests, first_violations | their first `first` requests, and the share that were violated |

    Args:
        log: of one run.
        duration_s: of its arrivals.
        newcomers: tenants whose first requests are looked at.
        first: how many of each.
    """
    asked = requests_of(log)
    if not len(asked):
        return dict.fromkeys(BLOCK_FIGURES)
    in_time = asked.ending == ENDINGS.index(IN_TIME)
    done = asked.only(asked.completed)
    done_ms = done.turnaround_s * 1e3
    all_ms = np.where(asked.completed, asked.turnaround_s * 1e3, np.inf)
    counts = dict(zip(ENDINGS, np.bincount(asked.ending, minlength=len(ENDINGS)).tolist(), strict=True))
    slowdown = done.turnaround_s / done.isolated_s
    shares = np.array([in_time[asked.tenant == at].mean() for at in np.unique(asked.tenant)])
    squares = float((shares**2).sum())
    early = _first_of(asked, newcomers, first)
    rest = len(asked) - sum(counts[name] for name in (IN_TIME, LATE, "dropped", "rejected"))
    return {
        "requests": len(asked),
        "late": counts[LATE],
        "dropped": counts["dropped"],
        "rejected": counts["rejected"],
        "unfinished": rest,
        "violations": 1.0 - float(in_time.mean()),
        "p50_ms": percentile(done_ms, 50),
        "p99_ms": percentile(done_ms, 99),
        "p50_all_ms": percentile(all_ms, 50),
        "p99_all_ms": percentile(all_ms, 99),
        "goodput_s": float(in_time.sum()) / duration_s,
        "work_in_time": float(asked.isolated_s[in_time].sum()) / duration_s,
        "jitter": float(slowdown.std()) if len(done) else None,
        "jain": float(shares.sum()) ** 2 / (len(shares) * squares) if squares else None,
        "new_models": len(set(asked.tenant[early].tolist())),
        "first_requests": int(early.sum()),
        "first_violations": 1.0 - float(in_time[early].mean()) if early.any() else None,
    }


def _first_of(asked: Requests, tenants: Collection[str], first: int) -> np.ndarray:
    """Which requests are among the first of one of the tenants; requests are in order of arrival."""
    found = np.zeros(len(asked), dtype=bool)
    for at, name in enumerate(asked.tenants):
        if name in tenants:
            found[np.flatnonzero(asked.tenant == at)[:first]] = True
    return found
