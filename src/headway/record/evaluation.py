"""Results of many runs: a row for each cell, policy and seed, as the evaluation's Parquet file has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from headway.record.columns import (
    ENDINGS,
    IN_TIME,
    Stretches,
    requests_of,
    stretches_of,
    warmup_end_s,
)
from headway.record.log import LogTable
from headway.record.metrics import Summary
from headway.record.results import write_bytes

Row = dict[str, Any]
"""One run. docs/evaluate.md has every key; figures are None where there are none, as in a run that failed."""

BINS: Final = 20
"""Into how many equal parts the time of a run is cut for `modes_over_time`."""
MODES: Final = ("serial", "fused", "pipeline", "split")
CLASSES: Final = (("low", -1, 2), ("mid", 3, 8), ("high", 9, 10**9))
"""Priorities of MoCA's classes: name, first and last."""

_KEYS: Final[dict[str, str]] = {
    "key": "string",
    "cell": "string",
    "policy": "string",
    "seed": "int64",
    "failed": "bool",
    "cause": "string",
}
_COUNTS: Final = (
    "requests",
    "completed",
    "late",
    "dropped",
    "rejected",
    "lost",
    "infeasible_at_arrival",
    "hopeless",
    "preemptions",
    "decisions",
)
_FIGURES: Final = (
    "sla_satisfaction",
    "sla_bound",
    "sla_worst_tenant",
    "sla_worst_class",
    *(f"sla_priority_{name}" for name, _, _ in CLASSES),
    "goodput_s",
    "p50_ms",
    "p99_ms",
    "antt",
    "stp_eyerman",
    "stp_inferences_s",
    "fairness",
    "energy_mj",
    "dram_bytes",
    "core_utilisation",
    "dram_utilisation",
    *(f"time_share_{mode}" for mode in MODES),
    *(f"block_share_{mode}" for mode in MODES),
    "decision_p50_us",
    "decision_p99_us",
    "demand_cores",
    "demand_bandwidth",
    "dram_bandwidth_gb_s",
    "sram_mib",
    "cores",
    "span_s",
    "wall_s",
)


def figures_of(log: LogTable, summary: Summary, priorities: Mapping[int, int]) -> Row:
    """The figures that a log gives, with the bound that was put into the summary.

    `priorities` are those of requests, by id; a request that is not there has its tenant's.
    """
    total = summary.total
    by_class = _by_class(log, priorities)
    asked = {
        name: s.sla_satisfaction for name, s in summary.tenants.items() if s.sla_satisfaction is not None
    }
    worst = min(asked, key=lambda name: (asked[name], name)) if asked else None
    span_s = summary.span_s - warmup_end_s(log)
    in_time = total.completed - total.late
    shares = {mode: summary.modes.get(mode) for mode in MODES}
    return {
        "requests": total.requests,
        "completed": total.completed,
        "late": total.late,
        "dropped": total.dropped,
        "rejected": total.rejected,
        "lost": total.failed + total.cancelled + total.unfinished,
        "infeasible_at_arrival": total.infeasible_at_arrival,
        "preemptions": total.preemptions,
        "sla_satisfaction": total.sla_satisfaction,
        "sla_bound": summary.sla_bound,
        "sla_worst_tenant": None if worst is None else asked[worst],
        "worst_tenant": worst,
        "sla_worst_class": min(by_class.values(), default=None),
        **{f"sla_priority_{name}": by_class.get(name) for name, _, _ in CLASSES},
        "goodput_s": in_time / span_s if span_s > 0 else None,
        "p50_ms": total.p50_ms,
        "p99_ms": total.p99_ms,
        "antt": total.antt,
        "stp_eyerman": total.stp_eyerman,
        "stp_inferences_s": total.stp_inferences_s,
        "fairness": total.fairness,
        "energy_mj": total.energy_mj,
        "dram_bytes": total.dram_bytes,
        "core_utilisation": summary.core_utilisation,
        "dram_utilisation": summary.dram_utilisation,
        **{f"time_share_{mode}": use.core_time_share if use else 0.0 for mode, use in shares.items()},
        **{f"block_share_{mode}": use.block_share if use else 0.0 for mode, use in shares.items()},
        "modes_over_time": modes_over_time(stretches_of(log), log.end_s),
        "span_s": summary.span_s,
    }


def modes_over_time(work: Stretches, end_s: float) -> dict[str, list[float]]:
    """Core seconds spent in each mode, in `BINS` equal parts of the run."""
    edges = np.linspace(0.0, end_s, BINS + 1)
    widths = np.array([len(cores) for cores in work.core_sets], dtype=np.float64)[work.cores]
    found = {}
    for mode in MODES:
        own = work.mode == (work.modes.index(mode) if mode in work.modes else -2)
        start, end, width = work.start_s[own], work.end_s[own], widths[own]
        found[mode] = [
            float((np.clip(np.minimum(end, high) - np.maximum(start, low), 0.0, None) * width).sum())
            for low, high in pairwise(edges.tolist())
        ]
    return found


def _by_class(log: LogTable, priorities: Mapping[int, int]) -> dict[str, float]:
    """SLA satisfaction of the classes that have requests."""
    everything = requests_of(log)
    counted = everything.only(everything.arrival_s >= warmup_end_s(log))
    described = {
        str(entry["name"]): float(entry.get("priority", 0)) for entry in log.metadata.get("tenants", ())
    }
    own = np.array(
        [
            priorities.get(id, described.get(counted.tenants[tenant], 0.0))
            for id, tenant in zip(counted.id.tolist(), counted.tenant.tolist(), strict=True)
        ]
    )
    in_time = counted.ending == ENDINGS.index(IN_TIME)
    shares = {}
    for name, first, last in CLASSES:
        members = (own >= first) & (own <= last) if len(own) else np.zeros(0, dtype=bool)
        if members.any():
            shares[name] = float(in_time[members].mean())
    return shares


def write_rows(path: Path, rows: Sequence[Row], coordinates: Iterable[str], about: Mapping[str, str]) -> None:
    """Write the Parquet file: keys, then the coordinates, then counts and figures.

    A coordinate that is a number in every row is a number there. `about` goes into the schema's metadata.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kinds: dict[str, Any] = {"string": pa.string(), "int64": pa.int64(), "bool": pa.bool_()}
    fields = [pa.field(name, kinds[kind]) for name, kind in _KEYS.items()]
    for name in coordinates:
        values = [row["coordinates"].get(name) for row in rows]
        numbers = all(value is None or isinstance(value, (int, float)) for value in values)
        fields.append(pa.field(f"at.{name}", pa.float64() if numbers else pa.string()))
    fields += [pa.field(name, pa.int64()) for name in _COUNTS]
    fields.append(pa.field("worst_tenant", pa.string()))
    fields += [pa.field(name, pa.float64()) for name in _FIGURES]
    fields += [pa.field(f"time_{mode}", pa.list_(pa.float64())) for mode in MODES]
    schema = pa.schema(fields, metadata={"headway": "evaluation", **about})

    def value(row: Row, field: Any) -> Any:
        name = field.name
        if name.startswith("at."):
            found = row["coordinates"].get(name[3:])
            return str(found) if found is not None and field.type == pa.string() else found
        if name.startswith("time_") and name[5:] in MODES:
            return (row.get("modes_over_time") or {}).get(name[5:])
        return row.get(name)

    arrays = [pa.array([value(row, field) for row in rows], field.type) for field in fields]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    write_bytes(path, sink.getvalue().to_pybytes())
