"""MoCA's arrival streams: requests of several tenants, drawn one after the other."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headway.config.arrivals import Streams
from headway.core.errors import HeadwayError
from headway.workload.draws import CHUNK, stream


@dataclass(frozen=True, slots=True)
class StreamMember:
    """A tenant whose requests the streams draw: its position among all, its share, its latency alone."""

    position: int
    share: float
    isolated_s: float


def mean_rates(streams: Streams, members: Sequence[StreamMember]) -> list[float]:
    """Requests per second of each member in the long run.

    Raises HeadwayError if the gaps are none on average, so that requests would come without end at time 0.
    """
    if not members:
        return []
    total = sum(member.share for member in members)
    gap_s = sum(member.share / total * streams.mean_gap_s(member.isolated_s) for member in members)
    if gap_s <= 0.0:
        raise HeadwayError(
            f"streams: with cap {streams.cap:g} no gap is left between requests, whose models take"
            f" {max(member.isolated_s for member in members):.3g} s at most; accepted: a larger cap or a"
            " smaller step"
        )
    return [streams.count * member.share / total / gap_s for member in members]


def stream_times(
    streams: Streams, members: Sequence[StreamMember], seed: int
) -> Iterator[tuple[float, int, int]]:
    """Endless arrivals in order of time: seconds, the tenant's position, and its index.

    What each stream draws depends on the seed and its number alone.
    """
    mean_rates(streams, members)
    merged = heapq.merge(*(_one(streams, members, seed, number) for number in range(streams.count)))
    indices = {member.position: 0 for member in members}
    for arrival_s, _, position in merged:
        index = indices[position]
        indices[position] = index + 1
        yield arrival_s / streams.speed, position, index  # divided only here: no speed changes the order


def _one(
    streams: Streams, members: Sequence[StreamMember], seed: int, number: int
) -> Iterator[tuple[float, int, int]]:
    """Arrivals of one stream at a speed of 1: seconds, the stream's number, the tenant's position."""
    draws = stream(seed, "moca streams", number)
    bounds = list(accumulate(member.share for member in members))
    now_s = 0.0
    while True:
        chosen = (draws.random(CHUNK) * bounds[-1]).tolist()
        steps = draws.integers(streams.steps, size=CHUNK).tolist()
        for draw, step in zip(chosen, steps, strict=True):
            member = members[min(bisect_right(bounds, draw), len(members) - 1)]
            yield now_s, number, member.position
            now_s += max(0.0, member.isolated_s * streams.cap - streams.step * step)
