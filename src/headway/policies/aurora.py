"""AuRORA: requests on one, two or four cores, which they acquire and release between layers by their slack.

After "AuRORA: Virtualized Accelerator Orchestration for Multi-Tenant Workloads" (MICRO 2023) and its public
code (SeahK/aurora-rocc-tests-ae, include/workload.h and gemmini.h). With T_n the time on n cores:

- Admission: of those waiting the one with the largest age / T_4, 0 if its slack is below T_4. It wants the
  largest n of 4, 2, 1 with slack < 1.5 T_n, or 1, and takes what is idle of that, at least two if they are
  there.
- Release, at the start of a layer that is long enough on four cores, of half its cores, with
  score = 100 slack / togo(n), 0 if the deadline cannot be met: if it cannot and at most three cores are idle,
  or if at most one is idle and the score is above 400, or if another one has a positive score below half of
  its own and fewer than four cores; but not if another one with a larger score has more than one.
- Acquisition, there too, of as many as it has, with fewer than four and a deadline that can be met, unless
  one with a smaller positive score has fewer than four.
- The bandwidth is partitioned by score (partition.py).

Port: on devices with fewer than four cores T_4 is that of as many as there are. As one of its eight
processors that found no core, a waiting request counts among the others, with no cores and 1.1 times the
score that it has on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from headway.core.device import Core
from headway.core.messages import Adjust, Decision, Dispatch
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import Run
from headway.policies.base import Policy
from headway.policies.partition import LIMIT, LayerStarts, Partition
from headway.policies.registry import policy
from headway.policies.spatial import Spatial, mode

WIDTHS = (4, 2, 1)
"""Cores that a request can have."""

BASE = 2
"""Cores that a request takes if they are idle, even if it wants fewer (BASE_NUM_ARRAY)."""

MARGIN = 1.5
"""A width is wanted while the slack is below this many times its time."""

LAYER_S = 100e-6
"""Layers at least this long on four cores are points of reallocation: 100 K cycles, as for its light sets."""

PLENTY = 400.0
"""Score above which cores are released when at most one is idle."""

PROCESSORS = 8
"""Requests that count at once, running and waiting."""


class _Claim(NamedTuple):
    """What others see of a request: its score and its cores."""

    score: float
    cores: int


@policy("aurora")
class Aurora(Policy):
    """AuRORA (MICRO 2023): one, two or four cores per request, acquired and released by slack."""

    needs = frozenset({Capability.SPLIT, Capability.REALLOCATE, Capability.THROTTLE})
    at_block_ends = True

    def __init__(
        self,
        *,
        base: int = BASE,
        margin: float = MARGIN,
        layer_s: float = LAYER_S,
        limit: float = LIMIT,
    ) -> None:
        self._base, self._margin, self._layer_s = base, margin, layer_s
        self._spatial = Spatial()
        self._starts = LayerStarts()
        self._partition = Partition(self._spatial, limit=limit)

    def decide(self, view: View) -> Iterator[Decision]:
        """Admit, then let those that begin a layer acquire or release, then partition the bandwidth."""
        self._partition.begin(view)
        fresh = self._starts.fresh(view)
        idle = list(view.idle)
        # Ranking the waiting requests is most of the work under load, and most block ends need no rank.
        dividing = [run for run in fresh if run.stopping is None and self._divides(run, view)]
        waiting = self._first_waiting(len(idle) + PROCESSORS, view) if idle or dividing else []
        kind_of = view.device.kind_of
        while idle and waiting:
            request = waiting.pop(0)
            cores = tuple(idle[: self._admitted(request, len(idle), view)])
            del idle[: len(cores)]
            blocks, kinds = (
                range(request.next_block, request.blocks),
                tuple([kind_of[c.index] for c in cores]),
            )
            option = view.table(request).option(mode(cores), blocks.start, blocks.stop, kinds)
            cap = self._partition.start(request, option)
            yield Dispatch((request,), blocks, cores, mode(cores), bandwidth_cap_bytes_s=cap)
        claims = {run.id: _Claim(self._score(run, view), len(run.cores)) for run in view.running}
        hungry = [
            _Claim(self._waiting_score(request, view), 0)
            for request in waiting[: max(0, PROCESSORS - len(claims))]
        ]
        for run in dividing:
            others = [claim for id, claim in claims.items() if id != run.id] + hungry
            moved = _changed(run, claims[run.id].score, others, idle)
            if moved is not None:
                idle = [core for core in idle if core not in moved]
                claims[run.id] = _Claim(claims[run.id].score, len(moved))
                yield Adjust(run, moved)
        yield from self._partition.adjust(fresh)

    # --- admission ---------------------------------------------------------------------------------

    def _widest(self, view: View) -> int:
        return min(WIDTHS[0], len(view.device.cores))

    def _first_waiting(self, count: int, view: View) -> list[Request]:
        return nlargest(count, view.ready, key=lambda request: self._rank(request, view))

    def _rank(self, request: Request, view: View) -> tuple[float, float, int]:
        widest_s = self._spatial.remaining_s(request, self._widest(view), view)
        age_s = view.now - request.arrival_s
        meets = request.deadline_s - view.now > max(0.0, widest_s)
        return age_s / widest_s if meets and widest_s > 0.0 else 0.0, -request.arrival_s, -request.id

    def _admitted(self, request: Request, idle: int, view: View) -> int:
        """The cores that a request starts with."""
        slack_s = request.deadline_s - view.now
        wanted = 1
        if slack_s > self._spatial.remaining_s(request, self._widest(view), view):
            for width in WIDTHS:
                over_s = self._spatial.remaining_s(request, min(width, len(view.device.cores)), view)
                if slack_s < self._margin * over_s:
                    wanted = width
                    break
        return _width(min(idle, max(self._base, wanted)))

    # --- reallocation ------------------------------------------------------------------------------

    def _divides(self, run: Run, view: View) -> bool:
        """Whether the layer that begins is long enough to reallocate at, and not the run's last."""
        long_s, _ = self._spatial.block(run.request, self._widest(view), view, run.next_block)
        return long_s >= self._layer_s and run.next_block + 1 < run.blocks.stop

    def _score(self, run: Run, view: View) -> float:
        """Slack over what is left, in percent; 0 if the deadline cannot be met."""
        request = run.request
        slack_s = request.deadline_s - view.now
        least_s = self._spatial.remaining_s(request, self._widest(view), view, run.next_block)
        left_s = self._spatial.remaining_s(request, len(run.cores), view, run.next_block)
        return 100.0 * slack_s / left_s if slack_s > least_s and left_s > 0.0 else 0.0

    def _waiting_score(self, request: Request, view: View) -> float:
        slack_s = request.deadline_s - view.now
        if slack_s <= self._spatial.remaining_s(request, self._widest(view), view):
            return 0.0
        alone_s = self._spatial.remaining_s(request, 1, view)
        return 110.0 * slack_s / alone_s if alone_s > 0.0 else 0.0


def _changed(run: Run, score: float, others: list[_Claim], idle: list[Core]) -> tuple[Core, ...] | None:
    """The cores that a run is to have from its next layer on; None if those it has."""
    have = len(run.cores)
    if have > 1 and _releases(score, others, len(idle)):
        return run.cores[: _width(have) // 2]
    needier = any(0.0 < other.score < score and other.cores < WIDTHS[0] for other in others)
    if have < WIDTHS[0] and score > 0.0 and len(idle) >= have and not needier:
        return (*run.cores, *idle[:have])
    return None


def _releases(score: float, others: list[_Claim], idle: int) -> bool:
    if any(other.score > score and other.cores > 1 for other in others):
        return False
    return (
        (score <= 0.0 and idle <= 3)
        or (idle <= 1 and score > PLENTY)
        or any(0.0 < other.score < score / 2.0 and other.cores < WIDTHS[0] for other in others)
    )


def _index(core: Core) -> int:
    return core.index


def _width(cores: int) -> int:
    """The largest width within that many cores."""
    return next(width for width in WIDTHS if width <= cores)
