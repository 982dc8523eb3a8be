"""The overlap loss without any training: what blocks share divides like a fluid.

While blocks i and j run together, the part of each outside its gaps is stretched by
phi = max(1, f_i + f_j, m_i + m_j, o_i + o_j): the most wanted of compute, memory and occupancy. Replaying
solo demands per resource is Prophet's idea (ASPLOS 2017). `headway.cost.contention.fluid_loss` is the same
for one pair, in plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.core.block import Segment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_COLUMNS: Final = 9
_SHORTEST_S: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks in the order they run, a row each: seconds alone; shares of compute, memory and occupancy; gap;
    cache; and slow-downs beside the three probes. See `headway.core.block.Pressure`."""

    table: Floats

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Blocks:
        """From segments on lanes. Those without a pressure ask for nothing."""
        import numpy as np

        rows = [
            (part.compute_s, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
            if part.pressure is None
            else (part.compute_s, *part.pressure[3:8], *part.pressure.slowdowns)
            for part in segments
        ]
        return cls(np.array(rows, dtype=float).reshape(len(rows), _COLUMNS))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def seconds(self) -> Floats:
        """Seconds alone of each block."""
        return self.table[:, 0]

    def at(self, positions: NDArray[np.intp]) -> Blocks:
        """Those at the given positions."""
        return Blocks(self.table[positions])


def fluid_losses(first: Blocks, second: Blocks) -> Floats:
    """The overlap losses w of single blocks, in [0, 1]; `first` and `second` pair up row by row."""
    import numpy as np

    one, other = first.table, second.table
    wanted = one[:, 1:4] + other[:, 1:4]
    over = np.maximum(wanted.max(axis=1) - 1.0, 0.0)  # phi - 1
    one_s, other_s = one[:, 0], other[:, 0]
    one_stretch, other_stretch = 1.0 + (1.0 - one[:, 4]) * over, 1.0 + (1.0 - other[:, 4]) * over
    together_s = np.minimum(one_s * one_stretch, other_s * other_stretch)
    left_s = np.maximum(one_s - together_s / one_stretch, other_s - together_s / other_stretch)
    lost_s = together_s + np.maximum(left_s, 0.0) - np.maximum(one_s, other_s)
    losses: Floats = np.maximum(lost_s, 0.0) / np.maximum(np.minimum(one_s, other_s), _SHORTEST_S)
    return losses


def fluid_times(candidates: Sequence[Blocks], beside: Blocks) -> tuple[Floats, Floats]:
    """Seconds until both have ended, and the overlap loss w, of each candidate beside the same other.

    All start now, and go through their blocks as events; w = (T - Tmax) / (Tsum - Tmax), 0 where one of the
    two takes no time. All candidates advance event by event together, so that many cost hardly more than
    one.

    Raises ValueError if there is no candidate, or one of the lists has no block.
    """
    import numpy as np

    if not candidates or not len(beside) or not all(len(each) for each in candidates):
        raise ValueError("at least one candidate, and at least one block in each list, is needed")
    count, longest = len(candidates), max(len(each) for each in candidates)
    own = np.zeros((5, count, longest + 1))  # one more, which takes no time, for those that have ended
    for row, each in enumerate(candidates):
        own[:, row, : len(each)] = each.table[:, :5].T
    other = np.zeros((5, len(beside) + 1))
    other[:, : len(beside)] = beside.table[:, :5].T
    lengths = np.array([len(each) for each in candidates])
    rows = np.arange(count)
    at: NDArray[np.intp] = np.zeros(count, dtype=np.intp)
    beside_at: NDArray[np.intp] = np.zeros(count, dtype=np.intp)
    left_s, beside_left_s = own[0, :, 0].copy(), np.full(count, other[0, 0])
    elapsed_s = np.zeros(count)
    for _ in range(longest + len(beside)):
        mine, theirs = own[:, rows, at], other[:, beside_at]
        both = (at < lengths) & (beside_at < len(beside))
        phi = np.where(both, np.maximum(1.0, np.max(mine[1:4] + theirs[1:4], axis=0, initial=0.0)), 1.0)
        stretch, beside_stretch = _stretches(phi, mine[4], theirs[4])
        end_s = np.where(at < lengths, left_s * stretch, np.inf)
        beside_end_s = np.where(beside_at < len(beside), beside_left_s * beside_stretch, np.inf)
        step_s = np.minimum(end_s, beside_end_s)
        goes_on = np.isfinite(step_s)
        if not goes_on.any():
            break
        step_s = np.where(goes_on, step_s, 0.0)
        elapsed_s += step_s
        ends, beside_ends = goes_on & (end_s <= step_s), goes_on & (beside_end_s <= step_s)
        left_s = np.maximum(left_s - step_s / stretch, 0.0)
        beside_left_s = np.maximum(beside_left_s - step_s / beside_stretch, 0.0)
        at, beside_at = at + ends, beside_at + beside_ends
        left_s = np.where(ends, own[0, rows, np.minimum(at, longest)], left_s)
        beside_left_s = np.where(beside_ends, other[0, np.minimum(beside_at, len(beside))], beside_left_s)
    alone_s, beside_s = own[0].sum(axis=1), beside.seconds.sum()
    shorter_s = np.minimum(alone_s, beside_s)
    lost_s = np.maximum(elapsed_s - np.maximum(alone_s, beside_s), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(shorter_s > 0.0, lost_s / shorter_s, 0.0)
    return elapsed_s, losses


def _stretches(phi: Floats, gap: Floats, other_gap: Floats) -> tuple[Floats, Floats]:
    return gap + (1.0 - gap) * phi, other_gap + (1.0 - other_gap) * phi
