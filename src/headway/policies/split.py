"""SPLIT: one at a time, in the order that a greedy walk through the queue gives each arrival.

After "SPLIT: QoS-Aware DNN Inference on Shared GPU via Evenly-Sized Model Splitting" (ICPP 2023). Even blocks
are the business of whoever cuts the models. The paper also weighs estimated violations; here only response
ratios count.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.messages import Decision, Preempt
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How
from headway.policies.base import Policy
from headway.policies.registry import policy
from headway.policies.width import remaining_over_s, rest, widest


@policy("split")
class Split(Policy):
    """SPLIT (ICPP 2023): one request at a time over all cores, arrivals overtake where ratios improve.

    A request's response ratio is its latency over its isolated latency. An arrival starts at the tail and
    changes places with the request before it while that lowers the sum of both ratios. With work W left and
    isolated latency I, putting b before a changes a's ratio by +W_b / I_a and b's by -W_a / I_b, whatever
    stands before them: the sum falls if W_b I_b < W_a I_a. Whoever runs is overtaken at its block's end.
    """

    needs = frozenset({Capability.SPLIT, Capability.PREEMPT})

    def __init__(self) -> None:
        self._queue: list[Request] = []

    def decide(self, view: View) -> Iterator[Decision]:
        """Run the head of the queue, or stop what runs if it is not the head any more."""
        self._update(view)
        if not self._queue:
            return
        head = self._queue[0]
        if not view.running:
            yield rest(head, widest(head, view.idle, view))
        for run in view.running:
            if run.request is not head and run.stopping is None:
                yield Preempt(run, How.DRAIN)

    def _update(self, view: View) -> None:
        """Forget requests that are over, insert those that are new; one that was stopped keeps its place."""
        running = {run.request.id for run in view.running}
        present = running | {request.id for request in view.ready}
        self._queue = [request for request in self._queue if request.id in present]
        queued = {request.id for request in self._queue}
        for request in view.ready:
            if request.id not in queued:
                self._insert(request, running, view)

    def _insert(self, request: Request, running: set[int], view: View) -> None:
        cores = view.device.cores
        weight = remaining_over_s(request, cores, view) * request.isolated_s
        at = len(self._queue)
        while at > 0:
            ahead = self._queue[at - 1]
            left_s = remaining_over_s(ahead, cores, view, skip=int(ahead.id in running))
            if weight >= left_s * ahead.isolated_s:
                break
            at -= 1
        self._queue.insert(at, request)
