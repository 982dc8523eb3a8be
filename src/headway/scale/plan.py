"""How much load a scenario carries: the largest at which each SLA holds, and what more hardware changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headway import wiring
from headway.config import Scenario
from headway.config.arrivals import Closed
from headway.config.lanes import LaneHardware, machine_threads
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
    tenant's SLA hold?

    `change` says what is different from the scenario, `per_factor` is the load at the scenario's own rates,
    and `guesses` are multiples to begin with, by tenant.
    """

    change: str
    scenario: Scenario
    policy: str
    per_factor: float
    resolution: float
    guesses: Mapping[str, float]


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
    on_found: Callable[[Limits], None] = lambda limits: None,
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
    shelf = wiring.Shelf()
    base = _unscaled_load(scenario, shelf)
    own = 1.0 if scenario.offered_load is None else scenario.offered_load / base

    def search(change: str, changed: Scenario, guesses: Mapping[int, Mapping[str, float]]) -> list[Search]:
        per_factor = own * _unscaled_load(changed, shelf)
        return [
            Search(
                change,
                changed.with_overrides({"seed": seed}),
                policy,
                per_factor,
                resolution,
                guesses.get(seed, {}),
            )
            for seed in seeds
        ]

    def answered(searches: Sequence[Search]) -> dict[str, dict[int, Limits]]:
        found: dict[str, dict[int, Limits]] = {each.change: {} for each in searches}
        for limits in answers(search_limits, searches, min(workers, len(searches)), policy_files):
            found[limits.change][limits.seed] = limits
            on_found(limits)
        return found

    now = answered(search(AS_IS, scenario, {}))[AS_IS]
    guesses = {
        seed: {name: limit for name, limit in limits.by_tenant.items() if 0.0 < limit < math.inf}
        for seed, limits in now.items()
    }
    more = [each for name, changed in changes_of(scenario).items() for each in search(name, changed, guesses)]
    return [_variant(change, by_seed, now) for change, by_seed in ({AS_IS: now} | answered(more)).items()]


def changes_of(scenario: Scenario) -> dict[str, Scenario]:
    """The scenario on a little more hardware, by what is more.

    Lanes are processors of this machine, which are measured: one more only where they suffice for it.
    """
    hardware = scenario.to_mapping()["hardware"]
    if "lanes" in hardware:
        lanes = len(scenario.device().cores)
        assert isinstance(scenario.hardware, LaneHardware)
        here = machine_threads()
        _, threads_per_lane = scenario.hardware.lanes.numbers(here)
        if (lanes + 1) * threads_per_lane > here:
            return {}
        return {"one more lane": scenario.with_overrides({"hardware.lanes.count": lanes + 1})}
    if "streams" in hardware:
        return {"one more stream": scenario.with_overrides({"hardware.streams": hardware["streams"] + 1})}
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
    """Simulate at loads until every tenant's limit is known to the resolution.

    From where the limit is guessed in ever larger steps until it is passed, then by bisection. Every
    simulation tells of all tenants.
    """
    tried: dict[float, Mapping[str, bool]] = {}

    def look(factor: float) -> None:
        if factor not in tried:
            tried[factor] = _holds(search, factor)

    limits = {}
    for tenant in search.scenario.tenants:
        name = tenant.name
        guess, step = search.guesses.get(name, 1.0), 1.0 + 2.0 * search.resolution
        look(guess)
        while True:
            broken = min((at for at, met in tried.items() if not met[name]), default=math.inf)
            kept = max((at for at, met in tried.items() if met[name] and at < broken), default=0.0)
            if kept >= FURTHEST or broken <= 1.0 / FURTHEST:
                limits[name] = math.inf if kept >= FURTHEST else 0.0
                break
            if kept > 0.0 and broken <= kept * (1.0 + search.resolution):
                limits[name] = kept
                break
            if kept > 0.0 and broken < math.inf:
                look(math.sqrt(kept * broken))
                continue
            look(min(FURTHEST, kept * step) if kept > 0.0 else max(1.0 / FURTHEST, broken / step))
            step *= step
    return Limits(search.change, search.scenario.seed, limits, len(tried))


def _holds(search: Search, factor: float) -> Mapping[str, bool]:
    """Which tenants' SLAs hold at a multiple of the scenario's rates; one without requests is not broken."""
    scenario = search.scenario.with_overrides({"load": factor * search.per_factor})
    prepared = wiring.prepare(scenario, shelf=_SHELF)
    summary = summarise(wiring.simulate(prepared, search.policy))
    if not summary.total.requests:
        raise HeadwayError(
            f"plan: at {factor:.3g} times the rates of the scenario no request counts: none arrived after the"
            ' warm-up; accepted: a warmup that is a share ("10 %"), or more requests'
        )
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
        min(limits.by_tenant, key=limits.by_tenant.__getitem__)
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
