"""Rounds with a barrier: what Abacus and SKADI have in common.

A round is a group of segments that start together. The next one starts when all of them have ended; it is
planned while they run, with what waits by then, and later arrivals do not change it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headway.core.messages import Decision, Dispatch, Drop
from headway.core.protocols import View
from headway.core.request import Request, State
from headway.policies.base import Policy

THRESHOLD_S: Final = 5e-3
"""A cut is good enough if the round ends so much before the deadline: both public codes have 5 ms."""

REASON: Final = "its round would end after its deadline"


class Query(NamedTuple):
    """A request at the head of its tenant's queue, and the block from which it goes on."""

    request: Request
    first: int

    def whole(self) -> Piece:
        """All that remains of it."""
        return Piece(self.request, self.first, self.request.blocks)

    def until(self, end: int) -> Piece:
        """The blocks up to that one, without it."""
        return Piece(self.request, self.first, end)


class Piece(NamedTuple):
    """Blocks [first, end) of a request: its part of a round."""

    request: Request
    first: int
    end: int


@dataclass
class Plan:
    """A round, what it is predicted to take, and who is given up for it."""

    pieces: tuple[Piece, ...] = ()
    seconds: float = 0.0
    given_up: list[Request] = field(default_factory=list)


class Rounds(Policy):
    """Rounds with a barrier. A subclass says in `group` who forms one.

    One query is pending per tenant, the one that arrived first. Headroom is deadline minus now. Nobody is
    preempted, and all lanes wait for the slowest.
    """

    def __init__(self) -> None:
        self._next: Plan | None = None
        self._in_flight: tuple[Piece, ...] = ()
        self._ends_s = 0.0

    def group(
        self, queries: Sequence[Query], headroom_s: float, in_flight_s: float, view: View
    ) -> tuple[tuple[Piece, ...], float] | None:
        """The pieces of the next round and its predicted seconds, or None to give up the first query.

        `queries` are in order of headroom, and `headroom_s` is that of the first; the round that runs is
        predicted to take `in_flight_s` from now.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement group")

    def decide(self, view: View) -> Iterator[Decision]:
        """Start the planned round at the barrier, and plan the one after it."""
        if view.running:
            if self._next is None:
                yield from self._plan_ahead(view.ready, view)
            return
        self._in_flight = ()
        # The planned round without those that were withdrawn or expired meanwhile.
        dispatches = self._dispatches(self._next.pieces, view) if self._next is not None else []
        if not dispatches:
            self._next = self._planned(view.ready, 0.0, view)
            yield from self._drops(self._next)
            dispatches = self._dispatches(self._next.pieces, view)
        now_on, self._next = self._next, None
        if now_on is None or not dispatches:
            return
        yield from dispatches
        started = {dispatch.requests[0].id for dispatch in dispatches}
        self._in_flight = tuple([piece for piece in now_on.pieces if piece.request.id in started])
        self._ends_s = view.now + now_on.seconds
        over = started | {request.id for request in now_on.given_up}
        yield from self._plan_ahead([request for request in view.ready if request.id not in over], view)

    def _plan_ahead(self, waiting: Iterable[Request], view: View) -> Iterator[Drop]:
        """Plan the round after the one in flight."""
        plan = self._planned(waiting, max(0.0, self._ends_s - view.now), view)
        yield from self._drops(plan)
        self._next = plan if plan.pieces else None

    def _drops(self, plan: Plan) -> Iterator[Drop]:
        """Those that wait are given up at once; one that runs is looked at again at the barrier."""
        running = {piece.request.id for piece in self._in_flight}
        for request in plan.given_up:
            if request.id not in running:
                yield Drop(request, REASON)

    def predict(self, groups: Sequence[Sequence[Piece]], view: View) -> list[float]:
        """The predicted seconds of groups, each from its start to the end of its last piece.

        Groups that differ in their last piece only are asked for at once.
        """
        asked: dict[tuple[Piece, ...], list[int]] = {}
        for at, group in enumerate(groups):
            asked.setdefault(tuple(group[:-1]), []).append(at)
        seconds = [0.0] * len(groups)
        for others, positions in asked.items():
            placed = [_placed((*others, groups[at][-1]), view) for at in positions]
            estimates = view.estimate([each[-1] for each in placed], beside=placed[0][:-1])
            for at, estimate in zip(positions, estimates, strict=True):
                seconds[at] = max(estimate.mean_s, *estimate.others_end_s, 0.0)
        return seconds

    def _dispatches(self, pieces: Sequence[Piece], view: View) -> list[Dispatch]:
        there = [
            piece
            for piece in pieces
            if piece.request.state is State.READY and piece.request.next_block == piece.first
        ]
        return _placed(there, view)

    def _planned(self, waiting: Iterable[Request], in_flight_s: float, view: View) -> Plan:
        """The next round of those that wait and those in flight that will have blocks left."""
        queues: dict[str, list[Query]] = {}
        flying = self._in_flight
        left = [Query(piece.request, piece.end) for piece in flying if piece.end < piece.request.blocks]
        for query in [*left, *(Query(request, request.next_block) for request in waiting)]:
            queues.setdefault(query.request.tenant, []).append(query)
        for queue in queues.values():
            queue.sort(key=_by_arrival, reverse=True)  # the head is last
        plan = Plan()
        while queues:
            heads = sorted((queue[-1] for queue in queues.values()), key=_by_deadline)
            first = heads[0].request
            headroom_s = first.deadline_s - view.now
            found = self.group(heads, headroom_s, in_flight_s, view) if headroom_s > 0.0 else None
            if found is not None:
                plan.pieces, plan.seconds = found
                return plan
            plan.given_up.append(first)
            queue = queues[first.tenant]
            queue.pop()
            if not queue:
                del queues[first.tenant]
        return plan


def _placed(pieces: Sequence[Piece], view: View) -> list[Dispatch]:
    """Each piece on a lane of its own."""
    lanes = view.device.cores
    return [
        Dispatch((request,), range(first, end), (lane,))
        for (request, first, end), lane in zip(pieces, lanes, strict=False)
    ]


def _by_arrival(query: Query) -> tuple[float, int]:
    return query.request.arrival_s, query.request.id


def _by_deadline(query: Query) -> tuple[float, int]:
    return query.request.deadline_s, query.request.id
