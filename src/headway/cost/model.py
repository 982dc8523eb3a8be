"""Everything about one graph on one device that the ways of running it share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headway.core.block import Segment
from headway.core.device import Core, Device
from headway.cost.layer import SerialCosts, serial_costs, shared_s
from headway.cost.ranges import MAX_LENGTH, Ranges, ranges_of
from headway.cost.shapes import Bools, Floats, Longs, Shapes, shapes_of
from headway.cost.units import MAX_BANDS, fitting_counts, unit_counts
from headway.models.graph import Graph

# Band counts tried: enough to come within a few per cent of the best height, and few enough for tables in
# milliseconds. At most 64 bands, the resolution at which a policy preempts. A pipeline of few bands is never
# fast, so fewer are tried for it.
FUSED_COUNTS = np.array([1, 2, 3, 4, 5, 7, 8, 10, 14, 19, 28, 38, 56, MAX_BANDS], dtype=np.int64)
PIPELINE_COUNTS = np.array([1, 4, 7, 10, 14, 19, 28, 56, MAX_BANDS], dtype=np.int64)


@dataclass(frozen=True)
class Model:
    """Columns, serial costs and range facts of a graph on a device, with prefix sums over layers."""

    graph: Graph
    device: Device
    shapes: Shapes
    serial: SerialCosts
    ranges: Ranges

    @classmethod
    def of(cls, graph: Graph, device: Device) -> Model:
        """Compute them."""
        shapes = shapes_of(graph, round(device.operand_bytes * 8))
        return cls(graph, device, shapes, serial_costs(graph, shapes, device), ranges_of(graph, shapes))

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def cores(self) -> tuple[Core, ...]:
        return self.device.exemplars

    @cached_property
    def split_parts(self) -> dict[tuple[int, tuple[int, ...], bool], tuple[Segment, float]]:
        """Split blocks priced so far: block, kinds, whether dispatched there -> segment, SRAM of a core."""
        return {}

    @cached_property
    def weight_sum(self) -> Floats:
        return prefix(self.shapes.weights)

    @cached_property
    def first_weights(self) -> Floats:
        """Bytes of weights, keys and values (of one head) that must be there before the first band."""
        return self.shapes.weights + self.shapes.kept_maps / self.shapes.groups

    def band_rows(self, layer: int, bands: int) -> int:
        """Rows of a layer's output in each of so many bands."""
        return int(self.shapes.take(np.array([layer])).band_rows(np.array([bands]))[0])

    @cached_property
    def mac_sum(self) -> Floats:
        return prefix(self.shapes.macs)

    @cached_property
    def work_sum(self) -> Floats:
        return prefix(self.shapes.macs + self.shapes.vector_ops)

    @cached_property
    def array_pj_sum(self) -> Floats:
        return prefix(self.serial.array_pj)

    @cached_property
    def serial_dram_sum(self) -> Floats:
        """Prefix sums of traffic with inputs and outputs kept in SRAM where they fit, per kind."""
        return prefix(self.serial.dram - self.serial.kept - self.serial.unwritten)

    def serial_dram(self, first: Longs, end: Longs, kind: int | Longs) -> Any:
        """DRAM bytes of ranges run one layer after the other on one core, outputs kept where they fit."""
        total = self.serial_dram_sum[end, kind] - self.serial_dram_sum[first, kind]
        return total + self.serial.kept[first, kind] + self.serial.unwritten[end - 1, kind]

    @cached_property
    def mac_pj(self) -> Floats:
        """Energy of one multiply-accumulate, per kind."""
        return np.array([core.mac_energy_pj for core in self.cores])

    @cached_property
    def sram_pj(self) -> Floats:
        """Energy of one byte read from or written to SRAM, per kind."""
        return np.array([core.sram_energy_pj_per_byte for core in self.cores])

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Into how many units each layer is cut (`unit_counts`)."""
        return unit_counts(self.shapes)

    @cached_property
    def capacity(self) -> Floats:
        """SRAM bytes, per kind."""
        return np.array([float(core.sram_bytes) for core in self.cores])

    @cached_property
    def overlaps(self) -> Bools:
        """Whether transfers run beside compute, per kind."""
        return np.array([core.double_buffered for core in self.cores])

    def core_energy_pj(self, work: Any, array_pj: Any, kind: Any) -> Any:
        """Energy inside the cores; an elementary operation counts as one multiply-accumulate."""
        return work * self.mac_pj[kind] + array_pj

    def transfer_energy_pj(self, dram_bytes: Any, link_bytes: Any, kind: Any) -> Any:
        """Energy of what crosses the memory interface, and the core's SRAM behind it, and the link."""
        dram_pj = self.device.dram_energy_pj_per_byte + self.sram_pj[kind]
        return dram_bytes * dram_pj + link_bytes * self.device.link.energy_pj_per_byte

    def timed(self, compute_s: Any, dram_bytes: Any, fill_bytes: Any, overlaps: Any) -> tuple[Any, Any]:
        """(fixed_s, compute_s) so that fixed_s + max(compute_s, dram_bytes / B) is the time at full
        bandwidth B.

        A core that double-buffers takes max(fill + compute, dram / B): the first tile must be there before it
        starts, and the rest overlaps (cost-model.md section 3). The fill is part of the traffic, so where
        traffic is the limit it is not paid twice: fixed_s shrinks. Without double buffering nothing overlaps:
        compute + dram / B.
        """
        transfer_s = dram_bytes / self.device.dram_bandwidth_bytes_s
        fill_s = fill_bytes / self.device.dram_bandwidth_bytes_s
        fixed_s = np.clip(fill_s + compute_s - transfer_s, 0.0, fill_s)
        return np.where(overlaps, fixed_s, 0.0), np.where(overlaps, compute_s, compute_s + transfer_s)

    @cached_property
    def bands(self) -> Bands:
        """Tables for all band counts up to MAX_BANDS: column n - 1 is for n bands."""
        return bands_of(self, np.arange(1, MAX_BANDS + 1))

    def columns_of(self, counts: Longs, last: Longs) -> Longs:
        """[stack, choice]: columns of `bands` nearest to these counts, for stacks that end with those layers.

        Ascending band counts that some band height of the last layer gives; repeated where its map is small.
        """
        rows, groups = self.shapes.rows[last][:, None], self.shapes.groups[last][:, None]
        columns: Longs = fitting_counts(rows, groups, counts) - 1
        return columns


