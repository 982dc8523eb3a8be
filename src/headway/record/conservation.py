"""What must hold in any log, whatever the policy: the tests of the engine and of the drivers ask it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from headway.core.run import REALLOCATED, Outcome
from headway.record.columns import Stretches, by_request, stretches_of
from headway.record.log import LogTable

TIME_TOLERANCE_S: Final = 1e-9
SHARE_TOLERANCE: Final = 1e-6
BYTES_TOLERANCE: Final = 1e-6  # relative
CAP: Final = "bandwidth_cap_bytes_s"
_WINDOW: Final = 64  # stretches that start after a window's left edge and are looked at for it


def check_conservation(log: LogTable) -> list[str]:
    """Every violation found in a log, as sentences; an empty list if there is none.

    - No core does two things at once, and no core is busy for longer than the run lasted.
    - Each stretch lies inside its run, on the cores, in the mode and within the blocks that the run
      started with, and follows the one before it without a gap.
    - A request has one arrival, at most one reply, not before its arrival, and one run at a time.
    - A request that was moved to other cores goes on there with the rest of its range, or is given up.
    - What was done for a completed request, alone or in batches, adds up to each of its blocks exactly once;
      what a kill threw away, parts that a later run could not resume, and what came before a batch failed,
      are not counted. (How many blocks a model has is
      taken from its completed request that went furthest.)
    - No more bytes cross the memory interface than its bandwidth allows, over the whole run and over any
      interval from the start of a stretch to the end of one of the next stretches.
    - No stretch moves more bytes than the caps allow that its run had meanwhile. (Logs that do not have
      caps are not asked.)
    """
    work = stretches_of(log)
    shared = by_request(log, work)
    return [
        *_cores_used_twice(log, work),
        *_stretches_outside_runs(log),
        *_runs_at_once(shared),
        *_moves(log),
        *_replies(log),
        *_blocks_done(log, shared),
        *_bytes_beyond_bandwidth(log, work),
        *_bytes_beyond_caps(log, work),
    ]


def _cores_used_twice(log: LogTable, work: Stretches) -> Iterator[str]:
    core, position = work.per_core()
    start_s, end_s = work.start_s[position], work.end_s[position]
    for at in np.flatnonzero(end_s < start_s).tolist():
        yield f"run {work.run[position[at]]}: a stretch from {start_s[at]} s ends before, at {end_s[at]} s"
    order = np.lexsort((end_s, start_s, core))
    same = core[order][1:] == core[order][:-1]
    overlap = same & (start_s[order][1:] < end_s[order][:-1] - TIME_TOLERANCE_S)
    for at in np.flatnonzero(overlap).tolist():
        first, second = order[at], order[at + 1]
        yield (
            f"core {core[first]}: run {work.run[position[second]]} starts at {start_s[second]} s while"
            f" run {work.run[position[first]]} is on it until {end_s[first]} s"
        )
    busy_s = np.bincount(core, weights=end_s - start_s) if len(core) else np.empty(0)
    for index in np.flatnonzero(busy_s > log.end_s + TIME_TOLERANCE_S * max(1, len(core))).tolist():
        yield f"core {index}: busy for {busy_s[index]} s of a run of {log.end_s} s"


def _stretches_outside_runs(log: LogTable) -> Iterator[str]:
    time_s, run = log.floats("time_s"), log.integers("run")
    first, end, request = (log.integers(name) for name in ("first_block", "end_block", "request"))
    mode, cores = log.strings("mode"), log.strings("cores")
    started: dict[int, tuple[object, ...]] = {}
    ended: dict[int, float] = {}
    members: dict[int, set[int]] = {}
    reached: dict[int, float] = {}
    next_block: dict[int, int] = {}
    events = log.strings("event")
    for row in np.flatnonzero(np.isin(events, ["start", "progress", "stop", "finish"])).tolist():
        key, event, at_s = int(run[row]), events[row], float(time_s[row])
        shape = (mode[row], cores[row])
        if event == "start":
            description = (at_s, shape, int(first[row]), int(end[row]))
            if started.setdefault(key, description) != description:
                yield f"run {key}: starts twice"
            members.setdefault(key, set()).add(int(request[row]))
            reached[key], next_block[key] = at_s, int(first[row])
        elif key not in started:
            yield f"run {key}: a {event} at {at_s} s without a start"
        elif event == "progress":
            start_s = float(log.floats("start_s")[row])
            _, its_shape, its_first, its_end = started[key]
            if key in ended:
                yield f"run {key}: progress at {at_s} s after its end at {ended[key]} s"
            if abs(start_s - reached[key]) > TIME_TOLERANCE_S:
                yield f"run {key}: a stretch starts at {start_s} s, expected at {reached[key]} s"
            if shape != its_shape or int(request[row]) not in members[key]:
                yield f"run {key}: progress at {at_s} s in another mode, on other cores or of another request"
            if not its_first <= first[row] < end[row] <= its_end or first[row] != next_block[key]:
                yield (
                    f"run {key}: progress at {at_s} s in blocks {first[row]} to {end[row]}, expected from"
                    f" {next_block[key]} within {its_first} to {its_end}"
                )
            reached[key], next_block[key] = at_s, int(end[row])
        elif ended.setdefault(key, at_s) != at_s:
            yield f"run {key}: ends twice, at {ended[key]} s and {at_s} s"


def _runs_at_once(work: Stretches) -> Iterator[str]:
    order = np.lexsort((work.start_s, work.request))
    for before, after in pairwise(order.tolist()):
        same = work.request[before] == work.request[after] and work.run[before] != work.run[after]
        if same and work.start_s[after] < work.end_s[before] - TIME_TOLERANCE_S:
            yield f"request {work.request[after]}: runs {work.run[before]} and {work.run[after]} at once"


def _moves(log: LogTable) -> Iterator[str]:
    time_s, event, reason, outcome = (
        log.floats("time_s"),
        *(log.strings(name) for name in ("event", "reason", "outcome")),
    )
    request, run, first, end = (log.integers(name) for name in ("request", "run", "first_block", "end_block"))
    cores = log.strings("cores")
    reached: dict[int, int] = {}  # by run, the block it came to
    rest: dict[int, tuple[int, int]] = {}  # by request that moves, the blocks that are left
    asked: dict[int, str] = {}  # by request, the cores of its last adjustment
    for row in np.flatnonzero(np.isin(event, ["start", "progress", "adjust", "stop", "reply"])).tolist():
        key, its_run = int(request[row]), int(run[row])
        blocks = (int(first[row]), int(end[row]))
        if event[row] == "progress":
            reached[its_run] = blocks[1]
        elif event[row] == "adjust":
            asked[key] = cores[row]
        elif event[row] == "stop":
            if reason[row] == REALLOCATED:
                rest[key] = (reached.get(its_run, blocks[0]), blocks[1])
        elif key in rest:
            left = rest.pop(key)
            if event[row] == "start" and blocks != left:
                yield (
                    f"request {key}: goes on at {time_s[row]} s with blocks {blocks[0]} to {blocks[1]}, after"
                    f" it was moved with {left[0]} to {left[1]} left"
                )
            if event[row] == "start" and cores[row] != asked.get(key, cores[row]):
                yield (
                    f"request {key}: goes on at {time_s[row]} s on cores {cores[row]}, after it was moved to"
                    f" {asked[key]}"
                )
            if outcome[row] == Outcome.DONE.value:
                yield f"request {key}: done at {time_s[row]} s with blocks {left[0]} to {left[1]} left"


def _replies(log: LogTable) -> Iterator[str]:
    request, time_s = log.integers("request"), log.floats("time_s")
    arrived_s: dict[int, float] = {}
    for row in log.where("arrive").tolist():
        if int(request[row]) in arrived_s:
            yield f"request {request[row]}: arrives twice"
        arrived_s[int(request[row])] = float(time_s[row])
    replied: set[int] = set()
    for row in log.where("reply").tolist():
        key = int(request[row])
        if key in replied:
            yield f"request {key}: more than one reply"
        elif key not in arrived_s:
            yield f"request {key}: a reply without an arrival"
        elif time_s[row] < arrived_s[key]:
            yield f"request {key}: a reply at {time_s[row]} s, before its arrival at {arrived_s[key]} s"
        replied.add(key)


def _blocks_done(log: LogTable, work: Stretches) -> Iterator[str]:
    replies = log.where("reply")
    completed = replies[log.strings("outcome")[replies] == Outcome.DONE.value]
    requests, models = log.integers("request")[completed], log.strings("model")[completed]
    done_s = dict(zip(requests.tolist(), log.floats("time_s")[completed].tolist(), strict=True))
    last: dict[int, int] = {}
    rows: dict[int, list[int]] = {key: [] for key in done_s}
    failed = _last_failed(log)
    for at, (key, run) in enumerate(zip(work.request.tolist(), work.run.tolist(), strict=True)):
        if key in rows and run > failed.get(key, -1):
            rows[key].append(at)
            last[key] = max(last.get(key, 0), int(work.end_block[at]))
    blocks: dict[str, int] = {}
    for key, model in zip(requests.tolist(), models, strict=True):
        blocks[model] = max(blocks.get(model, 0), last.get(key, 0))
    for key, model in zip(requests.tolist(), models, strict=True):
        for at in rows[key]:
            if work.end_s[at] > done_s[key] + TIME_TOLERANCE_S:
                yield f"request {key}: work until {work.end_s[at]} s, after it was done at {done_s[key]} s"
        problem = _replay(work, rows[key], blocks[model])
        if problem is not None:
            yield f"request {key}: {problem}"


def _last_failed(log: LogTable) -> dict[int, int]:
    """By request the last run that failed; one that goes on after that begins anew."""
    stops = log.where("stop")
    failed = stops[log.strings("reason")[stops] == "failed"]
    runs = log.integers("run")[failed].tolist()
    return dict(zip(log.integers("request")[failed].tolist(), runs, strict=True))


def _replay(work: Stretches, rows: list[int], blocks: int) -> str | None:
    """Go through a request's stretches; None if they do each block once.

    Whether a run resumed a part that an earlier one left, or began afresh, is not in the log; so this
    keeps every amount of the current range that can have been done, and asks that one of them is all.
    """
    at_block, pending, possible = 0, (0, 0, -1), {1.0}
    for at in rows:
        part = (int(work.first_block[at]), int(work.end_block[at]), int(work.mode[at]))
        incomplete = {done for done in possible if done < 1 - SHARE_TOLERANCE}
        if part[0] == pending[1] and incomplete != possible:
            at_block, pending, possible = pending[1], part, {0.0}
        elif part[0] != at_block or not incomplete:
            return f"goes on at block {part[0]}, not where it was: {at_block if incomplete else pending[1]}"
        elif part == pending:
            possible = incomplete
        else:
            pending, possible = part, {0.0}
        if work.lost[at]:
            possible = {0.0}
        else:
            share = float(work.share[at])
            sums = {done + share for done in possible} | {share}
            possible = {done for done in sums if done <= 1 + SHARE_TOLERANCE}
            if not possible:
                return f"a share of {share} of blocks {part[0]} to {part[1]}"
    best = max(possible)
    if pending[1] != blocks or best < 1 - SHARE_TOLERANCE:
        return f"done after {best:.6f} of blocks {pending[0]} to {pending[1]} of {blocks}"
    return None


def _bytes_beyond_bandwidth(log: LogTable, work: Stretches) -> Iterator[str]:
    bandwidth = float(log.metadata.get("device", {}).get("dram_bandwidth_bytes_s", math.inf))
    if not len(work) or not math.isfinite(bandwidth):
        return
    order = np.argsort(work.start_s, kind="stable")
    start_s, end_s, dram_bytes = work.start_s[order], work.end_s[order], work.dram_bytes[order]
    if dram_bytes.sum() > bandwidth * (log.end_s + TIME_TOLERANCE_S) * (1 + BYTES_TOLERANCE):
        yield f"{dram_bytes.sum()} DRAM bytes in {log.end_s} s at {bandwidth} bytes/s"
    for left in range(len(order)):
        window = slice(left, left + _WINDOW)
        by_end = np.argsort(end_s[window], kind="stable")
        within = np.cumsum(dram_bytes[window][by_end])
        allowed = bandwidth * (end_s[window][by_end] - start_s[left] + TIME_TOLERANCE_S)
        over = np.flatnonzero(within > allowed * (1 + BYTES_TOLERANCE))
        if len(over):
            until = float(end_s[window][by_end][over[0]])
            yield (
                f"{within[over[0]]} DRAM bytes from {start_s[left]} s to {until} s, {allowed[over[0]]} is the"
                f" most at {bandwidth} bytes/s"
            )


def _bytes_beyond_caps(log: LogTable, work: Stretches) -> Iterator[str]:
    if CAP not in log.table.column_names:
        return
    cap, time_s, run = log.floats(CAP), log.floats("time_s"), log.integers("run")
    rows = np.sort(np.concatenate((log.where("start"), log.where("adjust"))))
    capped = set(run[rows[~np.isnan(cap[rows])]].tolist())
    caps: dict[int, list[tuple[float, float]]] = {}  # by run: from when on, bytes per second
    for row in rows[np.isin(run[rows], list(capped))].tolist():
        bytes_s = math.inf if math.isnan(cap[row]) else float(cap[row])
        caps.setdefault(int(run[row]), []).append((float(time_s[row]), bytes_s))
    for at in np.flatnonzero(np.isin(work.run, list(capped))).tolist():
        start_s, end_s = float(work.start_s[at]), float(work.end_s[at])
        known = caps[int(work.run[at])]
        until = [from_s for from_s, _ in known[1:]] + [math.inf]
        allowed = 0.0
        for (from_s, bytes_s), until_s in zip(known, until, strict=True):
            seconds = min(end_s, until_s) - max(start_s, from_s) + TIME_TOLERANCE_S
            if seconds > TIME_TOLERANCE_S:
                allowed += seconds * bytes_s
        if work.dram_bytes[at] > allowed * (1 + BYTES_TOLERANCE):
            yield (
                f"run {work.run[at]}: {work.dram_bytes[at]} DRAM bytes from {start_s} s to {end_s} s,"
                f" {allowed} is the most within its bandwidth caps"
            )
