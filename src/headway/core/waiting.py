"""What waits: requests in the order of their keys, and moments to come."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush

from headway.core.request import Request


class ReadyQueue:
    """Ready requests, sorted by key, then arrival, then id. `requests` is the sorted list itself."""

    __slots__ = ("_entries", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._entries: list[tuple[tuple[float, ...], float, int]] = []

    def add(self, request: Request) -> None:
        """Insert a request by its stored key, in O(log n) comparisons."""
        entry = (request.key, request.arrival_s, request.id)
        at = bisect_left(self._entries, entry)
        self._entries.insert(at, entry)
        self.requests.insert(at, request)

    def remove(self, request: Request) -> None:
        """Take a request out; its key must be the one it was added with."""
        at = bisect_left(self._entries, (request.key, request.arrival_s, request.id))
        del self._entries[at]
        del self.requests[at]


class Alarms:
    """Moments at which the engine wants to be woken, and requests that expire."""

    __slots__ = ("_expiring", "_times", "_waking")

    def __init__(self) -> None:
        self._times: list[float] = []  # a heap, and the same as a set
        self._waking: set[float] = set()
        self._expiring: list[tuple[float, int]] = []  # a heap of times and request ids

    def set(self, at_s: float) -> bool:
        """Remember a moment; False if it is remembered already."""
        if at_s in self._waking:
            return False
        self._waking.add(at_s)
        heappush(self._times, at_s)
        return True

    def expire(self, request_id: int, at_s: float) -> None:
        """Remember that a request expires then."""
        heappush(self._expiring, (at_s, request_id))

    def due(self, now: float) -> list[int]:
        """Forget the moments up to now, and give the requests that expired by now."""
        while self._times and self._times[0] <= now:
            self._waking.discard(heappop(self._times))
        expired = []
        while self._expiring and self._expiring[0][0] <= now:
            expired.append(heappop(self._expiring)[1])
        return expired
