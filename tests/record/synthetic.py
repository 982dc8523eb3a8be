"""A made-up but lawful event log: what a small scheduler on a few cores would write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from headway.core.protocols import LogRow
from headway.record.log import LogTable, MemoryLog

BANDWIDTH_BYTES_S = 16e9
BLOCKS = {"resnet50": 12, "mobilenetv2": 8, "bert-small": 10}


def description(policy: str = "edf", tenants: Iterable[str] = ("camera", "search", "chat")) -> dict[str, Any]:
    """A log's metadata, of the shape that the simulator writes."""
    models = list(BLOCKS)
    return {
        "policy": policy,
        "scenario": {"name": "three tenants", "duration_s": 2.0},
        "seed": 7,
        "versions": {"headway": "0.1.0"},
        "device": {
            "name": "stream-hetero4",
            "cores": [
                {"index": index, "name": f"tpu{index}" if index < 2 else f"meta{index}", "kind": kind}
                for index, kind in enumerate(("tpu", "tpu", "meta", "meta"))
            ],
            "dram_bandwidth_bytes_s": BANDWIDTH_BYTES_S,
        },
        "tenants": [
            {
                "name": name,
                "model": models[place % len(models)],
                "priority": place % 3,
                "weight": 1.0,
                "strict": True,
                "percentile": 95.0,
                "relative_deadline_s": 0.012 * (place + 1),
                "isolated_s": 0.004 * (place + 1),
            }
            for place, name in enumerate(tenants)
        ],
        "warmup_s": 0.2,
        "duration_s": 2.0,
    }


def rows_of(metadata: dict[str, Any], seed: int = 1, load: float = 0.8, drop: bool = True) -> list[LogRow]:
    """Rows in the order of time: requests run earliest deadline first on the first free core or cores."""
    draw = random.Random(seed)
    tenants, cores = metadata["tenants"], [core["index"] for core in metadata["device"]["cores"]]
    arrivals = []
    for tenant in tenants:
        time_s, rate = 0.0, load * len(cores) / (len(tenants) * tenant["isolated_s"])
        while (time_s := time_s + draw.expovariate(rate)) < metadata["duration_s"]:
            arrivals.append((time_s, tenant))
    arrivals.sort(key=lambda arrival: arrival[0])
    rows: list[LogRow] = []
    waiting: list[tuple[float, int, float, dict[str, Any], int, float]] = []
    free_s = dict.fromkeys(cores, 0.0)
    run = 0
    for number, (time_s, tenant) in enumerate(arrivals):
        deadline_s = time_s + tenant["relative_deadline_s"]
        asked = (number, tenant["name"], tenant["model"])
        isolated_s = tenant["isolated_s"]
        rows.append(LogRow(time_s, "arrive", *asked, deadline_s=deadline_s, isolated_s=isolated_s))
        waiting.append((deadline_s, number, time_s, tenant, 0, 0.0))
        next_s = arrivals[number + 1][0] if number + 1 < len(arrivals) else metadata["duration_s"]
        while waiting and min(free_s.values()) < next_s:
            waiting.sort(key=lambda entry: entry[:2])
            deadline_s, request, ready_s, owner, first, done = waiting.pop(0)
            name, model, blocks = owner["name"], owner["model"], BLOCKS[owner["model"]]
            core = min(free_s, key=lambda index: (free_s[index], index))
            start_s = max(free_s[core], ready_s)
            if drop and start_s + 0.5 * owner["isolated_s"] > deadline_s:
                rows.append(
                    LogRow(start_s, "reply", request, name, model, outcome="dropped", reason="too late")
                )
                continue
            mode = "fused" if done else draw.choice(["serial", "serial", "fused", "pipeline"])
            used = [core]
            if mode == "pipeline":
                used += [other for other in cores if other != core and free_s[other] <= start_s][:1]
            mode = "fused" if mode == "pipeline" and len(used) == 1 else mode
            share = 1.0 - done if mode == "fused" else 1.0
            stopped = mode == "fused" and not done and draw.random() < 0.2
            share = 0.4 if stopped else share
            where = "+".join(map(str, sorted(used)))
            rows.append(
                LogRow(
                    start_s,
                    "start",
                    request,
                    name,
                    model,
                    run,
                    first,
                    blocks,
                    mode,
                    where,
                    deadline_s=deadline_s,
                )
            )
            steps = [(first, blocks)] if mode != "serial" else [(at, at + 1) for at in range(first, blocks)]
            at_s = start_s
            for block, end in steps:
                length_s = (
                    owner["isolated_s"] * (end - block) / blocks * share * draw.uniform(0.8, 1.3) / len(used)
                )
                moved = draw.uniform(0.1, 1.0) * BANDWIDTH_BYTES_S / len(cores) * length_s
                rows.append(
                    LogRow(
                        at_s + length_s,
                        "progress",
                        request,
                        name,
                        model,
                        run,
                        block,
                        end,
                        mode,
                        where,
                        at_s,
                        share=share,
                        dram_bytes=moved,
                        link_bytes=moved / 10 if mode == "pipeline" else 0.0,
                        energy_pj=moved * 100,
                        macs=moved * 50,
                    )
                )
                at_s += length_s
            ended = (request, name, model, run, first, blocks, mode, where)
            if stopped:
                rows.append(LogRow(at_s, "stop", *ended, reason="spill"))
                waiting.append((deadline_s, request, at_s, owner, first, 0.4))
            else:
                rows.append(LogRow(at_s, "finish", *ended))
                rows.append(
                    LogRow(at_s, "reply", request, name, model, outcome="done", deadline_s=deadline_s)
                )
            free_s.update(dict.fromkeys(used, at_s))
            run += 1
    rows.append(LogRow(max(metadata["duration_s"], *(row.time_s for row in rows)), "end"))
    return sorted(rows, key=lambda row: row.time_s)


def log_of(rows: Iterable[LogRow], metadata: dict[str, Any] | None = None) -> LogTable:
    """Those rows as a log in memory."""
    log = MemoryLog(description() if metadata is None else metadata)
    for row in rows:
        log.add(row)
    return log.table()


def synthetic_log(policy: str = "edf", **options: Any) -> LogTable:
    """A lawful log of three tenants on four cores."""
    metadata = description(policy)
    return log_of(rows_of(metadata, **options), metadata)


def replaced(rows: list[LogRow], chosen: Callable[[LogRow], bool], **changes: Any) -> list[LogRow]:
    """The rows with the first one that is chosen changed."""
    place = next(index for index, row in enumerate(rows) if chosen(row))
    return [*rows[:place], rows[place]._replace(**changes), *rows[place + 1 :]]
