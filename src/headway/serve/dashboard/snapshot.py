"""All that the page shows at one moment, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headway.config.serving_parts import ServedTenant
from headway.serve.dashboard.timeline import Span, Timeline
from headway.serve.engine_service import EngineService
from headway.serve.figures import PROMISED, Ending, Figures, attainment_of
from headway.serve.recent import WINDOW_S, Spread, Sums
from headway.serve.refusal import Refusal
from headway.serve.service import IndexEntry, ModelState
from headway.serve.tenants import Door

MOST_TENANTS: Final = 100
MOST_MODELS: Final = 200
"""How many of each are shown; those that nothing happened to are left out first."""

Known = Mapping[str, tuple[Sums, Sums]]


@dataclass(frozen=True)
class Shown:
    """What is shown.

    `tier` tells by the engine's name for a model how much is known of it, 0 to 3, None if nothing can be
    told. `faults` counts decisions in which earliest deadline stood in for the policy. `now` is the
    engine's clock.
    """

    name: str
    policy: str
    lanes: tuple[str, ...]
    service: EngineService
    figures: Figures
    timeline: Timeline
    now: Callable[[], float]
    tier: Callable[[str], int | None]
    faults: Callable[[], int]


@dataclass
class _Names:
    """Names by number, as a list that is sent once in place of names in each span."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.names)
            self.names.append(name)
        return number


def state_of(shown: Shown) -> dict[str, Any]:
    """Server, lanes, tenants and models as they are now; all but the timeline's spans."""
    service, now = shown.service, shown.now()
    span_s = min(WINDOW_S, max(now, 1.0))
    tenants = shown.figures.tenants()
    doors, index = service.tenants.doors, _index(service)
    total = Sums()
    for name in (door.settings.name for door in doors):
        if name in tenants:
            total.merge(tenants[name][0])
    by_model = shown.figures.models()
    tenant_rows = [_tenant(door, tenants, span_s) for door in doors]
    model_rows = [_model(shown, entry, by_model, span_s) for entry in index]
    going = [
        [each.lanes, _seconds(each.since_s), each.tenant, each.model, _optional(each.expected_end_s)]
        for each in shown.timeline.going()
    ]
    return {
        "now": _seconds(now),
        "name": shown.name,
        "policy": shown.policy,
        "live": service.live(),
        "ready": service.ready(),
        "key_needed": _key_needed(service),
        "faults": shown.faults(),
        "window_s": span_s,
        "all": {**_sums(total, span_s), "queue": sum(door.requests for door in doors)},
        "lanes": [
            {"name": name, "busy": round(busy, 4)}
            for name, busy in zip(shown.lanes, shown.figures.utilisation(), strict=True)
        ],
        "tenants": _busiest(tenant_rows, MOST_TENANTS),
        "tenants_left_out": max(0, len(tenant_rows) - MOST_TENANTS),
        "models": _busiest(model_rows, MOST_MODELS),
        "models_left_out": max(0, len(model_rows) - MOST_MODELS),
        "going": going,
    }


def spans_of(spans: Iterable[Span]) -> dict[str, Any]:
    """Spans in few characters: `names`, and for each span its lanes, start, end, tenant, model, blocks."""
    names = _Names()
    rows = [
        [
            list(span.lanes),
            _seconds(span.start_s),
            _seconds(span.end_s),
            names.of(span.tenant),
            names.of(span.model),
            span.first,
            span.end,
        ]
        for span in spans
    ]
    return {"names": names.names, "spans": rows}


def _index(service: EngineService) -> list[IndexEntry]:
    """The repository's index, and models of the configuration that somebody has unloaded."""
    index = list(service.models.index(only_ready=False))
    known = {entry.name for entry in index}
    index += [
        IndexEntry(own.name, own.version, ModelState.UNAVAILABLE, "not loaded")
        for own in service.models.own
        if own.name not in known
    ]
    return sorted(index, key=lambda entry: (entry.name, int(entry.version or 0)))


