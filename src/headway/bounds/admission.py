"""How many requests one machine can finish on time, at most.

Each request has a window and an amount of work; the machine does one second of work per second, on any
request at any time, and may be divided. A set of requests can be finished on time only if all its work fits
into its windows. Letting a request count by the share of its work that is done inside its window can only
raise the number: that is the linear program

    maximise  sum of f_i / p_i   where 0 <= f_i <= p_i is work on request i inside its window.

The vectors f that a machine can do form a polymatroid: they are flows from the machine's time to the
requests. Over a polymatroid a linear function is largest if its coordinates are filled in the order of their
weights (Edmonds 1970), and so, with the requests sorted by p and R(c) the most work that can be done on the
first c of them inside their windows,

    maximum = sum over c of (1/p_c - 1/p_(c+1)) R(c),  1/p_(n+1) = 0.

R(c) is what earliest deadline first does (Glover 1967, on convex bipartite graphs). It is computed for some c
only; between two of them it is at most the larger one, and at most the smaller one plus all work between.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np

from headway.bounds.ways import Floats, Longs

MOST_EVALUATIONS: Final = 40
TOLERANCE: Final = 1e-3
"""The count is computed to within that share of the requests, above the linear program's."""


def most_on_time(arrival_s: Floats, deadline_s: Floats, work_s: Floats) -> float:
    """An upper bound on how many of the requests one machine finishes by their deadlines."""
    order = np.argsort(work_s, kind="stable")
    arrival_s, deadline_s, work_s = arrival_s[order], deadline_s[order], work_s[order]
    free = int(np.searchsorted(work_s, 0.0, side="right"))  # those without work are always on time
    arrival_s, deadline_s, work_s = arrival_s[free:], deadline_s[free:], work_s[free:]
    if not len(work_s):
        return float(free)
    by_arrival = np.argsort(arrival_s, kind="stable")
    upto = np.concatenate(([0.0], np.cumsum(work_s)))
    weight = 1.0 / work_s
    steps = weight - np.append(weight[1:], 0.0)
    known: dict[int, float] = {0: 0.0}

    def evaluate(count: int) -> None:
        chosen = by_arrival[by_arrival < count]
        known[count] = most_work_s(arrival_s[chosen], deadline_s[chosen], work_s[chosen])

    evaluate(len(work_s))
    while True:
        points = np.array(sorted(known))
        least = np.array([known[int(point)] for point in points])
        ceiling, floor = _between(points, least, upto)
        gap = steps * (ceiling - floor)
        if gap.sum() <= TOLERANCE * len(work_s) or len(known) > MOST_EVALUATIONS:
            return float(free + steps @ ceiling)
        by_stretch = np.add.reduceat(gap, points[:-1])
        widest = int(np.argmax(by_stretch))
        low, high = int(points[widest]), int(points[widest + 1])
        inside = np.cumsum(gap[low:high])
        middle = low + 1 + int(np.searchsorted(inside, inside[-1] / 2.0))
        evaluate(min(max(middle, low + 1), high - 1))


def _between(points: Longs, known_s: Floats, upto_s: Floats) -> tuple[Floats, Floats]:
    """Upper and lower bounds on R(1), R(2), ... from R at some points."""
    counts = np.arange(1, len(upto_s))
    above = np.searchsorted(points, counts)
    below = above - 1
    more_s = upto_s[counts] - upto_s[points[below]]
    less_s = upto_s[points[above]] - upto_s[counts]
    ceiling = np.minimum(known_s[above], known_s[below] + more_s)
    floor = np.maximum(known_s[below], known_s[above] - less_s)
    return ceiling, np.minimum(floor, ceiling)


def most_work_s(arrival_s: Floats, deadline_s: Floats, work_s: Floats) -> float:
    """The most work that a machine can do on requests inside their windows, earliest deadline first.

    The requests come in order of arrival.
    """
    waiting: list[tuple[float, float]] = []
    done_s = 0.0
    arrivals, deadlines, works = arrival_s.tolist(), deadline_s.tolist(), work_s.tolist()
    nexts = [*arrivals[1:], np.inf]
    for arrival, deadline, work, following in zip(arrivals, deadlines, works, nexts, strict=True):
        heappush(waiting, (deadline, work))
        now = arrival
        while waiting and now < following:
            until, left = waiting[0]
            room = min(until, following) - now
            if left <= room:
                heappop(waiting)
                done_s += left
                now += left
            elif until <= following:
                heappop(waiting)
                if room > 0.0:
                    done_s += room
                    now = until
            else:
                waiting[0] = (until, left - room)
                done_s += room
                now = following
    return done_s
