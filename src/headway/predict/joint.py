"""When runs end that run together: they go through their blocks as events, at rates that pairs decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Losses = Sequence[Sequence[float]]
"""Overlap losses w of two models' blocks, [block of the one][block of the other]."""


class Part(NamedTuple):
    """What is left of a run, or a run that might start.

    `fixed_s` passes first, whatever others do; then `first_s` of the block `first` are left, and after it
    all of blocks `first + 1` to before `end`. `block_s` are seconds alone of each block of the model, at full
    speed.
    """

    fixed_s: float
    first: int
    first_s: float
    end: int
    block_s: Sequence[float]

    @property
    def alone_s(self) -> float:
        """Seconds to its end if nothing else ran."""
        return self.fixed_s + self.first_s + sum(self.block_s[self.first + 1 : self.end])


def joint_ends(parts: Sequence[Part], losses: Sequence[Sequence[Losses | None]]) -> list[float]:
    """Seconds from now to the end of each of some runs that go on together, and nothing after them.

    `losses[i][j]`, needed for i < j, are those of the blocks of the one and the other. Each run advances at
    1 / (1 + the sum of w over the others), as in the simulator (`headway.cost.contention.PairOverlap`).
    """
    if len(parts) == 2:
        table = losses[0][1]
        assert table is not None
        return two_ends(parts[0], parts[1], table)
    ends = [0.0] * len(parts)
    fixed = [part.fixed_s for part in parts]
    at = [part.first for part in parts]
    left = [part.first_s for part in parts]
    going = list(range(len(parts)))
    now = 0.0
    while going:
        stretch = dict.fromkeys(going, 1.0)
        for place, one in enumerate(going):
            for other in going[place + 1 :]:
                table = losses[one][other]
                assert table is not None
                w = table[at[one]][at[other]]
                stretch[one] += w
                stretch[other] += w
        step = min(fixed[each] + left[each] * stretch[each] for each in going)
        now += step
        still = []
        for each in going:
            after_fixed = step - fixed[each]
            if after_fixed < 0.0:
                fixed[each] = -after_fixed
                still.append(each)
                continue
            fixed[each] = 0.0
            left[each] -= after_fixed / stretch[each]
            if left[each] > 1e-15 + 1e-12 * now:
                still.append(each)
                continue
            at[each] += 1
            if at[each] < parts[each].end:
                left[each] = parts[each].block_s[at[each]]
                still.append(each)
            else:
                ends[each] = now
        going = still
    return ends


def two_ends(one: Part, other: Part, losses: Losses) -> list[float]:
    """`joint_ends` of two, which is nearly always asked for."""
    fixed, at, left, end, times = one
    other_fixed, other_at, other_left, other_end, other_times = other
    now = 0.0
    row = losses[at]
    while True:
        stretch = 1.0 + row[other_at]
        takes = fixed + left * stretch
        other_takes = other_fixed + other_left * stretch
        if takes <= other_takes:
            now += takes
            gone = takes - other_fixed
            if gone < 0.0:
                other_fixed = -gone
            else:
                other_fixed = 0.0
                other_left -= gone / stretch
            at += 1
            if at == end:
                rest = sum(other_times[other_at + 1 : other_end])
                return [now, now + other_fixed + max(0.0, other_left) + rest]
            fixed, left = 0.0, times[at]
            row = losses[at]
        else:
            now += other_takes
            gone = other_takes - fixed
            if gone < 0.0:
                fixed = -gone
            else:
                fixed = 0.0
                left -= gone / stretch
            other_at += 1
            if other_at == other_end:
                rest = sum(times[at + 1 : end])
                return [now + fixed + max(0.0, left) + rest, now]
            other_fixed, other_left = 0.0, other_times[other_at]
