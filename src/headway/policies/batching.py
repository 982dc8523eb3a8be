"""Running several waiting requests of one model together, where that saves work and makes nobody late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from headway.core.messages import Dispatch, Wake
from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.lane_plan import Job, late_in_turn

LEAST_SAVING: Final = 0.05
"""A request joins a batch only if that saves so large a share of what it takes alone."""


class Queue:
    """The jobs of one decision that wait beside those that get lanes; starts take of them along.

    What is left is divided evenly among the lanes' runs that are about to start.
    """

    __slots__ = ("_drifts", "_starting", "_view", "_waiting")

    def __init__(
        self,
        jobs: Sequence[Job],
        wanted: Mapping[int, int],
        drifts: tuple[float, float],
        view: View,
    ) -> None:
        """`wanted` has the lanes by job of those that get some; `drifts` are how much longer than they should
        narrow and wide runs are believed to take."""
        self._drifts, self._view = drifts, view
        self._waiting = [job for job in jobs if job.run is None and job.id not in wanted]
        self._starting = sum([job.run is None and job.id in wanted for job in jobs])

    def start(self, dispatch: Dispatch) -> Dispatch | Wake:
        """The run of a job that gets lanes now, with whom it takes along; or, if nobody else is there and
        more may come that would be worth it, when to decide again."""
        left = max(1, self._starting)
        self._starting -= 1
        if dispatch.requests[0].most_batch == 1:
            return dispatch
        most = 1 + -(-len(self._waiting) // left)
        stretch = self._drifts[0 if len(dispatch.cores) == 1 else 1]
        found = together(dispatch, self._waiting, stretch, most, self._view)
        self._waiting = [job for job in self._waiting if job.request not in found.requests]
        if not self._waiting and not self._starting:
            until_s = worth_waiting_until(found, stretch, self._view)
            if until_s is not None:
                return Wake(until_s)
        return found


def together(dispatch: Dispatch, jobs: Sequence[Job], stretch: float, most: int, view: View) -> Dispatch:
    """A run of all that remains of a request, joined by others of its model that wait at the same block.

    With S(b) for what a batch of b takes, one more joins as long as the laxity of the most urgent stays above
    S(b + 1) - S(b), that is less than it takes alone, and no more of the rest would be late, one after the
    other behind the batch, than if it ran by itself.

    Args:
        dispatch: of one request.
        jobs: who waits, in order.
        stretch: how much longer runs take than they should.
        most: requests in the batch, at most.
        view: the engine's.
    """
    first = dispatch.requests[0]
    most = min(most, most_together(first, view))
    if most < 2 or dispatch.blocks.stop < first.blocks:
        return dispatch
    now, members, rest = view.now, [first], list(jobs)
    due_s = _due_s(first)
    alone_s = lasting_s = stretch * seconds_of(dispatch, 1, view)
    for job in jobs:
        request, size = job.request, len(members) + 1
        if size > most:
            break
        if not _fits(request, first, size):
            continue
        longer_s = stretch * seconds_of(dispatch, size, view)
        if longer_s - lasting_s > (1.0 - LEAST_SAVING) * alone_s:
            break
        if now + longer_s > min(due_s, _due_s(request)):
            continue
        others = [other for other in rest if other is not job]
        if late_in_turn(others, now + longer_s) > late_in_turn(rest, now + lasting_s):
            continue
        members.append(request)
        rest, lasting_s, due_s = others, longer_s, min(due_s, _due_s(request))
    return dispatch if len(members) == 1 else replace(dispatch, requests=tuple(members))


def worth_waiting_until(dispatch: Dispatch, stretch: float, view: View) -> float | None:
    """When a batch that could still grow should start; None if now.

    It waits no longer than the least `batch_delay_s` of its requests, and only if then, with all that may
    join it, none of them would be late.
    """
    first = dispatch.requests[0]
    most = most_together(first, view)
    if first.next_block or dispatch.batch >= most:
        return None
    until_s = min(request.arrival_s + request.batch_delay_s for request in dispatch.requests)
    end_s = until_s + stretch * seconds_of(dispatch, most, view)
    if until_s <= view.now or end_s > min(_due_s(request) for request in dispatch.requests):
        return None
    return until_s


def most_together(request: Request, view: View) -> int:
    """How many may run in one batch with a request."""
    return 1 if request.most_batch == 1 else min(request.most_batch, view.table(request).most_batch)


def seconds_of(dispatch: Dispatch, size: int, view: View) -> float:
    """Seconds that a run of so many requests there takes alone on the device."""
    kinds = tuple([view.device.kind_of[core.index] for core in dispatch.cores])
    table = view.table(dispatch.requests[0]).of_batch(size)
    option = table.option(dispatch.mode, dispatch.blocks.start, dispatch.blocks.stop, kinds)
    return option.seconds(view.device.dram_bandwidth_bytes_s)


def _fits(request: Request, first: Request, size: int) -> bool:
    return (
        request is not first
        and request.model == first.model
        and request.next_block == first.next_block
        and request.strict == first.strict
        and request.most_batch >= size
    )


def _due_s(request: Request) -> float:
    return request.deadline_s if request.strict else float("inf")
