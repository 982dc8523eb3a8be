"""REEF: real time at once, best effort only as padding that ends no later.

After "Microsecond-scale Preemption for Concurrent GPU-accelerated DNN Inferences" (OSDI 2022). Its kernels
are blocks here. It resets best-effort kernels when a real-time request arrives; blocks on lanes are short and
cannot be reset, so they are preempted at their end. Its second condition for padding, that the kernel fits
into the compute units left over, is an idle core.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.messages import Decision, Dispatch, Preempt
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How
from headway.policies.base import Policy
from headway.policies.classes import TopClass
from headway.policies.registry import policy


@policy("reef")
class Reef(Policy):
    """REEF (OSDI 2022): real time first, padded by best-effort blocks that end no later than its block.

    Real-time requests (those of high priority) run block by block, each on the first idle core, in order of
    arrival. While there are any, best-effort runs are stopped at their block's end, and another best-effort
    block starts on an idle core only if it takes no longer than what is left of every real-time block that
    runs. Without any, best effort runs in order of arrival.
    """

    needs = frozenset({Capability.PREEMPT})

    def __init__(self) -> None:
        self._classes = TopClass()

    def decide(self, view: View) -> Iterator[Decision]:
        """Real time first, then padding."""
        self._classes.see(view.ready)
        idle, kind_of = list(view.idle), view.device.kind_of
        left_s = [run.block_end_s - view.now for run in view.running if self._classes.high(run.request)]
        low: list[Request] = []
        waits = False
        for request in view.ready:
            if not self._classes.high(request):
                low.append(request)
            elif idle:
                core, block = idle.pop(0), request.next_block
                left_s.append(view.table(request).serial_s[block][kind_of[core.index]])
                yield Dispatch((request,), range(block, block + 1), (core,))
            else:
                waits = True
        if not left_s and not waits:
            for request, core in zip(low, idle, strict=False):
                yield Dispatch((request,), range(request.next_block, request.blocks), (core,))
            return
        for run in view.running:
            if not self._classes.high(run.request) and run.stopping is None and len(run.blocks) > 1:
                yield Preempt(run, How.DRAIN)
        for request in low:
            if not idle:
                return
            block = request.next_block
            if view.table(request).serial_s[block][kind_of[idle[0].index]] <= min(left_s):
                yield Dispatch((request,), range(block, block + 1), (idle.pop(0),))
