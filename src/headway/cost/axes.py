"""The axes along which stacks of a model are cut into bands, and what the stacks cost along them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headway.core.block import Option
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.columns import along_columns, has_wide_maps
from headway.cost.cuts import pipelines_of
from headway.cost.fused import Stacks, fused_option, fused_stacks, within
from headway.cost.model import FUSED_COUNTS, Model, bands_asked, widest
from headway.cost.nest import AT
from headway.cost.pipeline import Pipelines, pipeline_at, pipeline_options
from headway.cost.ranges import ranges_of
from headway.cost.shapes import shapes_of


@dataclass(frozen=True)
class Axis:
    """The stacks that are cut along one axis. `covers[first, length]` says which they are."""

    name: str
    model: Model
    covers: Bools
    stacks: tuple[Stacks, ...]  # per core type
    fastest: tuple[
        Longs, ...
    ]  # per core type and stack the choice of band count, the larger band among equals
    pipelines: Pipelines

    @classmethod
    def of(cls, name: str, model: Model, covers: Bools) -> Axis:
        """Price all these stacks, in all band counts tried, on all core types."""
        first, length = np.nonzero(covers)
        columns = model.columns_of(FUSED_COUNTS, first + length - 1)
        stacks = tuple(
            fused_stacks(model, first, length, kind, model.bands, columns) for kind in range(len(model.cores))
        )
        fastest = tuple(np.argmin(each.time_s, axis=1) for each in stacks)
        pipelines = pipelines_of(model, *np.nonzero(covers & model.ranges.fusable))
        return cls(name, model, covers, stacks, fastest, pipelines)

    def fused(self, block: int) -> list[Option]:
        """Stacks on one core that start there, fit, and move fewer bytes than their serial run."""
        found = []
        for stacks, best in zip(self.stacks, self.fastest, strict=True):
            for row in np.flatnonzero(stacks.first == block):
                column = int(best[row])
                fits = np.isfinite(stacks.time_s[row, column])
                if fits and stacks.dram[row, column] < stacks.serial_dram[row]:
                    found.append(self._named(fused_option(self.model, stacks, int(row), column)))
        return found

    def pipelined(self, block: int) -> list[Option]:
        """Pipelines that start there, without those that another of the same length makes pointless."""
        return [self._named(option) for option in pipeline_options(self.model, self.pipelines, block)]

    def fused_at(self, first: int, end: int, kind: int, band: int | None) -> Option:
        """One stack in that band height, or the fastest. Raises ValueError if it does not fit."""
        bands, columns = bands_asked(self.model, FUSED_COUNTS, end - 1, band)
        stacks = fused_stacks(self.model, np.array([first]), np.array([end - first]), kind, bands, columns)
        column = int(np.argmin(stacks.time_s[0]))
        if not np.isfinite(stacks.time_s[0, column]):
            core = self.model.cores[kind]
            where = f"blocks {first} to {end} of {self.model.graph.name}"
            raise ValueError(
                f"{where} cannot be fused on {core.kind}: in bands of {band or 'any'} {self.name} they need "
                f"{stacks.sram[0].min():.0f} bytes of SRAM, it has {core.sram_bytes}"
            )
        return self._named(fused_option(self.model, stacks, 0, column))

    def pipelined_at(
        self, first: int, end: int, kinds: tuple[int, ...], cuts: tuple[int, ...], band: int | None
    ) -> Option:
        """One pipeline; without cuts the best of all. Raises ValueError if it does not fit."""
        return self._named(pipeline_at(self.model, first, end, kinds, cuts, band))

    def _named(self, option: Option) -> Option:
        return option if self.name == option.axis else replace(option, axis=self.name)


def axes_of(model: Model) -> tuple[Axis, ...]:
    """Rows, and columns for stacks that need less SRAM in narrow bands of those.

    Which axis a stack is cut along depends on its maps alone, so that it is the same on all devices.
    """
    everything = model.ranges.joined
    if not has_wide_maps(model.graph):
        return (Axis.of("rows", model, everything),)
    along = along_columns(model.graph)
    shapes = shapes_of(along, round(model.device.operand_bytes * 8))
    shapes = replace(shapes, cut=np.full(len(shapes), AT["OX"], dtype=np.int64))
    other = Model(along, model.device, shapes, model.serial, ranges_of(along, shapes))
    better = other.ranges.fusable & (_least_buffers(other) < _least_buffers(model))
    axes = (Axis.of("rows", model, everything & ~better), Axis.of("columns", other, better))
    return axes if better.any() else axes[:1]


def _least_buffers(model: Model) -> Floats:
    """[first, length]: bytes of maps in the lowest bands, infinite where there are no bands."""
    fusable = model.ranges.fusable
    first, length = np.nonzero(fusable)
    most = model.columns_of(FUSED_COUNTS[-1:], first + length - 1)
    begin, end = first[:, None], (first + length)[:, None]
    need = model.bands.input_sum[end, most] - model.bands.input_sum[begin, most]
    need = need + widest(model.bands.output, begin, length[:, None], most)
    least = np.full(fusable.shape, np.inf)
    least[first, length] = need[:, 0] + within(model.ranges.waiting, first, length)
    return least
