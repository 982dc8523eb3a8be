"""What a run costs in Lucas's eyes: time, area and bandwidth, priced by what is scarce.

Notation of the reconstruction (docs/lucas.md): rho is the bandwidth asked for over what there is, psi
its price, q the scarcity of cores, u the urgency of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.expectation import resumption
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.lucas_menu import GAMMA, Menu, Priced, Prices, level_of

GAMMA_PIPELINE_SCARCE = 1.2
"""Area guard for pipelines once half as many requests wait as cores are idle."""

HURRY = 2.0
"""A request with more laxity than this many times its remaining work leaves several cores to others."""

Choice = tuple[Option, tuple[Core, ...]]


@dataclass(frozen=True, slots=True)
class Regards:
    """What the price regards: the area guard, the memory bandwidth, and the layers that await execution."""

    guard: bool = True
    bandwidth: bool = True
    waiting: bool = True


class Pressure:
    """What is scarce at this decision, kept up to date as runs are launched."""

    __slots__ = (
        "_demand",
        "_launched",
        "_next_free_s",
        "_ready",
        "_running",
        "_view",
        "bandwidth",
        "free",
        "holding",
        "idle",
        "level",
        "pipelines_allowed",
        "psi",
        "q",
        "regards",
    )

    def __init__(self, view: View, regards: Regards) -> None:
        device, idle = view.device, view.idle
        self.bandwidth = device.dram_bandwidth_bytes_s
        self.regards = regards
        self.free: list[list[Core]] = [[] for _ in device.kinds]
        self.holding: list[Core] = []
        for core in idle:
            self.free[device.kind_of[core.index]].append(core)
            if view.memory_free(core) < core.sram_bytes:
                self.holding.append(core)
        self._view = view
        self._demand = self.bandwidth - view.bandwidth_free() if isfinite(self.bandwidth) else 0.0
        self._running = len(view.running)
        self._ready = len(view.ready)
        self._launched: list[tuple[Option, float]] = []
        self._next_free_s: list[float] | None = None
        self._update(len(idle))

    def launch(self, option: Option, cores: Sequence[Core]) -> None:
        """A run is launched on idle cores."""
        seconds = option.seconds(self.bandwidth)
        for kind, core in zip(option.kinds, cores, strict=True):
            self.free[kind].remove(core)
            if core in self.holding:
                self.holding.remove(core)
        self._launched.append((option, seconds))
        self._next_free_s = None
        self._demand += option.dram_bytes / seconds if seconds > 0.0 else 0.0
        self._running += 1
        self._ready -= 1
        self._update(self.idle - len(cores))

    @property
    def next_free_s(self) -> list[float]:
        """By kind of core, seconds until the first of those that run is believed to come free."""
        if self._next_free_s is None:
            view, now = self._view, self._view.now
            self._next_free_s = [float("inf")] * len(view.device.kinds)
            for run in view.running:
                left_s = run.expected_end_s - now
                for core in run.cores:
                    kind = view.device.kind_of[core.index]
                    if left_s < self._next_free_s[kind]:
                        self._next_free_s[kind] = left_s
            for option, seconds in self._launched:
                for kind in option.kinds:
                    self._next_free_s[kind] = min(self._next_free_s[kind], seconds)
        return self._next_free_s

    def cores_for(self, option: Option) -> tuple[Core, ...]:
        """Idle cores of the kinds that an option needs, the first of each kind first; () if there are too
        few."""
        left = [iter(free) for free in self.free]
        cores = tuple([core for kind in option.kinds for core in islice(left[kind], 1)])
        return cores if len(cores) == len(option.kinds) else ()

    def _update(self, idle: int) -> None:
        self.idle, ready = idle, self._ready
        self.pipelines_allowed = ready <= idle if self.regards.waiting else idle > 1
        """Several cores for one request only when cores are not short of work."""
        self.q = 0.0
        if ready > 1 and self.regards.waiting:
            self.q = 1.0 if ready >= idle else (ready - 1) / (idle - 1)
        self.level, self.psi = 0, 0.0
        if self.regards.bandwidth:
            bandwidth, demand = self.bandwidth, self._demand
            left, equal = bandwidth - demand, bandwidth / (self._running + 1)
            self.level = level_of(left if left > equal else equal, bandwidth)
            if demand > 0.5 * bandwidth:
                self.psi = min(1.0, 2.0 * demand / bandwidth - 1.0)


def cheapest(
    request: Request,
    menu: Menu,
    pressure: Pressure,
    *,
    laxity_s: float,
    remaining_s: float,
    blocking_s: float,
    view: View,
) -> Choice | None:
    """The run of least priced cost per unit of plain work, with its cores; None if none is worth it.

    `laxity_s` and `remaining_s` are the request's. `blocking_s` is the least laxity of the other savable
    requests (inf if there is none): a run whose safe points lie further apart pays for the difference.
    Runs within the area guard come first; one beyond it is taken only if waiting for the right core would
    make the request late. Ties go to fewer cores, then fewer blocks, then the earlier kind.
    """
    block, prices = request.next_block, menu.prices(pressure.level)
    urgency = 1.0 if laxity_s <= 0.0 else min(1.0, 0.5 * remaining_s / laxity_s)
    special = _special(request, menu, prices, pressure, view)
    guard = pressure.regards.guard
    found = _on_one_core(special, prices, block, pressure, guard, urgency, blocking_s)
    if pressure.pipelines_allowed and pressure.idle > 1 and 0.0 <= laxity_s <= HURRY * remaining_s:
        hurried = laxity_s <= remaining_s
        found = _on_several(found, special, prices, block, pressure, hurried, urgency, blocking_s)
    if found is None and guard and laxity_s >= 0.0:
        costs = menu.serial_s[block]
        if laxity_s < pressure.next_free_s[costs.index(min(costs))]:
            found = _on_one_core(special, prices, block, pressure, False, urgency, blocking_s)
    return None if found is None else (found[1], found[2])


_Found = tuple[float, Option, tuple[Core, ...]]
_Special = Sequence[tuple[Priced, tuple[Core, ...]]]


def _on_one_core(
    special: _Special,
    prices: Prices,
    block: int,
    pressure: Pressure,
    guard: bool,
    urgency: float,
    blocking_s: float,
) -> _Found | None:
    """The cheapest run on one idle core."""
    weight, psi = 1.0 + urgency + pressure.q, pressure.psi
    best = float("inf")
    option: Option | None = None
    cores: tuple[Core, ...] = ()
    for kind, free in enumerate(pressure.free):
        if not free:
            continue
        offers = prices.offers(block, kind)
        for excess_s, traffic_s, step_s, _, _, candidate in offers.guarded if guard else offers.free:
            cost = weight * excess_s + psi * traffic_s
            if step_s > blocking_s:
                cost += step_s - blocking_s
            if cost < best:
                best, option, cores = cost, candidate, (free[0],)
    for run, run_cores in special:
        if len(run_cores) == 1 and (run.per_ref <= GAMMA or not guard):
            cost = weight * run.excess_s + psi * run.traffic_s + max(0.0, run.step_s - blocking_s)
            if cost <= best:
                best, option, cores = cost, run.option, run_cores
    return None if option is None else (best, option, cores)


def _on_several(
    found: _Found | None,
    special: _Special,
    prices: Prices,
    block: int,
    pressure: Pressure,
    hurried: bool,
    urgency: float,
    blocking_s: float,
) -> _Found | None:
    """The cheapest pipeline over idle cores, if cheaper than what was found on one core."""
    q, psi = pressure.q, pressure.psi
    weight = 1.0 + urgency + q
    best = float("inf") if found is None else found[0]
    for needed, width, saving, hurrying in prices.groups(block):
        if any(len(pressure.free[kind]) < count for kind, count in needed):
            continue
        most, more = _most(width, pressure), q * (width - 1)
        for excess_s, traffic_s, step_s, seconds, per_ref, candidate in hurrying if hurried else saving:
            if per_ref > most:
                continue
            cost = weight * excess_s + more * seconds + psi * traffic_s
            if step_s > blocking_s:
                cost += step_s - blocking_s
            if cost < best:
                best, found = cost, (cost, candidate, pressure.cores_for(candidate))
    for run, cores in special:
        width = len(cores)
        if width > 1 and run.per_ref <= _most(width, pressure):
            cost = weight * run.excess_s + q * (width - 1) * run.seconds + psi * run.traffic_s
            cost += max(0.0, run.step_s - blocking_s)
            if cost <= best:
                best, found = cost, (cost, run.option, cores)
    return found


def _most(width: int, pressure: Pressure) -> float:
    """How long a pipeline may take per second of Ref."""
    if not pressure.regards.guard:
        return float("inf")
    base = GAMMA if pressure.q < 0.5 else GAMMA_PIPELINE_SCARCE
    return max(base, base + (width - base) * max(0.0, 1.0 - 2.0 * pressure.q)) / width


def _special(
    request: Request, menu: Menu, prices: Prices, pressure: Pressure, view: View
) -> list[tuple[Priced, tuple[Core, ...]]]:
    """Runs on particular cores that cost less than elsewhere: where the input still lies in SRAM, and those
    that go on where a stopped run ended."""
    block = request.next_block
    found: list[tuple[Priced, tuple[Core, ...]]] = []
    for core in pressure.holding:
        extra = view.extra_dram_bytes(request, block, Mode.SERIAL, (core,))
        if extra < 0.0:
            kind = view.device.kind_of[core.index]
            found += [(run, (core,)) for run in prices.kept(block, kind, extra)]
    partial = request.partial
    if partial is not None:
        runs = menu.multis if partial.mode is Mode.PIPELINE else menu.singles
        for option in runs(block):
            cores = pressure.cores_for(option) if option.mode is partial.mode else ()
            resumed, read_back_bytes = resumption(request, option, cores)
            if resumed:
                found.append((prices.priced(option, resumed, read_back_bytes), cores))
    return found
