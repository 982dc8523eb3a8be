"""What a belief on lanes keeps of models: times and classes of their blocks, and losses of pairs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.core.block import Segment
from headway.cost.lanes import LaneTable
from headway.predict.classes import block_classes
from headway.predict.fluid import Blocks
from headway.predict.joint import Losses
from headway.predict.overlap import OverlapModel


class Known:
    """A model on a number of lanes: its segments, and seconds and class of each block."""

    __slots__ = ("_of_range", "_paced", "block_s", "classes", "lanes", "model", "segments", "table")

    def __init__(self, model: str, lanes: int, table: LaneTable) -> None:
        self.model = model
        self.lanes = lanes
        self.table = table
        self.segments: Sequence[Segment] = table.blocks_on(lanes)
        self.block_s = [segment.compute_s for segment in self.segments]
        self.classes = block_classes(Blocks.of(self.segments))
        self._paced = (1.0, self.block_s)
        self._of_range: dict[tuple[int, int], int] = {}

    def paced(self, pace: float) -> Sequence[float]:
        """Seconds of each block if all take `pace` times as long."""
        if self._paced[0] != pace:
            self._paced = (pace, [pace * each for each in self.block_s])
        return self._paced[1]

    def of_batch(self, size: int, pace: float) -> Sequence[float]:
        """Seconds of each block run by so many requests together, if all take `pace` times as long."""
        return [pace * segment.compute_s for segment in self.table.of_batch(size).blocks_on(self.lanes)]

    def class_of(self, first: int, end: int) -> int:
        """The class in which blocks `first` to before `end` spend most of their time."""
        found = self._of_range.get((first, end))
        if found is None:
            shares: dict[int, float] = {}
            for block in range(first, end):
                shares[self.classes[block]] = shares.get(self.classes[block], 0.0) + self.block_s[block]
            found = self._of_range[first, end] = max(shares, key=lambda each: (shares[each], -each))
        return found


class LaneModels:
    """Models by their cost tables. What is kept of one is made when it is first asked for, and made anew if
    its table is another one."""

    def __init__(self, tables: Mapping[str, LaneTable], overlap: OverlapModel) -> None:
        self._tables = tables
        self._overlap = overlap
        self._known: dict[tuple[str, int], Known] = {}
        self._losses: dict[tuple[str, int, str, int], tuple[Losses, Losses]] = {}

    def has(self, model: str) -> bool:
        """Whether a model is loaded."""
        return model in self._tables

    def known(self, model: str, lanes: int) -> Known:
        """A model over that many lanes. Raises KeyError for a model that was not loaded."""
        table = self._tables[model]
        found = self._known.get((model, lanes))
        if found is None or found.table is not table:
            found = self._known[model, lanes] = Known(model, lanes, table)
            for other in [key for key in self._known if key[0] not in self._tables]:
                del self._known[other]
            for pair in list(self._losses):
                if (model, lanes) in (pair[:2], pair[2:]) or not {pair[0], pair[2]} <= self._tables.keys():
                    del self._losses[pair]
        return found

    def losses(self, one: Known, other: Known) -> tuple[Losses, Losses]:
        """Losses of all blocks of the one with all of the other: as likely as not, and at 99 %."""
        key = (one.model, one.lanes, other.model, other.lanes)
        found = self._losses.get(key)
        if found is None:
            heads = self._overlap.losses(one.segments, other.segments)
            found = self._losses[key] = (heads[0].tolist(), heads[2].tolist())
            if one is not other:
                self._losses[key[2:] + key[:2]] = (heads[0].T.tolist(), heads[2].T.tolist())
        return found

    def loss(
        self, model: str, lanes: int, block: int, other: str, other_lanes: int, other_block: int
    ) -> float:
        """The loss of two blocks that is as likely exceeded as not."""
        return self.losses(self.known(model, lanes), self.known(other, other_lanes))[0][block][other_block]

    def fixed_s(self, model: str, first: int) -> float:
        """What passes before the first block of a run that begins there."""
        return self._tables[model].serial[first][0].fixed_s

    def blocks_of(self, model: str) -> int:
        """How many blocks a model has."""
        return self._tables[model].blocks

    def classes_of(self, model: str) -> list[int]:
        """The classes of a model's blocks on one lane."""
        return self.known(model, 1).classes
