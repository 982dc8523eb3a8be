"""Pairs of segments that ran alone and together, measured or simulated: what overlaps are learnt from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.core.errors import HeadwayError
from headway.cost.contention import MOST_LOSS
from headway.models.block_work import BlockWork
from headway.predict.features import DeviceLimits
from headway.predict.fluid import Blocks, fluid_losses
from headway.predict.overlap import pair_vectors
from headway.predict.pressures import lane_pressures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_RATIO: Final = 0.1
"""Pairs whose shorter member takes less than this share of the longer say too little of w."""


class Member(NamedTuple):
    """One of a pair: which segment of which model, its pressures as a row of `Blocks`, the counts of its
    operators, and `size_s`, seconds alone of its whole model. The batch is 0 where it is not known."""

    model: str
    family: str
    batch: int
    first: int
    end: int
    row: tuple[float, ...]
    counts: tuple[float, ...]
    size_s: float


@dataclass(frozen=True)
class Pairs:
    """Pairs, an entry each. `alone` is [pair, member], `rounds` [pair, round]: w of each round; `together` is
    the median over rounds. `fluid` is the loss that the fluid rule gives, block by block."""

    members: tuple[tuple[Member, Member], ...]
    fluid: Floats
    alone: Floats
    together: Floats
    rounds: Floats

    def __len__(self) -> int:
        return len(self.members)

    @classmethod
    def of(
        cls, members: Sequence[tuple[Member, Member]], rounds: Sequence[Any], fluid: Sequence[float] | None
    ) -> Pairs:
        """From the seconds of each round: alone of both, and together, [pair, round, 3]. Without `fluid` the
        members' rows are taken for single blocks."""
        import numpy as np

        seconds = np.array(rounds, dtype=float).reshape(len(members), -1, 3)
        middle = np.median(seconds, axis=1)
        losses = (seconds[:, :, 2] - seconds[:, :, :2].max(axis=2)) / seconds[:, :, :2].min(axis=2)
        found = cls(tuple(members), np.empty(0), middle[:, :2], middle[:, 2], losses)
        base = fluid_losses(*found.blocks) if fluid is None else np.array(fluid)
        return cls(tuple(members), base, middle[:, :2], middle[:, 2], losses)

    def at(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Pairs:
        """Those that a mask chooses, or at positions."""
        import numpy as np

        places = np.flatnonzero(rows) if rows.dtype == bool else rows
        arrays = {
            field.name: getattr(self, field.name)[places] for field in fields(self) if field.name != "members"
        }
        return Pairs(tuple(self.members[at] for at in places.tolist()), **arrays)

    @property
    def blocks(self) -> tuple[Blocks, Blocks]:
        """The rows of the first and of the second members."""
        import numpy as np

        first, second = (np.array([pair[at].row for pair in self.members]).reshape(-1, 9) for at in (0, 1))
        return Blocks(first), Blocks(second)

    @property
    def vectors(self) -> Floats:
        """Pair vectors, the fluid rule's loss in column 0."""
        found = pair_vectors(*self.blocks)
        found[:, 0] = self.fluid
        return found

    @property
    def losses(self) -> Floats:
        """w of each pair, within 0 and the greatest that is believed."""
        import numpy as np

        found: Floats = np.clip((self.together - self.longer) / self.shorter, 0.0, MOST_LOSS)
        return found

    @property
    def weights(self) -> Floats:
        """What each pair's w is worth: ((Tsum - Tmax) / T)^2."""
        found: Floats = (self.shorter / self.together) ** 2
        return found

    @property
    def longer(self) -> Floats:
        """Seconds of the longer member alone."""
        found: Floats = self.alone.max(axis=1)
        return found

    @property
    def shorter(self) -> Floats:
        """Seconds of the shorter member alone."""
        found: Floats = self.alone.min(axis=1)
        return found

    def seconds(self, losses: Floats) -> Floats:
        """Times together at the given losses."""
        found: Floats = self.longer + losses * self.shorter
        return found

    def noise(self) -> Floats:
        """Relative errors in time, [pair * round], of each round against the median of the others: what no
        predictor can know."""
        import numpy as np

        count = self.rounds.shape[1]
        rest = np.array([np.median(np.delete(self.rounds, at, axis=1), axis=1) for at in range(count)]).T
        found: Floats = ((self.rounds - rest) * (self.shorter / self.together)[:, None]).ravel()
        return found


def read_pairs(path: Path, limits: DeviceLimits) -> Pairs:
    """Pairs that `bench/overlap_measure.py` wrote, those that are too uneven left out.

    Args:
        path: lines of JSON, of which the first says how they were measured.
        limits: of all lanes of the machine on which they were.

    Raises:
        HeadwayError: a file that is missing, or no such file.
    """
    import numpy as np

    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwayError(f"{path}: cannot be read: {error}") from None
    members: list[tuple[Member, Member]] = []
    rounds: list[Any] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.endswith("}"):  # cut off
            continue
        try:
            found = json.loads(line)
            seconds = np.array(found["rounds"], dtype=float)
            alone = np.median(seconds[:, :2], axis=0)
            one, other = (_member(each, alone[at], limits) for at, each in enumerate(found["pair"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise HeadwayError(
                f"{path}, line {number}: no measured pair ({error}); accepted: a file of"
                " bench/overlap_measure.py"
            ) from None
        if alone.min() >= LEAST_RATIO * alone.max():
            members.append((one, other))
            rounds.append(seconds)
    if not members:
        raise HeadwayError(
            f"{path}: no pair that is even enough; accepted: a file of bench/overlap_measure.py"
        )
    return Pairs.of(members, rounds, None)


def _member(found: Mapping[str, Any], alone_s: float, limits: DeviceLimits) -> Member:
    times = int(found["times"])
    work = BlockWork(
        flops=found["flops"] * times,
        read_bytes=found["moved_bytes"] * times,
        written_bytes=0,
        weight_bytes=0,
        output_elements=found["output_elements"],
        kernels=found["kernels"] * times,
        footprint_bytes=found["footprint_bytes"],
        operator_shares={},
    )
    model = found.get("model", f"synthetic {found['number']}")
    pressure = lane_pressures(model, 1, 2, [work], [alone_s], limits, [found["slowdowns"]])[0]
    # Seconds are those of one run: what is taught are blocks, not stretches of many.
    row = (alone_s / times, *pressure[3:8], *pressure.slowdowns)
    counts = tuple(float(each) * times for each in found["counts"])
    return Member(model, found["family"], found.get("batch", 0), 0, times, row, counts, alone_s / times)
