"""Memory bandwidth in shares by score, layer by layer: the runtime of MoCA and of AuRORA.

Source: the public codes of MoCA (SeahK/gemmini-rocc-tests-moca-ae) and AuRORA (SeahK/aurora-rocc-tests-ae),
both in include/gemmini.h: when a layer starts, its demand u and those of the others are added up; of what
exceeds the limit it gives up the part W / (score u + W), where W is the sum of the others' scores times
demands, but keeps at least the floor. MoCA's code multiplies the others' demands by this layer's own score,
so that scores cancel; AuRORA's has each one's own. Score and floor are AuRORA's, too (with MoCA's floor of 25
% four groups never get less than the quarter that a fair memory controller, as here, gives them anyway), the
limit is MoCA's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from headway.core.block import Option, Segment
from headway.core.messages import Adjust
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.spatial import Spatial

LIMIT = 1.5
"""Sum of the demands, in shares of the bandwidth, from which on layers are throttled (DRAM_MAX_UTIL)."""

FLOOR = 0.1
"""The least share of the bandwidth that a layer keeps."""

MOST_SCORE, LATE_SCORE = 200.0, 10.0
"""The largest score, and that of a request whose deadline is past."""


def score(left_s: float, slack_s: float) -> float:
    """How much a request needs bandwidth: what is left of it over its slack, in percent."""
    return LATE_SCORE if slack_s <= 0.0 else min(MOST_SCORE, 100.0 * left_s / slack_s)


def throttled(
    share: float,
    score: float,
    others: Sequence[tuple[float, float]],
    *,
    limit: float = LIMIT,
    floor: float = FLOOR,
) -> float | None:
    """What a layer with that demand and score keeps beside others, given as (demand, score); None if all."""
    excess = share + sum(demand for demand, _ in others) - limit
    weight = sum(demand * each for demand, each in others)
    if excess <= 0.0 or weight <= 0.0:
        return None
    kept = max(floor, share - excess * weight / (score * share + weight))
    return kept if kept < share else None


class LayerStarts:
    """Which runs have begun another layer since they were looked at last."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def fresh(self, view: View) -> list[Run]:
        """Those runs, in the order they started."""
        running = view.running
        found = [run for run in running if self._seen.get(run.id) != run.segment]
        self._seen = {run.id: run.segment for run in running}
        return found


class Partition:
    """Bandwidth caps of the runs: each is set when its layer starts, and holds until its next layer.

    `begin` each decision with its view; then `start` for what is dispatched and `adjust` for what runs.
    """

    def __init__(self, spatial: Spatial, *, limit: float = LIMIT, floor: float = FLOOR) -> None:
        self._spatial = spatial
        self._limit, self._floor = limit, floor
        self._view: View
        self._layers: dict[int, tuple[float, float]] = {}  # by request: demand within its cap, and score

    def begin(self, view: View) -> None:
        """A new decision."""
        self._view = view
        bandwidth = view.device.dram_bandwidth_bytes_s
        self._layers = {
            run.request.id: (
                min(self._demand(run.segments[run.segment]), run.bandwidth_cap_bytes_s / bandwidth),
                self._score(run.request, len(run.cores), run.next_block),
            )
            for run in view.running
        }

    def start(self, request: Request, option: Option) -> float | None:
        """The cap in bytes per second with which a run of an option starts; None for none."""
        first = self._view.table(request).segments(option)[0]
        kept = self._keeps(request, first, len(option.kinds), option.first)
        return None if kept is None else kept * self._view.device.dram_bandwidth_bytes_s

    def adjust(self, runs: Sequence[Run]) -> Iterator[Adjust]:
        """New caps for runs that have begun a layer."""
        for run in runs:
            kept = self._keeps(run.request, run.segments[run.segment], len(run.cores), run.next_block)
            cap = math.inf if kept is None else kept * self._view.device.dram_bandwidth_bytes_s
            if cap != run.bandwidth_cap_bytes_s:
                yield Adjust(run, bandwidth_cap_bytes_s=cap)

    def _keeps(self, request: Request, segment: Segment, cores: int, block: int) -> float | None:
        """The share of the bandwidth that a layer keeps beside the others."""
        self._layers.pop(request.id, None)
        demand, own = self._demand(segment), self._score(request, cores, block)
        others = tuple(self._layers.values())
        kept = throttled(demand, own, others, limit=self._limit, floor=self._floor)
        self._layers[request.id] = demand if kept is None else kept, own
        return kept

    def _score(self, request: Request, cores: int, block: int) -> float:
        left_s = self._spatial.remaining_s(request, cores, self._view, block)
        return score(left_s, request.deadline_s - self._view.now)

    def _demand(self, segment: Segment) -> float:
        """The share of the bandwidth that a layer asks for."""
        bandwidth = self._view.device.dram_bandwidth_bytes_s
        seconds = segment.solo_s(bandwidth)
        return segment.dram_bytes / (seconds * bandwidth) if seconds > 0.0 else 0.0