@dataclass(frozen=True, slots=True)
class Bands:
    """What each layer needs when its map is cut into bands. Arrays are [layer, count] or prefix sums of that.

    `lag_sum` adds up ceil((kernel - stride - pad) / (band * stride)) (cost-model.md section 3).
    Each of `counts` bands makes ceil(rows / count) output rows of every layer: the back-propagated
    strides where maps divide evenly.
    """

    counts: Longs
    input_sum: Floats  # input buffers with cached halo, side operands and kept maps (keys, values) included
    fresh: Floats  # new rows of the main input per band
    output: Floats
    lag_sum: Floats  # bands of the producer that a layer needs beyond its own band
    cycles_s_sum: Floats  # [layer, count, kind]


def bands_of(model: Model, counts: Longs) -> Bands:
    """Band tables for some band counts."""
    shapes = model.shapes
    height = shapes.band_rows(counts[:, None]).T
    new_rows = np.minimum(shapes.main_rows[:, None], np.ceil(height * shapes.stride[:, None]))
    buffer_rows = np.minimum(shapes.main_rows[:, None], new_rows + shapes.line_rows[:, None])
    buffers = buffer_rows * shapes.main_row_bytes[:, None] + height * shapes.side_row_bytes[:, None]
    buffers = buffers + (shapes.kept_maps * shapes.kept_rows(counts[:, None])).T
    ahead = np.maximum(0.0, shapes.kernel - shapes.stride - shapes.pad)[:, None]
    # A level that cores share is passed in bands as in whole layers: its port takes no less.
    cycles = [
        np.maximum(
            shapes.band_cycles(core, counts[:, None]).T / core.clock_hz,
            shared_s(shapes, core, model.device.operand_bytes)[:, None],
        )
        for core in model.cores
    ]
    return Bands(
        counts=counts,
        input_sum=prefix(buffers),
        fresh=new_rows * shapes.main_row_bytes[:, None],
        output=height * shapes.output_row_bytes[:, None],
        lag_sum=prefix(np.ceil(ahead / (height * shapes.stride[:, None]))),
        cycles_s_sum=prefix(np.stack(cycles, axis=2)),
    )


def bands_asked(model: Model, counts: Longs, last: int, band_rows: int | None) -> tuple[Bands, Longs]:
    """Tables and their columns [1, choice] for one stack: the counts to try, or the one height asked for."""
    if band_rows is None:
        return model.bands, model.columns_of(counts, np.array([last]))
    rows, groups = int(model.shapes.rows[last]), int(model.shapes.groups[last])
    each, band_rows = rows // groups, min(band_rows, rows)
    if band_rows < each:
        count = groups * -(-each // band_rows)
    else:
        count = -(-groups // (band_rows // each))
    if count <= MAX_BANDS:
        return model.bands, np.array([[count - 1]])
    return bands_of(model, np.array([count])), np.zeros((1, 1), dtype=np.int64)


def prefix(values: Floats) -> Floats:
    """Sums of the first n entries along axis 0, for n = 0 .. len."""
    total = np.zeros((values.shape[0] + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=total[1:])
    return total


def widest(values: Floats, first: Longs, length: Longs, columns: Longs) -> Floats:
    """The largest of values[layer, column] over the layers of each range; arrays as in `columns`."""
    top = values[first, columns]
    for offset in range(1, MAX_LENGTH):
        here = np.minimum(first + np.minimum(offset, length - 1), len(values) - 1)
        np.maximum(top, values[here, columns], out=top)
    return top
