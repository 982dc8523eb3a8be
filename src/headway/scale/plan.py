"""How much load a scenario carries: the largest at which each SLA holds, and what more hardware changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headway import wiring
from headway.config import Scenario
from headway.config.arrivals import Closed
from headway.core.errors import HeadwayError
from headway.record.intervals import Interval, interval, paired
from headway.record.metrics import summarise
from headway.scale.pool import answers
from headway.scale.tasks import PolicyFile

FURTHEST: Final = 16.0
"""Loads are looked for from a sixteenth of the scenario's to sixteen times it."""

AS_IS: Final = "as it is"


@dataclass(frozen=True, slots=True)
class Search:
    """One question: on this hardware, with this seed, up to which multiple of the scenario's rates does each
    tenant's SLA hold? `change` says what is different from the scenario."""

    change: str
    scenario: Scenario
    policy: str
    per_factor: float
    resolution: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The answer: by tenant the largest multiple found at which its SLA holds.

    0 if it does not hold at the lowest load looked at, infinity if it holds at the highest. `simulations` is
    how many it took.
    """

    change: str
    seed: int
    by_tenant: Mapping[str, float]
    simulations: int


@dataclass(frozen=True, slots=True)
class Planned:
    """One tenant's limit, or that of all together: the mean over seeds and its 95 % interval, in multiples
    of the scenario's rates.

    `lowest` and `highest` are those of single seeds; 0 and infinity mean that no limit was found. The mean
    is None where a seed has none. `gain` is what the change adds, with the same seeds paired.
    """

    limit: Interval | None
    lowest: float
    highest: float
    gain: Interval | None


@dataclass(frozen=True, slots=True)
class Variant:
    """The scenario, or the scenario with a change. `first` names the tenant whose SLA breaks first: the one
    that limits most seeds; None if nothing breaks."""

    change: str
    tenants: Mapping[str, Planned]
    together: Planned
    first: str | None


def plan(
    scenario: Scenario,
    policy: str,
    seeds: Sequence[int],
    resolution: float = 0.02,
    workers: int = 1,
    policy_files: Sequence[PolicyFile] = (),
) -> list[Variant]:
    """Search all limits, of the scenario first, then of each change of its hardware.

    All tenants' rates are multiplied alike. Limits are found by bisection, down to a `resolution` (0.02 is
    2 %), separately with each seed. The changes are one more core of each kind, or one more lane, and 1 GB/s
    more of DRAM bandwidth.

    Raises HeadwayError for an unknown policy, and for closed loops, which have no rate.
    """
    wiring.require_policies([policy])
    if any(isinstance(tenant.arrivals, Closed) for tenant in scenario.tenants):
        raise HeadwayError(
            f"{scenario.where('tenants')}: found closed loops, which take what they get; accepted: arrivals"
            " with rates, which a plan can multiply"
        )
    searches = []
    shelf = wiring.Shelf()
    base = _unscaled_load(scenario, shelf)
    own = 1.0 if scenario.offered_load is None else scenario.offered_load / base
    for change, changed in {AS_IS: scenario, **changes_of(scenario)}.items():
        per_factor = own * _unscaled_load(changed, shelf)
        searches += [
            Search(change, changed.with_overrides({"seed": seed}), policy, per_factor, resolution)
            for seed in seeds
        ]
    workers = min(workers, len(searches))
    found: dict[str, dict[int, Limits]] = {search.change: {} for search in searches}
    for limits in answers(search_limits, searches, workers, policy_files):
        found[limits.change][limits.seed] = limits
    return [_variant(change, by_seed, found[AS_IS]) for change, by_seed in found.items()]


def changes_of(scenario: Scenario) -> dict[str, Scenario]:
    """The scenario on a little more hardware, by what is more."""
    hardware = scenario.to_mapping()["hardware"]
    if "lanes" in hardware:
        lanes = len(scenario.device().cores)
        return {"one more lane": scenario.with_overrides({"hardware.lanes.count": lanes + 1})}
    changed = {}
    for position, group in enumerate(hardware["cores"]):
        more = {f"hardware.cores.{position}.count": group.get("count", 1) + 1}
        changed[f"one more {group['name']} core"] = scenario.with_overrides(more)
    bandwidth = scenario.device().dram_bandwidth_bytes_s / 1e9 + 1.0
    changed["1 GB/s more"] = scenario.with_overrides({"hardware.dram.bandwidth": f"{bandwidth:g} GB/s"})
    return changed


def _unscaled_load(scenario: Scenario, shelf: wiring.Shelf) -> float:
    """The load of the rates as they are written in the scenario, on its hardware."""
    prepared = wiring.prepare(scenario.with_overrides({"load": None}), shelf=shelf)
    assert prepared.demand is not None
    return prepared.demand.load


def search_limits(search: Search) -> Limits:
    """Bisect: simulate at loads until every tenant's limit is known to the resolution."""
    tried: dict[float, Mapping[str, bool]] = {}

    def holds(factor: float) -> Mapping[str, bool]:
        if factor not in tried:
            tried[factor] = _holds(search, factor)
        return tried[factor]

    low = dict.fromkeys(holds(1.0), 0.0)
    high = dict.fromkeys(low, math.inf)

    def note(factor: float) -> None:
        for tenant, met in holds(factor).items():
            if met and factor < high[tenant]:
                low[tenant] = max(low[tenant], factor)
            elif not met:
                high[tenant] = min(high[tenant], factor)
                low[tenant] = low[tenant] if low[tenant] < factor else _below(tried, tenant, factor)

    note(1.0)
    factor = 2.0
    while factor <= FURTHEST and math.inf in high.values():
        note(factor)
        factor *= 2.0
    factor = 0.5
    while factor >= 1.0 / FURTHEST and 0.0 in low.values():
        note(factor)
        factor /= 2.0
    for tenant in low:
        while low[tenant] > 0.0 and high[tenant] < math.inf:
            if high[tenant] / low[tenant] <= 1.0 + search.resolution:
                break
            note(math.sqrt(low[tenant] * high[tenant]))
    limits = {
        tenant: math.inf if high[tenant] == math.inf and low[tenant] > 0.0 else low[tenant] for tenant in low
    }
    return Limits(search.change, search.scenario.seed, limits, len(tried))


