"""How figures are written for people, and which of them a comparison shows; terminal and report share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from headway.record.metrics import Scores, Summary

NOTHING: Final = "–"
BOUND: Final = "clairvoyant bound"
GAP: Final = "gap to the bound"
_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits without an exponent; a dash for nothing, ∞ for infinite."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def scaled(value: float | None, unit: str) -> str:
    """A quantity with the decimal prefix that keeps it between 1 and 1000."""
    if value is None:
        return NOTHING
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{number(value / factor)} {prefix}{unit}"
    return f"{number(value)} {unit}"


def joules(millijoules: float | None) -> str:
    """Energy in J, mJ or µJ."""
    if millijoules is None:
        return NOTHING
    for factor, unit in ((1e3, "J"), (1.0, "mJ")):
        if abs(millijoules) >= factor:
            return f"{number(millijoules / factor)} {unit}"
    return f"{number(millijoules * 1e3)} µJ"


def percent(share: float | None) -> str:
    """A share as percent with one decimal. Never rounds up to 100.0."""
    if share is None:
        return NOTHING
    return f"{math.floor(share * 1000 + 1e-9) / 10 if share > 0.9995 else share * 100:.1f} %"


def points(share: float | None) -> str:
    """A difference of shares in percentage points."""
    return NOTHING if share is None else f"{100 * share:.1f} pp"


def satisfaction(scores: Scores) -> str:
    """SLA satisfaction with half the width of its 95 % interval, both in percent."""
    if scores.sla_satisfaction is None or scores.sla_low is None or scores.sla_high is None:
        return NOTHING
    return f"{percent(scores.sla_satisfaction)[:-2]} ±{(scores.sla_high - scores.sla_low) * 50:.1f} %"


def modes(summary: Summary) -> str:
    """The modes that blocks ran in, the most used first."""
    used = sorted(summary.modes.items(), key=lambda entry: (-entry[1].block_share, entry[0]))
    return ", ".join(f"{name} {_whole_percent(mode.block_share)}" for name, mode in used) or NOTHING


def _whole_percent(share: float) -> str:
    return "<1%" if 0.0 < share < 0.005 else f"{share:.0%}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A line of a comparison. `better` says which value is best; `value` is None where there is none."""

    label: str
    better: Literal["high", "low", ""]
    value: Callable[[Summary], float | None]
    text: Callable[[Summary], str]

    def best(self, summaries: Mapping[str, Summary]) -> frozenset[str]:
        """The policies whose value is the best; none if nothing sets policies apart."""
        values = {name: self.value(summary) for name, summary in summaries.items()}
        known = {name: value for name, value in values.items() if value is not None}
        if not self.better or len(values) < 2 or len(set(values.values())) < 2:
            return frozenset()
        best = (max if self.better == "high" else min)(known.values())
        return frozenset(name for name, value in known.items() if value == best)


def comparison_lines(tenants: list[str]) -> list[Metric]:
    """The lines of a comparison: SLA satisfaction in total and by tenant, then everything else in total."""
    return [
        Metric(
            "SLA satisfaction", "high", lambda s: s.total.sla_satisfaction, lambda s: satisfaction(s.total)
        ),
        *(_of_tenant(tenant) for tenant in tenants),
        Metric(BOUND, "", lambda s: s.sla_bound, lambda s: percent(s.sla_bound)),
        Metric(GAP, "low", lambda s: s.sla_gap, lambda s: points(s.sla_gap)),
        _of_total("requests", "", "requests", _count),
        _of_total("completed", "high", "completed", _count),
        _of_total("late", "low", "late", _count),
        _of_total("dropped", "low", "dropped", _count),
        _of_total("rejected", "low", "rejected", _count),
        Metric("failed, cancelled", "low", lambda s: s.total.failed + s.total.cancelled, _failed),
        _of_total("unfinished", "low", "unfinished", _count),
        _of_total("p50 ms", "low", "p50_ms"),
        _of_total("p95 ms", "low", "p95_ms"),
        _of_total("p99 ms", "low", "p99_ms"),
        _of_total("p99 ms, drops as ∞", "low", "p99_ms_with_drops"),
        _of_total("ANTT", "low", "antt"),
        _of_total("STP (Eyerman)", "high", "stp_eyerman"),
        _of_total("STP inferences/s", "high", "stp_inferences_s"),
        _of_total("fairness", "high", "fairness"),
        _of_total("DRAM traffic", "low", "dram_bytes", lambda value, _: scaled(value, "B")),
        _of_total("energy", "low", "energy_mj", lambda value, _: joules(value)),
        Metric("core utilisation", "", lambda s: s.core_utilisation, lambda s: percent(s.core_utilisation)),
        Metric("DRAM utilisation", "", lambda s: s.dram_utilisation, lambda s: percent(s.dram_utilisation)),
        _of_total("preemptions", "", "preemptions", _count),
        *(_mode(name) for name in ("serial", "fused", "pipeline", "split")),
    ]


def _of_tenant(tenant: str) -> Metric:
    def value(summary: Summary) -> float | None:
        return summary.tenants[tenant].sla_satisfaction if tenant in summary.tenants else None

    def text(summary: Summary) -> str:
        return satisfaction(summary.tenants[tenant]) if tenant in summary.tenants else NOTHING

    return Metric(f"  {tenant}", "high", value, text)


def _of_total(
    label: str,
    better: Literal["high", "low", ""],
    field: str,
    text: Callable[[float | None, Scores], str] = lambda value, _: number(value),
) -> Metric:
    def value(summary: Summary) -> float | None:
        found: float | None = getattr(summary.total, field)
        return found

    return Metric(label, better, value, lambda s: text(value(s), s.total))


def _count(value: float | None, _: Scores) -> str:
    return NOTHING if value is None else f"{value:,}"


def _failed(summary: Summary) -> str:
    return f"{summary.total.failed:,}, {summary.total.cancelled:,}"


def _mode(name: str) -> Metric:
    def value(summary: Summary) -> float:
        return summary.modes[name].block_share if name in summary.modes else 0.0

    return Metric(f"blocks {name}", "", value, lambda s: percent(value(s)))
