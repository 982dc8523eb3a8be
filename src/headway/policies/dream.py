"""DREAM: the best score of a layer on a core, weighed by what users were found to mind, with frame drop.

After "DREAM: A Dynamic Scheduler for Dynamic Real-time Multi-model ML Workloads" (ASPLOS 2023), as
remembered: MapScore(layer, core) = urgency * latency preference + alpha * starvation + beta * energy
preference, where urgency is remaining work over slack, a preference the sum over all cores of the cost over
the cost on this one (energy with what a switch adds), and starvation the time in the queue over the mean
latency of the layer. The pair with the largest score is dispatched. Urgency is at most 1, as in the public
code of Dysta, where past deadlines count as 1, too.

alpha and beta lie in [0, 2] and are tuned online by probing UXCost, the sum of the models' shares of
violations times the sum of their normalised energies (here: over that of the costliest cores; no violation
counts as half of one). How is not known in detail; here a hill climb over windows of replies, one with the
present weights and one with one of them changed by a step, in turn. Frame drop gives up a frame that is
expected to violate, at most `MOST_DROPPED` of a tenant's; which is not known in detail; here, while more
requests wait than cores are idle, the one with most work left. The paper's supernet switching needs models
that have variants.

Port: the layers it schedules are those of placement.py; a held output counts in latency and energy.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.messages import Decision, Drop
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.base import Policy
from headway.policies.dream_weights import STEP, WINDOW, Weights
from headway.policies.placement import Placement
from headway.policies.registry import policy

MOST_DROPPED = 0.5
"""The largest share of a tenant's requests that is dropped (ours, tuned: docs/policies.md)."""


@policy("dream")
@policy("dream:mapscore", drop=False)
class Dream(Policy):
    """DREAM (ASPLOS 2023): the best MapScore of layer and core, weights tuned online, with frame drop."""

    def __init__(
        self,
        *,
        drop: bool = True,
        most_dropped: float = MOST_DROPPED,
        window: int = WINDOW,
        step: float = STEP,
    ) -> None:
        self._drop = drop
        self._most_dropped = most_dropped
        self._placement = Placement()
        self._weights = Weights(window=window, step=step)
        self._replies: dict[str, list[int]] = {}  # by tenant: all, dropped

    def decide(self, view: View) -> Iterator[Decision]:
        """Drop a frame if that helps, then start the pairs with the largest scores."""
        placement = self._placement
        placement.begin(view)
        waiting = list(view.ready)
        hopeless = (
            self._hopeless(waiting, view) if self._drop and len(waiting) > len(placement.idle) else None
        )
        if hopeless is not None:
            waiting.remove(hopeless)
            self._count(hopeless, view, dropped=True)
            yield Drop(hopeless, "expected to violate its deadline")
        if not placement.idle:
            return
        pairs = [pair for request in waiting for pair in self._scores(request, view)]
        pairs.sort(key=lambda pair: (-pair[0], pair[1].arrival_s, pair[1].id))
        started: set[int] = set()
        for _, request, core, seconds in pairs:
            if (
                request.id not in started
                and core in placement.idle
                and placement.allowed(request, core, seconds)
            ):
                started.add(request.id)
                yield placement.run(request, core)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Account for a run's energy, and for the reply if it was the last."""
        self._weights.spend(run, view)
        if run.blocks.stop == run.request.blocks:
            self._count(run.request, view, dropped=False)

    def _count(self, request: Request, view: View, *, dropped: bool) -> None:
        replies = self._replies.setdefault(request.tenant, [0, 0])
        replies[0] += 1
        replies[1] += dropped
        self._weights.reply(request.model, violated=dropped or view.now > request.deadline_s)

    def _hopeless(self, waiting: list[Request], view: View) -> Request | None:
        """Of the requests that are expected to violate and whose tenant has drops left, the longest."""
        best, best_s = None, 0.0
        for request in waiting:
            left_s = view.remaining_s(request)
            if view.now + left_s > request.deadline_s and left_s > best_s:
                replied, dropped = self._replies.get(request.tenant, (0, 0))
                if dropped + 1 <= self._most_dropped * (replied + 1):
                    best, best_s = request, left_s
        return best

    def _scores(self, request: Request, view: View) -> list[tuple[float, Request, Core, float]]:
        """The score of a request's next layer on each idle core, with its seconds there."""
        table, device = view.table(request), view.device
        kind_of, block = device.kind_of, request.next_block
        latencies, options = table.serial_s[block], table.serial[block]
        all_s = sum(latencies[kind] for kind in kind_of)
        all_pj = sum(options[kind].energy_pj for kind in kind_of)
        slack_s, left_s = request.deadline_s - view.now, view.remaining_s(request)
        urgency = left_s / slack_s if slack_s > left_s else 1.0
        mean_s = all_s / len(kind_of)
        starvation = (view.now - request.ready_since_s) / mean_s if mean_s > 0.0 else 0.0
        weights, scores = self._weights, []
        for core in self._placement.idle:
            seconds = self._placement.seconds(request, core)
            extra_bytes = view.extra_dram_bytes(request, block, Mode.SERIAL, (core,))
            energy_pj = options[kind_of[core.index]].energy_pj + extra_bytes * device.dram_energy_pj_per_byte
            score = (
                urgency * (all_s / seconds if seconds > 0.0 else len(kind_of))
                + weights.alpha * starvation
                + weights.beta * (all_pj / energy_pj if energy_pj > 0.0 else len(kind_of))
            )
            scores.append((score, request, core, seconds))
        return scores
