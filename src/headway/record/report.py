"""One self-contained HTML page about one or several policies. It works without a network."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.record.charts import MAX_PANELS, charts, tenant_colour
from headway.record.columns import warmup_end_s
from headway.record.figures import (
    BOUND,
    GAP,
    comparison_lines,
    joules,
    modes,
    number,
    percent,
    satisfaction,
    scaled,
)
from headway.record.log import LogTable
from headway.record.metrics import Summary, counts_work
from headway.record.page import Filters, render_page
from headway.record.results import finite, write_text
from headway.record.verdict import caution, headline, sentence


def write_report(
    path: Path, logs_by_policy: Mapping[str, LogTable], summaries: Mapping[str, Summary]
) -> None:
    """Write the page. Both mappings have the same policies in the same order; the scenario is the first's."""
    write_text(path, render(logs_by_policy, summaries))


def render(logs: Mapping[str, LogTable], summaries: Mapping[str, Summary]) -> str:
    """The page as text."""
    filters: Filters = {
        "number": number,
        "percent": percent,
        "satisfaction": satisfaction,
        "joules": joules,
        "bytes": lambda value: scaled(value, "B"),
    }

    metadata = next(iter(summaries.values())).metadata if summaries else {}
    tenants = list(dict.fromkeys(tenant for summary in summaries.values() for tenant in summary.tenants))
    lines = comparison_lines(tenants)
    return render_page(
        "report",
        charts(logs, summaries),
        filters,
        headline=_unbroken(headline(summaries)),
        caution=_unbroken(caution(summaries)),
        summaries=summaries,
        sentences={name: _unbroken(sentence(summary)) for name, summary in summaries.items()},
        modes={name: modes(summary) for name, summary in summaries.items()},
        comparison=[
            (line, line.best(summaries))
            for line in lines
            if line.label not in (BOUND, GAP) or any(s.sla_bound is not None for s in summaries.values())
        ],
        tenants=_tenants(metadata, tenants),
        device=_device(metadata) | {"counts_work": all(counts_work(log) for log in logs.values())},
        seed=metadata.get("seed"),
        span_s=max((summary.span_s for summary in summaries.values()), default=0.0),
        requests=f"{max((summary.total.requests for summary in summaries.values()), default=0):,}",
        warmup_s=max((warmup_end_s(log) for log in logs.values()), default=0.0),
        versions=metadata.get("versions", {}),
        scenario_name=_name(metadata),
        scenario=json.dumps(finite(metadata.get("scenario")), indent=2, ensure_ascii=False),
        panels_left_out=max(0, len(tenants) - MAX_PANELS),
    )


def _unbroken(text: str) -> str:
    """The text with percent signs kept on the line of their number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _name(metadata: Mapping[str, Any]) -> str:
    scenario = metadata.get("scenario")
    name = scenario.get("name") if isinstance(scenario, Mapping) else None
    return str(name) if name else "Headway report"


def _tenants(metadata: Mapping[str, Any], tenants: list[str]) -> list[dict[str, Any]]:
    described = {str(entry["name"]): entry for entry in metadata.get("tenants", ())}
    rows = []
    for place, name in enumerate(tenants):
        entry = described.get(name, {})
        deadline_s, isolated_s = entry.get("relative_deadline_s"), entry.get("isolated_s")
        rows.append(
            {
                "name": name,
                "colour": tenant_colour(place),
                "model": entry.get("model", ""),
                "deadline_ms": None if deadline_s is None else float(deadline_s) * 1e3,
                "percentile": entry.get("percentile"),
                "isolated_ms": None if isolated_s is None else float(isolated_s) * 1e3,
                "priority": entry.get("priority", 0),
                "strict": entry.get("strict", True),
            }
        )
    return rows


def _device(metadata: Mapping[str, Any]) -> dict[str, Any]:
    device = metadata.get("device", {})
    kinds = Counter(str(core.get("kind", "core")) for core in device.get("cores", ()))
    bandwidth = device.get("dram_bandwidth_bytes_s")
    return {
        "name": device.get("name", "device"),
        "cores": ", ".join(f"{count} × {kind}" for kind, count in kinds.items()),
        "bandwidth": None if bandwidth is None or math.isinf(bandwidth) else scaled(float(bandwidth), "B/s"),
    }
