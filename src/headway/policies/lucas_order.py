"""In which order Lucas looks at waiting requests, kept from decision to decision instead of sorted anew."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headway.core.request import Request, State

THETA_PREEMPT = 0.5
"""A request may preempt when its laxity is below this share of its remaining work plus one safe point."""

AGEING = 10.0
"""A late request that waited this many isolated latencies goes first once."""


class Place(NamedTuple):
    """A request's key: everything about its order that does not change while it waits."""

    latest_start_s: float
    """The latest start that still meets the deadline with the fastest runs on one core each."""
    remaining_s: float
    """Seconds of work that it has left then."""
    preempts_from_s: float
    """From when on it may stop others, but for the time that they take to the next safe point."""
    best_effort: bool
    virtual_deadline_s: float

    @classmethod
    def of(cls, request: Request, remaining_s: float, preempts_at: float = THETA_PREEMPT) -> Place:
        """The place of a request that has that much work left, and may preempt when its laxity is below
        `preempts_at` times that.

        The virtual deadline divides the time from arrival to deadline by the weight.
        """
        ahead_s = (request.deadline_s - request.arrival_s) / request.weight
        latest_start_s = request.deadline_s - remaining_s
        return cls(
            latest_start_s,
            remaining_s,
            latest_start_s - preempts_at * remaining_s,
            not request.strict,
            request.arrival_s + ahead_s,
        )


_Entry = tuple[float, int, Request, Place]  # what it is ordered by, a number of its own, the request


class Late:
    """Requests whose latest start is past, by the work they have left, and those of them that waited long.

    It learns of requests when they become ready, and finds out by itself that they are not any more.
    """

    def __init__(self) -> None:
        self._added = 0
        self._coming: list[_Entry] = []  # a heap by latest start
        self._shortest: list[_Entry] = []  # sorted by remaining work
        self._ageing: list[_Entry] = []  # a heap by the time at which they will have waited long
        self._aged: list[_Entry] = []  # a heap by the time since which they wait

    def add(self, request: Request, place: Place) -> None:
        """A request becomes ready; `place` will be its key."""
        self._added += 1
        heappush(self._coming, (place.latest_start_s, self._added, request, place))
        aged_s = max(place.latest_start_s, request.ready_since_s + AGEING * request.isolated_s)
        heappush(self._ageing, (aged_s, self._added, request, place))

    @property
    def kept(self) -> int:
        """How many entries it keeps, those included of which it does not know yet that they are over."""
        return len(self._coming) + len(self._shortest) + len(self._ageing) + len(self._aged)

    def aged(self, now: float) -> Request | None:
        """The late request that waited too long, since the earliest time."""
        ageing, aged = self._ageing, self._aged
        while ageing and ageing[0][0] < now:
            _, number, request, place = heappop(ageing)
            if _waits(request, place):
                heappush(aged, (request.ready_since_s, number, request, place))
        while aged and not _waits(aged[0][2], aged[0][3]):
            heappop(aged)
        return aged[0][2] if aged else None

    def shortest(self, count: int, now: float) -> list[Request]:
        """The late requests with the least work left."""
        coming, entries = self._coming, self._shortest
        while coming and coming[0][0] < now:
            _, number, request, place = heappop(coming)
            if _waits(request, place):
                insort(entries, (place.remaining_s, number, request, place))
        found: list[Request] = []
        at = 0
        while at < len(entries) and len(found) < count:
            _, _, request, place = entries[at]
            if _waits(request, place):
                found.append(request)
                at += 1
            else:
                del entries[at]
        return found

    def forget(self, waiting: int) -> None:
        """Drop what is over, if that has become most of what is kept; `waiting` requests are ready."""
        most = 4 * waiting + 1024
        for entries in (self._coming, self._ageing, self._aged):
            if len(entries) > most:
                entries[:] = [entry for entry in entries if _waits(entry[2], entry[3])]
                heapify(entries)
        if len(self._shortest) > most:
            self._shortest[:] = [entry for entry in self._shortest if _waits(entry[2], entry[3])]


def _waits(request: Request, key: tuple[float, ...]) -> bool:
    """Whether a request still waits since it got that key."""
    return request.key is key and request.state is State.READY


def first_from(ready: Sequence[Request], now: float) -> int:
    """The position of the first request, in order of latest start, whose latest start is not past."""
    return bisect_left(ready, now, key=_latest_start_s)


def _latest_start_s(request: Request) -> float:
    return request.key[0]


def by_virtual_deadline(request: Request) -> tuple[float, ...]:
    """Sorts best effort after those with an SLA, then by virtual deadline."""
    return request.key[3:]
