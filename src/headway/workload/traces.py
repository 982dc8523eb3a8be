"""Arrival times of tenants that take rows of recorded traces."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headway.config.scenario import MOST_REQUESTS
from headway.config.traces import Trace, TraceFormat
from headway.core.errors import HeadwayError
from headway.workload.draws import stream
from headway.workload.trace_files import Floats, read_trace


def trace_times(process: Trace, seed: int, tenant: str) -> Floats:
    """The arrival times of a tenant's rows in seconds, in order.

    Arrivals of one stamp or minute are spread by draws of the tenant's own. Raises HeadwayError naming file,
    line and column for a trace that cannot be read, and if no row is left.
    """
    table = read_trace(process)
    mask = table.taken(process.rows) & (table.arrival_s >= process.start)
    total = int(table.requests[mask].sum())
    if not total:
        raise HeadwayError(
            f"{table.file}: none of its {len(table.arrival_s)} rows is taken by these conditions"
        )
    if total > MOST_REQUESTS:
        raise HeadwayError(f"{table.file}: {total} requests are taken; at most {MOST_REQUESTS} are accepted")
    times = np.repeat(table.arrival_s[mask], table.requests[mask]) - process.start
    if process.spread_s:
        times = np.sort(times + stream(seed, "trace", tenant).random(len(times)) * process.spread_s)
    scaled: Floats = times / process.speed
    return scaled


def trace_rate(process: Trace) -> float:
    """A tenant's requests per second over the whole trace, from `start` to its end, at its speed."""
    table = read_trace(process)
    span_s = table.span_s - process.start
    if span_s <= 0:
        raise HeadwayError(f"{table.file}: its rows are all at one time, and have no rate")
    mask = table.taken(process.rows) & (table.arrival_s >= process.start)
    return float(table.requests[mask].sum()) * process.speed / span_s


def rows_taken(processes: Iterable[Trace]) -> list[str]:
    """What is to be said of traces of which rows are taken by no tenant, or by several."""
    by_file: dict[tuple[str, TraceFormat], list[Trace]] = {}
    for process in processes:
        by_file.setdefault((process.file, process.format), []).append(process)
    said = []
    for (file, _), users in by_file.items():
        table = read_trace(users[0])
        takers = np.zeros(len(table.arrival_s), dtype=np.int64)
        for user in users:
            takers += table.taken(user.rows) & (table.arrival_s >= user.start)
        for whose, mask in (("no tenant's", takers == 0), ("several tenants'", takers > 1)):
            if requests := int(table.requests[mask].sum()):
                said.append(f"{file}: {requests} of {int(table.requests.sum())} requests are {whose}")
    return said
