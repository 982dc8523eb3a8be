"""Blocks of even length by a dynamic programme.

Published splitters search with a genetic algorithm that runs every candidate (SPLIT, ICPP'23). With a time
for each node and a cost for each cut the best blocks follow exactly, in O(n^2) and in practice in O(n w),
where w is how many cuts fit into the longest block that is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    import numpy as np

TARGET_S: Final = 2e-3  # the longest wait that a block should cause
SHORTEST_TARGET_S: Final = 0.3e-3  # below it a boundary costs more than it gives
LONGEST_BLOCK_S: Final = 4e-3
OVERHEAD_SHARE: Final = 0.03
_SLO_SHARE: Final = 0.02
_DOUBLINGS: Final = 24


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """What blocks should be like.

    `target_s` is the length that is wanted, and `longest_s` the most where a cut inside the block exists.
    `overhead_share` is the most that all boundaries together may cost, as a share of the model's time.
    """

    target_s: float = TARGET_S
    longest_s: float = LONGEST_BLOCK_S
    overhead_share: float = OVERHEAD_SHARE

    def __post_init__(self) -> None:
        if self.target_s <= 0 or self.longest_s < self.target_s or self.overhead_share < 0:
            raise HeadwayError(
                f"block limits: target_s = {self.target_s}, longest_s = {self.longest_s}, "
                f"overhead_share = {self.overhead_share}; accepted: a target above 0, a longest block no "
                "shorter than it, and a share from 0 on"
            )


@dataclass(frozen=True, slots=True)
class EvenBlocks:
    """Where to cut, how long each block takes and what the boundaries are expected to cost."""

    positions: tuple[int, ...]
    block_s: tuple[float, ...]
    overhead_s: float
    reason: str  # why it is one block, or why the limits are not kept; else ""


@dataclass(frozen=True, slots=True)
class PricedCut:
    """A place to cut: `position` nodes lie before it. `overhead_s` is what its boundary costs in every run.

    `cold_s` comes on top where another model's block runs in between and what crosses has left the caches;
    it makes narrow places preferable, but is no overhead of splitting as such.
    """

    position: int
    overhead_s: float
    cold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PricedSum:
    """A node, at `place`, that adds in the memory of a tensor made at `made_at`, its result being read until
    `last_read_at` (see `headway.models.takeovers`).

    It copies, which takes `copy_s`, where a block begins between the maker and the sum, or ends between the
    sum and the last reader, but not where both are so: the result then takes over the tensor's place.
    """

    place: int
    made_at: int
    last_read_at: int
    copy_s: float


def target_block_s(tightest_slo_s: float) -> float:
    """Two percent of the tightest SLA, within 0.3 and 2 ms."""
    return min(TARGET_S, max(SHORTEST_TARGET_S, _SLO_SHARE * tightest_slo_s))


def even_blocks(
    node_s: Sequence[float],
    cuts: Sequence[PricedCut],
    limits: BlockLimits | None = None,
    sums: Sequence[PricedSum] = (),
) -> EvenBlocks:
    """Cut so that blocks are as close to the target as they can be for what boundaries cost.

    Minimises the sum over blocks of (t / target - 1)^2 + weight * copies / target, plus the sum over cuts of
    weight * (overhead + cold) / target. Only blocks that cannot be cut are longer than `longest_s`. The
    weight is 1, and is raised until all boundaries together keep to `overhead_share`, unless `longest_s`
    demands more of them.

    Args:
        node_s: seconds of each node, in topological order.
        cuts: in order of position.
        limits: 2 ms, 4 ms and 3 % by default.
        sums: what copies where.

    Raises:
        HeadwayError: a time is negative.
    """
    limits = limits or BlockLimits()
    if any(seconds < 0 for seconds in node_s):
        raise HeadwayError("node_s: a negative time; accepted: seconds from 0 on")
    total = sum(node_s)
    if not cuts:
        return EvenBlocks((), (total,), 0.0, "the graph has no place where it may be cut")
    if total <= limits.target_s:
        return EvenBlocks(
            (), (total,), 0.0, f"it takes {1e3 * total:.2f} ms, no longer than one block should"
        )
    plan = _Plan(node_s, cuts, limits, sums)
    weight = 1.0
    found = plan.best(weight)
    for _ in range(_DOUBLINGS):
        if found.overhead_s <= limits.overhead_share * total:
            break
        weight *= 2.0
        found = plan.best(weight)
    if found.overhead_s > limits.overhead_share * total:
        return EvenBlocks(
            found.positions,
            found.block_s,
            found.overhead_s,
            f"boundaries cost {found.overhead_s / total:.1%} of its time, since no block may be longer than "
            f"{1e3 * limits.longest_s:.1f} ms",
        )
    return found


class _Plan:
    def __init__(
        self,
        node_s: Sequence[float],
        cuts: Sequence[PricedCut],
        limits: BlockLimits,
        sums: Sequence[PricedSum],
    ) -> None:
        import numpy as np

        self._target_s = limits.target_s
        self._longest_s = limits.longest_s
        self._positions = [0, *(cut.position for cut in cuts), len(node_s)]
        self._overhead_s = np.array([0.0, *(cut.overhead_s for cut in cuts), 0.0])
        self._price_s = self._overhead_s + np.array([0.0, *(cut.cold_s for cut in cuts), 0.0])
        ends_s = np.concatenate([[0.0], np.cumsum(np.asarray(node_s, dtype=float))])
        self._time_s = ends_s[self._positions]
        count = len(self._positions)
        # A block that holds no cut may be as long as it is; others fit between `first` and `end`.
        firsts = np.searchsorted(self._time_s, self._time_s - self._longest_s, side="left")
        self._firsts = [min(int(firsts[end]), end - 1) for end in range(count)]
        self._copies_s = [
            self._copies_of(sums, first, end) if end else np.zeros(0)
            for end, first in enumerate(self._firsts)
        ]

    def _copies_of(self, sums: Sequence[PricedSum], first: int, end: int) -> np.ndarray:
        """Seconds of copies in blocks that end there, by where they begin, from `first` on."""
        import numpy as np

        begins = np.array(self._positions[first:end])
        ends = self._positions[end]
        seconds = np.zeros(end - first)
        for each in sums:
            if begins[0] <= each.place < ends:
                one_sided = (each.made_at < begins) != (each.last_read_at >= ends)
                seconds += np.where((begins <= each.place) & one_sided, each.copy_s, 0.0)
        return seconds

    def best(self, weight: float) -> EvenBlocks:
        import numpy as np

        count = len(self._positions)
        best = np.zeros(count)
        previous = np.zeros(count, dtype=int)
        price = weight * self._price_s / self._target_s
        for end in range(1, count):
            first = self._firsts[end]
            length = self._time_s[end] - self._time_s[first:end]
            total = best[first:end] + (length / self._target_s - 1.0) ** 2 + price[end]
            total += weight * self._copies_s[end] / self._target_s
            choice = int(np.argmin(total))
            best[end] = total[choice]
            previous[end] = first + choice
        chosen = []
        place = int(previous[count - 1])
        while place > 0:
            chosen.append(place)
            place = int(previous[place])
        chosen.reverse()
        bounds = [0, *chosen, count - 1]
        return EvenBlocks(
            positions=tuple(self._positions[place] for place in chosen),
            block_s=tuple(float(self._time_s[b] - self._time_s[a]) for a, b in pairwise(bounds)),
            overhead_s=float(
                self._overhead_s[chosen].sum()
                + sum(self._copies_s[b][a - self._firsts[b]] for a, b in pairwise(bounds))
            ),
            reason="" if chosen else self._kept_whole(),
        )

    def _kept_whole(self) -> str:
        return (
            f"it takes {1e3 * self._time_s[-1]:.2f} ms, and two blocks would be further from the "
            f"{1e3 * self._target_s:.2f} ms that a block should take"
        )