def _tenant(door: Door, known: Known, span_s: float) -> dict[str, Any]:
    settings = door.settings
    lately, whole = known.get(settings.name, (Sums(), Sums()))
    return {
        "name": settings.name,
        "strict": settings.strict,
        "sla": promise_of(settings),
        "target": None if settings.sla is None else settings.sla.percentile / 100,
        "queue": door.requests,
        "queue_most": settings.queue.requests,
        "queue_bytes": door.bytes,
        **_sums(lately, span_s),
        "since_start": _counts(whole),
        "attainment_since_start": _optional(attainment_of(whole)),
    }


def promise_of(tenant: ServedTenant) -> str:
    """A tenant's SLA in a few words, empty without one."""
    slas = [sla for sla in (tenant.sla, *tenant.slas.values()) if sla is not None]
    if not slas:
        return ""
    first = slas[0]
    if first.deadline is not None:
        within = f"{first.deadline:g} s" if first.deadline >= 1.0 else f"{first.deadline * 1e3:g} ms"
    else:
        within = f"{first.isolated:g} times alone"
    more = len(set(slas)) - 1
    return f"{first.percentile:g} % within {within}" + (f", {more} more by model" if more else "")


def _model(shown: Shown, entry: IndexEntry, known: Known, span_s: float) -> dict[str, Any]:
    lately, _ = known.get(f"{entry.name}/{entry.version}", (Sums(), Sums()))
    row: dict[str, Any] = {
        "name": entry.name,
        "version": entry.version,
        "state": entry.state.value,
        "reason": entry.reason,
        "tier": None,
        "under_way": 0,
        "alone_ms": None,
        "blocks": None,
        **_sums(lately, span_s),
        "ratio": _ratio(lately.ratio),
        "busy": round(lately.busy_s / (span_s * max(1, len(shown.lanes))), 4),
    }
    if entry.state is ModelState.READY:
        try:
            loaded = shown.service.models.find(entry.name, entry.version)
        except Refusal:  # it went meanwhile
            return row
        row["tier"] = shown.tier(loaded.key)
        row["under_way"], row["blocks"] = loaded.users, loaded.blocks
        row["alone_ms"] = _milliseconds(loaded.isolated_s)
    return row


def _sums(sums: Sums, span_s: float) -> dict[str, Any]:
    return {
        "attainment": _optional(attainment_of(sums)),
        "due": sum(sums.promised[ending] for ending in PROMISED),
        "counts": _counts(sums),
        "per_s": round(sums.endings.total() / span_s, 3),
        "p50_ms": _milliseconds(sums.total_s.quantile(0.5)),
        "p99_ms": _milliseconds(sums.total_s.quantile(0.99)),
        "ratio": _ratio(sums.ratio),
    }


def _ratio(ratio: Spread) -> dict[str, Any] | None:
    """How many runs there were, and tenth, half and nine tenths of their time through what was predicted."""
    runs = ratio.counts.total()
    if not runs:
        return None
    low, middle, high = (ratio.quantile(share) for share in (0.1, 0.5, 0.9))
    return {"runs": runs, "low": _optional(low), "middle": _optional(middle), "high": _optional(high)}


def _counts(sums: Sums) -> dict[str, int]:
    return {ending.value: sums.endings[ending] for ending in Ending}


def _busiest(rows: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """As they come if they are few, else those to which most happened lately, in their order."""
    if len(rows) <= most:
        return list(rows)
    kept = sorted(range(len(rows)), key=lambda at: (-rows[at]["per_s"], at))[:most]
    return [rows[at] for at in sorted(kept)]


def _key_needed(service: EngineService) -> bool:
    try:
        service.tenants.require_control(None)
    except Refusal:
        return True
    return False


def _seconds(value: float) -> float:
    return round(value, 5)


def _optional(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _milliseconds(value: float | None) -> float | None:
    return None if value is None else round(value * 1e3, 3)
