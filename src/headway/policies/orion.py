"""Orion: best effort beside high priority only as long as little of it is outstanding.

After "Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications" (EuroSys 2024) and its public
code (eth-easl/orion, scheduler_eval.cpp). There, a best-effort operator also has to fit the free
multiprocessors and to be bound by something else (compute or memory) than the high-priority one, if both are
known. Here neither is: nothing is measured of a block but its time, and unknown passes, as in the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from headway.core.messages import Decision, Dispatch
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.classes import TopClass
from headway.policies.registry import policy

OUTSTANDING = 0.025
"""Limit on outstanding best-effort time, as a share of the high-priority request's isolated latency: the
default of the paper, as others report it."""


@policy("orion")
class Orion(Policy):
    """Orion (EuroSys 2024): high priority always, best effort while its outstanding time is within a limit.

    A high-priority request takes the first idle core for as long as it lasts. Best-effort tenants take turns
    on the cores that are left, in runs that end with the block that passes the limit. While high priority
    is busy, the limit is on all that they started since none of them ran: once passed, none starts until
    all have ended. While it is idle, the limit is on each run, so that a core is free soon after an arrival.
    """

    def __init__(self) -> None:
        self._classes = TopClass()
        self._high_isolated_s = inf  # the shortest seen
        self._outstanding_s = 0.0
        self._served: dict[str, int] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """High priority first, then best effort."""
        self._classes.see(view.ready)
        high = [request for request in view.ready if self._classes.high(request)]
        idle = list(view.idle)
        for request in high:
            self._high_isolated_s = min(self._high_isolated_s, request.isolated_s)
            if idle:
                yield Dispatch((request,), range(request.next_block, request.blocks), (idle.pop(0),))
        running = [self._classes.high(run.request) for run in view.running]
        if all(running):
            self._outstanding_s = 0.0
        busy = bool(high) or any(running)
        for request in self._in_turn(view):
            if not idle or (busy and self._outstanding_s > self._limit_s):
                break
            core = idle.pop(0)
            end, seconds = self._until_limit(request, view.device.kind_of[core.index], busy, view)
            self._outstanding_s += seconds
            self._served[request.tenant] = 1 + max(self._served.values(), default=0)
            yield Dispatch((request,), range(request.next_block, end), (core,))

    @property
    def _limit_s(self) -> float:
        return OUTSTANDING * self._high_isolated_s

    def _in_turn(self, view: View) -> list[Request]:
        """Best-effort requests, first those of the tenants that were served longest ago."""
        low = [request for request in view.ready if not self._classes.high(request)]
        return sorted(low, key=lambda request: self._served.get(request.tenant, 0))

    def _until_limit(self, request: Request, kind: int, busy: bool, view: View) -> tuple[int, float]:
        """The block before which a best-effort run ends, and its seconds."""
        block_s = view.table(request).serial_s
        left_s = self._limit_s - (self._outstanding_s if busy else 0.0)
        end, seconds = request.next_block, 0.0
        while end < request.blocks and seconds <= left_s:
            seconds += block_s[end][kind]
            end += 1
        return end, seconds