def _below(tried: Mapping[float, Mapping[str, bool]], tenant: str, factor: float) -> float:
    """The largest load below that one at which the SLA was seen to hold, 0 if at none."""
    return max((at for at, met in tried.items() if at < factor and met[tenant]), default=0.0)


def _holds(search: Search, factor: float) -> Mapping[str, bool]:
    """Which tenants' SLAs hold at a multiple of the scenario's rates; one without requests is not broken."""
    scenario = search.scenario.with_overrides({"load": factor * search.per_factor})
    prepared = wiring.prepare(scenario, shelf=_SHELF)
    summary = summarise(wiring.simulate(prepared, search.policy))
    return {name: scores.meets_percentile is not False for name, scores in summary.tenants.items()}


_SHELF = wiring.Shelf()
"""Models priced by this process."""


def _variant(change: str, found: Mapping[int, Limits], before: Mapping[int, Limits]) -> Variant:
    names = list(next(iter(found.values())).by_tenant)
    own = {name: {seed: limits.by_tenant[name] for seed, limits in found.items()} for name in names}
    earlier = {name: {seed: limits.by_tenant[name] for seed, limits in before.items()} for name in names}
    together = {seed: min(limits.by_tenant.values()) for seed, limits in found.items()}
    together_before = {seed: min(limits.by_tenant.values()) for seed, limits in before.items()}
    breaking = [
        min(limits.by_tenant, key=lambda name, limits=limits: limits.by_tenant[name])  # type: ignore[misc]
        for limits in found.values()
        if min(limits.by_tenant.values()) < math.inf
    ]
    return Variant(
        change,
        {name: _planned(own[name], None if change == AS_IS else earlier[name]) for name in names},
        _planned(together, None if change == AS_IS else together_before),
        max(names, key=breaking.count) if breaking else None,
    )


def _planned(found: Mapping[int, float], before: Mapping[int, float] | None) -> Planned:
    values = list(found.values())
    bounded = all(0.0 < value < math.inf for value in values)
    gain = None
    if before is not None and bounded and all(0.0 < value < math.inf for value in before.values()):
        gain = paired(found, before)
    return Planned(interval(values) if bounded else None, min(values), max(values), gain)


def document_of(
    scenario: Scenario, policy: str, seeds: Sequence[int], resolution: float, variants: Sequence[Variant]
) -> dict[str, Any]:
    """What `headway plan --json` prints; docs/evaluate.md has every key."""

    def told(found: Interval | None) -> dict[str, float | None] | None:
        return None if found is None else {"mean": found.mean, "half_interval": found.half}

    def planned(one: Planned) -> dict[str, Any]:
        return {
            "limit": told(one.limit),
            "lowest": one.lowest,
            "highest": one.highest,
            "gain": told(one.gain),
        }

    return {
        "format": 1,
        "scenario": scenario.name,
        "policy": policy,
        "seeds": list(seeds),
        "resolution": resolution,
        "searched": [1.0 / FURTHEST, FURTHEST],
        "variants": [
            {
                "change": variant.change,
                "breaks_first": variant.first,
                "all": planned(variant.together),
                "tenants": {name: planned(one) for name, one in variant.tenants.items()},
            }
            for variant in variants
        ],
    }
