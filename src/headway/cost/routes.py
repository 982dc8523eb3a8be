"""Buses and links that pass one transfer at a time, and the shortest ways over links."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise


class Bus:
    """A resource that does one transfer at a time: reserved stretches, in order."""

    def __init__(self) -> None:
        self.busy: list[tuple[int, int]] = []


def first_gap(buses: Sequence[Bus], earliest: int, duration: int) -> int:
    """The earliest start, not before `earliest`, at which all the buses are free for so long; reserves it."""
    taken = sorted(stretch for bus in buses for stretch in bus.busy)
    start = earliest
    for begin, end in taken:
        if begin >= start + duration:
            break
        start = max(start, end)
    for bus in buses:
        bus.busy.append((start, start + duration))
    return start


class Routes:
    """The links between cores, one per direction, and shortest ways over them."""

    def __init__(self, connections: Sequence[tuple[int, int]] | None) -> None:
        self._links: dict[tuple[int, int], Bus] = {}
        self._neighbours: dict[int, list[int]] | None = None
        if connections is not None:
            self._neighbours = {}
            for a, b in connections:
                self._neighbours.setdefault(a, []).append(b)
                self._neighbours.setdefault(b, []).append(a)

    def between(self, sender: int, receiver: int) -> list[Bus]:
        """The links of the first shortest way."""
        way = [sender, receiver] if self._neighbours is None else self._shortest(sender, receiver)
        return [self._links.setdefault(hop, Bus()) for hop in pairwise(way)]

    def _shortest(self, sender: int, receiver: int) -> list[int]:
        assert self._neighbours is not None
        ways = deque([[sender]])
        seen = {sender}
        while ways:
            way = ways.popleft()
            if way[-1] == receiver:
                return way
            for core in self._neighbours.get(way[-1], []):
                if core not in seen:
                    seen.add(core)
                    ways.append([*way, core])
        raise ValueError(f"no connection leads from core {sender} to core {receiver}")
