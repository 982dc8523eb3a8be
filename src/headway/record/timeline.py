"""A run as a Chrome trace, for Perfetto (ui.perfetto.dev, offline builds too) and chrome://tracing.

One track per core with a slice per run, named after its tenant (Perfetto colours by name) and with a
slice per block or stack inside; one track per tenant with an instant for every late and every dropped
request; a counter of the memory bandwidth. Times are microseconds, rounded to nanoseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.record.columns import (
    ENDINGS,
    IN_TIME,
    UNFINISHED,
    Requests,
    Stretches,
    batches_of,
    requests_of,
    stretches_of,
)
from headway.record.log import LogTable
from headway.record.results import write_bytes

MAX_STRETCHES: Final = 50_000
_CORES, _TENANTS = 1, 2  # the trace's "processes"


def write_timeline(path: Path, log: LogTable, max_stretches: int = MAX_STRETCHES) -> bool:
    """Write the trace, compressed if the path ends in .gz; False if not all of the run is in it.

    A log with more stretches than `max_stretches` is cut off after as many; the trace's metadata
    (`otherData.cut_off`) then says from when on things are missing.
    """
    events, until_s = _events(log, max_stretches)
    other = {"policy": str(log.metadata.get("policy", "")), "seed": str(log.metadata.get("seed", ""))}
    if until_s is not None:
        other["cut_off"] = (
            f"only the first {max_stretches} stretches of work, until {until_s} s of {log.end_s} s"
        )
    trace = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}
    content = json.dumps(trace, separators=(",", ":"), allow_nan=False).encode()
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return until_s is None


def bandwidth_steps(work: Stretches) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times at which the memory traffic changes, and bytes/s from each on.

    The bytes of a stretch are spread evenly over it: a mean, which may for a moment be above what the
    memory gives if stretches with unequal halves overlap.
    """
    length_s = work.end_s - work.start_s
    lasting = length_s > 0
    rate = work.dram_bytes[lasting] / length_s[lasting]
    times = np.concatenate((work.start_s[lasting], work.end_s[lasting]))
    changes = np.concatenate((rate, -rate))
    at, inverse = np.unique(times, return_inverse=True)
    level = np.cumsum(np.bincount(inverse, weights=changes, minlength=len(at)))
    return at, np.where(level > 1e-9 * rate.max(initial=0.0), level, 0.0)


def runs_of(work: Stretches) -> list[NDArray[np.int64]]:
    """The positions of each run's stretches, in order; runs in the order of their first stretch."""
    order = np.lexsort((work.start_s, work.run))
    ends = np.flatnonzero(np.diff(work.run[order])) + 1
    runs = [part for part in np.split(order, ends) if len(part)]
    return sorted(runs, key=lambda part: (work.start_s[part[0]], work.run[part[0]]))


def _events(log: LogTable, max_stretches: int) -> tuple[list[dict[str, Any]], float | None]:
    work, requests = stretches_of(log), requests_of(log)
    until_s = None
    if len(work) > max_stretches:
        until_s = float(np.partition(work.end_s, max_stretches)[max_stretches])
        work = work.only(work.end_s <= until_s)
    return [
        *_names(log, work, requests),
        *_runs(log, work, requests),
        *_bandwidth(work),
        *_endings(requests, np.inf if until_s is None else until_s),
    ], until_s


def _names(log: LogTable, work: Stretches, requests: Requests) -> Iterator[dict[str, Any]]:
    described = {int(core["index"]): core for core in log.metadata.get("device", {}).get("cores", ())}
    used = {core for indices in work.core_sets for core in indices}
    yield {"ph": "M", "pid": _CORES, "name": "process_name", "args": {"name": "cores"}}
    for index in sorted({*described, *used}):
        core = described.get(index, {"name": f"core {index}", "kind": ""})
        name = f"{core['name']} ({core['kind']})" if core["kind"] else str(core["name"])
        yield _thread(_CORES, index, name)
    yield {"ph": "M", "pid": _TENANTS, "name": "process_name", "args": {"name": "tenants: late and dropped"}}
    for code, name in enumerate(requests.tenants):
        yield _thread(_TENANTS, code, name)


def _thread(process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}}


def _runs(log: LogTable, work: Stretches, requests: Requests) -> Iterator[dict[str, Any]]:
    known = {key: at for at, key in enumerate(requests.id.tolist())}
    batches = batches_of(log)
    for part in runs_of(work):
        first, last = int(part[0]), int(part[-1])
        request = int(work.request[first])
        arguments: dict[str, Any] = {
            "request": request,
            "run": int(work.run[first]),
            "mode": work.modes[work.mode[first]],
            "blocks": f"{work.first_block[first]} to {work.end_block[last] - 1}",
            "dram_bytes": float(work.dram_bytes[part].sum()),
        }
        if int(work.run[first]) in batches:
            arguments["batch"] = [member for member, _ in batches[int(work.run[first])]]
        if request in known:
            at = known[request]
            arguments["model"] = requests.models[requests.model[at]]
            arguments["arrival_ms"] = round(float(requests.arrival_s[at]) * 1e3, 6)
            if np.isfinite(requests.deadline_s[at]):
                arguments["deadline_ms"] = round(float(requests.deadline_s[at]) * 1e3, 6)
            arguments["ended"] = ENDINGS[requests.ending[at]]
        tenant = work.tenants[work.tenant[first]]
        for core in work.core_sets[work.cores[first]]:
            yield _slice(core, tenant, float(work.start_s[first]), float(work.end_s[last]), arguments)
            if len(part) > 1:
                for at in part.tolist():
                    yield _slice(
                        core, _part_name(work, at), float(work.start_s[at]), float(work.end_s[at]), {}
                    )


def _part_name(work: Stretches, at: int) -> str:
    first, end = int(work.first_block[at]), int(work.end_block[at])
    name = f"block {first}" if end == first + 1 else f"blocks {first} to {end - 1}"
    return f"{name}, lost" if work.lost[at] else name


def _slice(core: int, name: str, start_s: float, end_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
    begin, end = round(start_s * 1e9), round(end_s * 1e9)
    event = {
        "ph": "X",
        "pid": _CORES,
        "tid": core,
        "name": name,
        "ts": begin / 1e3,
        "dur": (end - begin) / 1e3,
    }
    return event | {"args": arguments} if arguments else event


def _bandwidth(work: Stretches) -> Iterator[dict[str, Any]]:
    times, levels = bandwidth_steps(work)
    for at_s, level in zip(times.tolist(), levels.tolist(), strict=True):
        gigabytes = round(level / 1e9, 6)
        yield {
            "ph": "C",
            "pid": _CORES,
            "name": "DRAM GB/s",
            "ts": round(at_s * 1e9) / 1e3,
            "args": {"GB/s": gigabytes},
        }


def _endings(requests: Requests, until_s: float) -> Iterator[dict[str, Any]]:
    quiet = (ENDINGS.index(IN_TIME), ENDINGS.index(UNFINISHED))
    shown = ~np.isin(requests.ending, quiet) & (requests.end_s <= until_s)
    for at in np.flatnonzero(shown).tolist():
        yield {
            "ph": "i",
            "s": "t",
            "pid": _TENANTS,
            "tid": int(requests.tenant[at]),
            "name": ENDINGS[requests.ending[at]],
            "ts": round(float(requests.end_s[at]) * 1e9) / 1e3,
            "args": {"request": int(requests.id[at])},
        }
