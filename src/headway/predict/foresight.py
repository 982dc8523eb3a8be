"""The oracle's belief: each request's own solo times, as they will turn out, instead of its model's."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

from headway.core.block import Mode, Option, Segment
from headway.core.device import Device
from headway.core.protocols import Contention, CostTable
from headway.core.request import Request
from headway.cost.lanes import LaneTable
from headway.predict.analytic import AnalyticEstimator
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.lane_models import Known
from headway.predict.overlap import OverlapModel

_TABLES_KEPT = 512
"""Tables of requests that are kept, the last used; one that is asked for again later is made anew."""


class _OwnTables:
    """The tables of single requests, of which those that were asked for last are kept."""

    def __init__(self, solo: Callable[[Request], Sequence[float]], bandwidth_bytes_s: float) -> None:
        self._solo, self._bandwidth = solo, bandwidth_bytes_s
        self._kept: OrderedDict[int, ForeseenTable] = OrderedDict()

    def of(self, request: Request, table: Callable[[Request], CostTable]) -> ForeseenTable:
        """The request's own, made from its model's."""
        own = self._kept.get(request.id)
        if own is None:
            own = ForeseenTable(table(request), self._solo(request), self._bandwidth)
            self._kept[request.id] = own
            if len(self._kept) > _TABLES_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(request.id)
        return own


class ForesightEstimator(AnalyticEstimator):
    """Estimates without an error in solo times, beside the co-runners of the moment.

    `solo` gives for a request the factors by which the solo times of its blocks will differ from those of
    its model, one per block. What co-runs later is not foreseen.
    """

    def __init__(
        self,
        device: Device,
        tables: Mapping[str, CostTable],
        contention: Contention,
        solo: Callable[[Request], Sequence[float]],
    ) -> None:
        super().__init__(device, tables, contention)
        self._own = _OwnTables(solo, device.dram_bandwidth_bytes_s)

    def table(self, request: Request) -> CostTable:
        """The costs of this one request."""
        return self._own.of(request, super().table)


class ForesightLaneEstimator(LaneEstimator):
    """The same on lanes: each request's own solo times, and overlaps as `overlap` says, which in the
    simulator may be the truth. Nothing is learnt, and bounds have no margins."""

    def __init__(
        self,
        device: Device,
        tables: Mapping[str, LaneTable],
        overlap: OverlapModel,
        solo: Callable[[Request], Sequence[float]],
    ) -> None:
        super().__init__(device, tables, overlap, learns=False, margins=False)
        self._solo = solo
        self._own = _OwnTables(solo, math.inf)

    def table(self, request: Request) -> CostTable:
        """The costs of this one request."""
        return self._own.of(request, super().table)

    def _block_s(self, request: Request, known: Known, pace: float) -> Sequence[float]:
        return [factor * block_s for factor, block_s in zip(self._solo(request), known.block_s, strict=True)]


class ForeseenTable:
    """A cost table whose times are stretched block by block; see CostTable for the attributes.

    A stretch of work that takes max(compute, bytes / B) at full bandwidth B takes that times the factor of
    its block, or the mean factor of the blocks that it fuses, as in the simulator's truth.
    """

    def __init__(self, table: CostTable, factors: Sequence[float], bandwidth_bytes_s: float) -> None:
        self._table = table
        self._sums = [0.0, *accumulate(factors)]
        self._bandwidth = bandwidth_bytes_s
        self.blocks, self.kinds = table.blocks, table.kinds
        self.most_batch = table.most_batch
        self.kept_bytes, self.unwritten_bytes = table.kept_bytes, table.unwritten_bytes
        self.serial: Sequence[Sequence[Option]] = [
            [self._foreseen(option) for option in row] for row in table.serial
        ]
        self.serial_s: Sequence[Sequence[float]] = [
            [option.seconds(bandwidth_bytes_s) for option in row] for row in self.serial
        ]
        self.best_s: Sequence[float] = [min(row) for row in self.serial_s]
        self.remaining_s: Sequence[float] = [*accumulate(reversed(self.best_s), initial=0.0)][::-1]
        self.option = lru_cache(maxsize=None)(self._option)
        self.segments = lru_cache(maxsize=None)(self._segments)

    def of_batch(self, size: int) -> CostTable:
        """The model's costs of a batch: what its requests will take together is not foreseen."""
        return self if size == 1 else self._table.of_batch(size)

    def stacks(self, block: int) -> Sequence[Option]:
        """The model's fused stacks from there on."""
        return [self._foreseen(option) for option in self._table.stacks(block)]

    def pipelines(self, block: int) -> Sequence[Option]:
        """The model's pipelines from there on."""
        return [self._foreseen(option) for option in self._table.pipelines(block)]

    def _option(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...] = (),
        band_rows: int | None = None,
    ) -> Option:
        """The cost of running that range that way. Raises ValueError saying why if it cannot be run so."""
        return self._foreseen(self._table.option(mode, first, end, kinds, cuts, band_rows))

    def _segments(self, option: Option) -> Sequence[Segment]:
        """The stretches of constant demand that an option consists of, in order."""
        known = self._table.option(
            option.mode, option.first, option.end, option.kinds, option.cuts, option.band_rows
        )
        return tuple(self._stretched(segment) for segment in self._table.segments(known))

    def _foreseen(self, option: Option) -> Option:
        """An option of the model's table as it will be. Of several segments it adds up the larger of compute
        and transfer at full bandwidth, as the table does."""
        segments = [self._stretched(segment) for segment in self._table.segments(option)]
        if len(segments) == 1:
            return replace(option, compute_s=segments[0].compute_s)
        transfers_s = (segment.dram_bytes / self._bandwidth for segment in segments)
        busy_s = (
            max(segment.compute_s, transfer_s)
            for segment, transfer_s in zip(segments, transfers_s, strict=True)
        )
        return replace(option, compute_s=sum(busy_s))

    def _stretched(self, segment: Segment) -> Segment:
        first, end = segment.first_block, segment.end_block
        factor = (self._sums[end] - self._sums[first]) / (end - first)
        busy_s = max(segment.compute_s, segment.dram_bytes / self._bandwidth)
        return replace(segment, compute_s=busy_s * factor)
