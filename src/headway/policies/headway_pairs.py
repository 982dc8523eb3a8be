"""Whom a request shares the lanes with, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.device import Core
from headway.core.messages import Dispatch
from headway.core.protocols import Estimate, View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.lane_plan import Job

REFRESH: Final = 100
"""After so many finished runs the losses of pairs are asked for again: an estimator may have learnt."""

PROBES: Final = 4
"""Cuts of a partner's blocks that are tried."""


class PairLosses:
    """The overlap losses of models' whole runs, as estimated, kept until some runs have finished.

    Of two that take S1 and S2 alone and T together, w = (T - max(S1, S2)) / min(S1, S2).
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}
        self._requests: dict[str, Request] = {}
        self._finished = 0
        self._view: View | None = None

    def see(self, request: Request, view: View) -> None:
        """Be ready to tell about this request's model, by asking this view."""
        self._view = view
        self._requests[request.model] = request

    def finished(self) -> None:
        """A run is over."""
        self._finished += 1
        if self._finished >= REFRESH:
            self._finished = 0
            self._known.clear()

    def of(self, one: str, other: str) -> float:
        """The loss of runs of two models, in either order."""
        known = self._known.get((one, other))
        if known is None:
            known = self._known[one, other] = self._known[other, one] = self._asked(one, other)
        return known

    def _asked(self, one: str, other: str) -> float:
        view = self._view
        assert view is not None
        cores = view.device.cores
        if len(cores) < 2:
            return 1.0
        runs = [
            Dispatch((request,), range(request.blocks), (core,))
            for request, core in zip((self._requests[one], self._requests[other]), cores, strict=False)
        ]
        first_s, second_s = [each.mean_s for each in view.estimate(runs, beside=())]
        together = view.estimate(runs[:1], beside=runs[1:])[0]
        # Whichever is shorter has the other beside it all the time: it is stretched by 1 + w.
        stretch = together.mean_s / first_s if first_s <= second_s else together.others_end_s[0] / second_s
        return max(0.0, stretch - 1.0)


def best_partner(first: Job, others: Sequence[Job], losses: PairLosses, worth: float) -> tuple[int, float]:
    """The position of the one that gets most done beside the first, and by how much less it disturbs it than
    the first of the others does.

    That one itself, and 0, unless the loss beside another is less by more than `worth`.
    """
    model = first.request.model
    next_w = best_w = losses.of(model, others[0].request.model)
    best, asked_w = 0, next_w - worth
    for position, job in enumerate(others[1:], start=1):
        w = losses.of(model, job.request.model)
        if w < asked_w and w < best_w:
            best, best_w = position, w
    return best, next_w - best_w


def partner_end(
    request: Request, core: Core, beside: Run | Dispatch, within_s: float, view: View, *, margins: bool
) -> int:
    """The block before which a partner's run must end for another to be through in time.

    `within_s` is the time that the run `beside` has from now on. All blocks of the request if that run ends
    within it beside all of them, else as many as bisection finds; its next block itself if there are none.
    """
    first, end = request.next_block, request.blocks

    def fits(cut: int) -> bool:
        estimate = view.estimate([Dispatch((request,), range(first, cut), (core,))], beside=[beside])[0]
        return others_end_s(estimate, margins=margins) <= within_s

    if fits(end):
        return end
    low, high = first, end
    for _ in range(PROBES):
        if high - low < 2:
            break
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def others_end_s(estimate: Estimate, *, margins: bool) -> float:
    """When the last of the runs beside a candidate ends, in seconds from now: an upper bound with margins."""
    upper = estimate.others_upper_s if margins and estimate.others_upper_s else estimate.others_end_s
    return max(upper, default=0.0)
