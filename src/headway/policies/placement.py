"""Which core the next layer goes to: what the published layer-by-layer policies have in common here.

Published schedulers decide after every layer, at no cost, and do not regard that the output of a layer can
stay in SRAM only if its next layer follows on the same core. Here both count; so a run takes layers until
they last `QUANTUM_S` together, which did better on average (docs/policies.md).
"""

from __future__ import annotations

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.expectation import resumption
from headway.core.messages import Dispatch
from headway.core.protocols import View
from headway.core.request import Request

GUARD = 1.5
"""A layer is not started on a core where it takes more than this many times what it takes on its best core:
Lucas's guard on core-time for runs on one core, with its value."""

QUANTUM_S = 0.5e-3
"""A run takes at least this long, or as many layers as its core suits: twice PREMA's period."""

SUITS = 1.25
"""A run of several layers goes on while each takes at most this much longer than on its best core."""


class Placement:
    """The idle cores of one decision after the other; `begin` each with its view; what `run` or
    `suited` is given is not idle any more.

    With `guard` (see GUARD) a core that suits a request badly stays idle for another, unless waiting for a
    better one would cost the request its deadline, while it is to be met at all.
    """

    def __init__(self, *, guard: bool = True, quantum_s: float = QUANTUM_S) -> None:
        self._guard = guard
        self._quantum_s = quantum_s
        self._ends: dict[tuple[str, int, int], int] = {}
        self._view: View
        self._taken_s: list[tuple[int, float]] = []  # kinds given away in this decision, for how long
        self.idle: list[Core] = []

    def begin(self, view: View) -> None:
        """A new decision."""
        self._view = view
        self.idle = list(view.idle)
        self._taken_s = []

    def seconds(self, request: Request, core: Core) -> float:
        """The request's next layer on a core at full bandwidth, SRAM contents and what a stopped run left
        regarded."""
        return self.priced(request, core)[0]

    def priced(self, request: Request, core: Core) -> tuple[float, float]:
        """Seconds and DRAM bytes of the request's next layer on a core, as `seconds` regards them."""
        view = self._view
        option = self._option(request, core)
        extra_bytes = view.extra_dram_bytes(request, option.first, Mode.SERIAL, (core,))
        resumed, read_back_bytes = resumption(request, option, (core,)) if request.partial else (0.0, 0.0)
        left = 1.0 - resumed
        dram_bytes = max(0.0, option.dram_bytes * left + extra_bytes + read_back_bytes)
        transfer_s = dram_bytes / view.device.dram_bandwidth_bytes_s
        return option.fixed_s + max(option.compute_s * left, transfer_s), dram_bytes

    def fastest(self, request: Request) -> Core | None:
        """The idle core on which the request's next layer ends first; None if the guard leaves none."""
        best, best_s = None, float("inf")
        for core in self.idle:
            seconds = self.seconds(request, core)
            if seconds < best_s:
                best, best_s = core, seconds
        return best if best is not None and self.allowed(request, best, best_s) else None

    def allowed(self, request: Request, core: Core, seconds: float) -> bool:
        """Whether the guard lets a request's next layer run there, where it takes so many seconds."""
        view = self._view
        row, kind_of = view.table(request).serial_s[request.next_block], view.device.kind_of
        best = row.index(min(row))
        if not self._guard or kind_of[core.index] == best or seconds <= GUARD * row[best]:
            return True
        laxity_s = request.deadline_s - view.now - view.remaining_s(request)
        if laxity_s < 0.0:
            return False
        frees_s = [
            run.expected_end_s - view.now
            for run in view.running
            if any(kind_of[held.index] == best for held in run.cores)
        ]
        frees_s += [seconds for kind, seconds in self._taken_s if kind == best]
        return bool(frees_s) and laxity_s < min(frees_s)

    def run(self, request: Request, core: Core) -> Dispatch:
        """Give a core to the request's next layer, or to a few of them (see QUANTUM_S)."""
        kind = self._view.device.kind_of[core.index]
        return self._given(request, core, self.end(request, request.next_block, kind))

    def suited(self, request: Request, core: Core) -> Dispatch:
        """Give a core to as many of the request's next layers as it suits, and at least one."""
        kind = self._view.device.kind_of[core.index]
        return self._given(request, core, self._end(request, request.next_block, kind, float("inf")))

    def _given(self, request: Request, core: Core, end: int) -> Dispatch:
        blocks, kind = range(request.next_block, end), self._view.device.kind_of[core.index]
        serial_s = self._view.table(request).serial_s
        self._taken_s.append((kind, sum(serial_s[block][kind] for block in blocks)))
        self.idle.remove(core)
        return Dispatch((request,), blocks, (core,))

    def end(self, request: Request, block: int, kind: int) -> int:
        """The layer before which a run ends that `run` starts at a block on a core of a type."""
        at = (request.model, block, kind)
        known = self._ends.get(at)
        if known is None:
            known = self._ends[at] = self._end(request, block, kind, self._quantum_s)
        return known

    def _end(self, request: Request, block: int, kind: int, least_s: float) -> int:
        table = self._view.table(request)
        seconds = table.serial_s[block][kind]
        end = block + 1
        while (
            end < table.blocks
            and seconds < least_s
            and table.serial_s[end][kind] <= SUITS * table.best_s[end]
        ):
            seconds += table.serial_s[end][kind]
            end += 1
        return end

    def _option(self, request: Request, core: Core) -> Option:
        kind = self._view.device.kind_of[core.index]
        return self._view.table(request).serial[request.next_block][kind]
