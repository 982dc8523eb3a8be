"""What a run costs in Lucas's eyes: time, area and bandwidth, priced by what is scarce.

Notation of the reconstruction (docs/lucas.md): rho is the bandwidth asked for over what there is, psi
its price, q the scarcity of cores, u the urgency of the request, A the core-time area of a candidate and
Ref what its blocks would cost now run plainly, each on its best core.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.expectation import resumption
from headway.core.protocols import CostTable, View
from headway.core.request import Request

GAMMA = 1.5
"""Area guard: a run on one core may take this many times the plain core-time."""

GAMMA_PIPELINE_SCARCE = 1.2
"""The same for pipelines once half as many requests wait as cores are idle."""

WORTHWHILE = 0.95
"""Fusion must move less than this share of the plain run's bytes."""

HURRY = 2.0
"""A request with more laxity than this many times its remaining work leaves several cores to others."""


class Pressure:
    """What is scarce at this decision, kept up to date as runs are launched."""

    __slots__ = (
        "_demand",
        "_ready",
        "_running",
        "bandwidth",
        "fair_share",
        "idle",
        "next_free_s",
        "psi",
        "q",
    )

    def __init__(self, view: View) -> None:
        self.bandwidth = view.device.dram_bandwidth_bytes_s
        self._demand = self.bandwidth - view.bandwidth_free()
        self._running = len(view.running)
        self._ready = len(view.ready)
        self.next_free_s = [float("inf")] * len(view.device.kinds)
        for run in view.running:
            for core in run.cores:
                kind = view.device.kind_of[core.index]
                self.next_free_s[kind] = min(self.next_free_s[kind], run.expected_end_s - view.now)
        self._update(len(view.idle))

    def launch(self, option: Option, idle: int) -> None:
        """A run was launched; `idle` cores are left."""
        seconds = option.seconds(self.bandwidth)
        for kind in option.kinds:
            self.next_free_s[kind] = min(self.next_free_s[kind], seconds)
        self._demand += option.dram_bytes / seconds if seconds > 0.0 else 0.0
        self._running += 1
        self._ready -= 1
        self._update(idle)

    @property
    def pipelines_allowed(self) -> bool:
        """Several cores for one request only when cores are not short of work."""
        return self._ready <= self.idle

    def _update(self, idle: int) -> None:
        self.idle = idle
        self.fair_share = max(self.bandwidth - self._demand, self.bandwidth / (self._running + 1))
        rho = self._demand / self.bandwidth
        self.psi = min(1.0, max(0.0, (rho - 0.5) / 0.5))
        self.q = min(1.0, max(0, self._ready - 1) / max(1, idle - 1))


def cheapest(
    request: Request,
    candidates: Iterable[Option],
    *,
    laxity_s: float,
    remaining_s: float,
    blocking_s: float | None,
    idle: list[Core],
    pressure: Pressure,
    view: View,
) -> tuple[Option, tuple[Core, ...]] | None:
    """The candidate of least priced cost per unit of plain work, with its cores; None if none is worth it.

    `laxity_s` and `remaining_s` are the request's. `blocking_s` is the least laxity of the other savable
    requests (None if there is none): a candidate whose safe points lie further apart pays for the
    difference. Ties go to fewer cores, then fewer blocks, then the earlier candidate.
    """
    table, kind_of = view.table(request), view.device.kind_of
    by_kind: dict[int, list[Core]] = {}
    for core in idle:
        by_kind.setdefault(kind_of[core.index], []).append(core)
    share, q = pressure.fair_share, pressure.q
    plain = _PlainRun(table, request.next_block, share)
    costs = table.serial_s[request.next_block]
    patience_s = pressure.next_free_s[costs.index(min(costs))]
    urgency = 1.0 if laxity_s <= 0.0 else min(1.0, 0.5 * remaining_s / laxity_s)
    best: tuple[float, int, int] | None = None
    found: tuple[Option, tuple[Core, ...]] | None = None
    for option in candidates:
        cores = fits_idle(option, by_kind, request, view)
        if cores is None:
            continue
        width = len(cores)
        if width > 1 and laxity_s > HURRY * remaining_s:
            continue
        resumed, extra_bytes = resumption(request, option, cores)
        left = 1.0 - resumed
        if option.mode is Mode.SERIAL:
            extra_bytes += view.extra_dram_bytes(request, option.first, option.mode, cores)
        seconds = option.fixed_s + max(
            option.compute_s * left, (option.dram_bytes * left + extra_bytes) / share
        )
        area = width * seconds
        plain_s = plain.until(option.end)
        base = GAMMA if width == 1 or q < 0.5 else GAMMA_PIPELINE_SCARCE
        if area > max(base, base + (width - base) * max(0.0, 1.0 - 2.0 * q)) * plain_s and (
            width > 1 or not 0.0 <= laxity_s < patience_s
        ):
            continue
        saves = option.dram_bytes < WORTHWHILE * option.serial_dram_bytes
        if option.mode is not Mode.SERIAL and not saves:
            hurried = option.mode is Mode.PIPELINE and 0.0 <= laxity_s <= remaining_s
            if not hurried:
                continue
        blocking = (
            0.0 if blocking_s is None else max(0.0, seconds / option.steps + option.drain_s - blocking_s)
        )
        cost = (
            (1.0 + urgency) * seconds
            + q * area
            + pressure.psi * (option.dram_bytes / pressure.bandwidth) * (width / 2.0)
            + blocking
        ) / plain_s
        rank = (cost, width, option.end)
        if best is None or rank < best:
            best, found = rank, (option, cores)
    return found


def fits_idle(
    option: Option, by_kind: dict[int, list[Core]], request: Request, view: View
) -> tuple[Core, ...] | None:
    """Idle cores of the kinds an option needs, or None; for a serial run, the core that holds its input."""
    if len(option.kinds) == 1:
        cores = by_kind.get(option.kinds[0])
        if not cores:
            return None
        if option.mode is Mode.SERIAL and len(cores) > 1:
            for core in cores:
                if view.extra_dram_bytes(request, option.first, option.mode, (core,)) < 0.0:
                    return (core,)
        return (cores[0],)
    taken: list[Core] = []
    used: dict[int, int] = {}
    for kind in option.kinds:
        at = used.get(kind, 0)
        cores = by_kind.get(kind)
        if cores is None or at >= len(cores):
            return None
        used[kind] = at + 1
        taken.append(cores[at])
    return tuple(taken)


class _PlainRun:
    """Seconds that blocks would take now run plainly: each layer on its best core, outputs kept."""

    __slots__ = ("_first", "_share", "_sums", "_table")

    def __init__(self, table: CostTable, first: int, share: float) -> None:
        self._table, self._first, self._share = table, first, share
        self._sums = [0.0]

    def until(self, end: int) -> float:
        """Seconds from the first block to before `end`."""
        sums, table, share = self._sums, self._table, self._share
        while len(sums) <= end - self._first:
            block = self._first + len(sums) - 1
            kept = table.kept_bytes[block] if len(sums) > 1 else None
            least = min(
                option.fixed_s
                + max(option.compute_s, (option.dram_bytes - (kept[kind] if kept else 0.0)) / share)
                for kind, option in enumerate(table.serial[block])
            )
            sums.append(sums[-1] + least)
        return sums[end - self._first]
