"""Halo recomputed in every band instead of kept between bands: the second choice where SRAM is tight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.layer import shared_s
from headway.cost.model import Model
from headway.cost.operands import streamed
from headway.cost.ranges import MAX_LENGTH


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Stacks with recomputed halo, an entry per stack and band count: SRAM need and share of extra work.

    `rows[offset]` are the rows that each layer makes per band.
    """

    first: Longs
    length: Longs
    counts: Longs
    sram: Floats
    extra: Floats
    rows: tuple[Longs, ...]

    def added_s(self, model: Model, kind: int, chosen: Bools) -> Floats:
        """Seconds beyond those with cached halo, of the chosen entries.

        Rows that are made again pass a level that cores share again.
        """
        first, length, counts = self.first[chosen], self.length[chosen], self.counts[chosen]
        core = model.cores[kind]
        added = np.zeros(len(first))
        for offset in range(int(length.max(initial=0))):
            here = np.minimum(first + offset, len(model) - 1)
            height = model.shapes.take(here).band_rows(counts)
            rows = self.rows[offset][chosen]
            overlaps = np.flatnonzero((offset < length) & (rows > height))
            if not len(overlaps):
                continue
            layer, bands = model.shapes.take(here[overlaps]), counts[overlaps]
            made, new = rows[overlaps], height[overlaps]
            port_s = shared_s(layer, core, model.device.operand_bytes)
            times = layer.overlapping_rows(made, new, bands) / layer.rows
            again = np.maximum(
                layer.overlapping_cycles(core, made, new, bands) / core.clock_hz, port_s * times
            )
            once = np.maximum(layer.band_cycles(core, bands) / core.clock_hz, port_s)
            added[overlaps] += np.maximum(0.0, again - once)
        return added


def recomputed(model: Model, first: Longs, length: Longs, counts: Longs, prefetch: Floats) -> Recomputed:
    """Every band back-propagates (r - 1) * s + k rows from the last layer.

    Nothing but the first input's halo stays between bands, so layers take turns in the buffers:
    the need is the weights, the largest input and output band of one layer, and tensors that skip layers.
    """
    shapes = model.shapes
    rows = _back_propagated(model, first, length, counts)
    halo = np.minimum(shapes.main_rows, shapes.line_rows) * shapes.main_row_bytes
    sram = model.weight_sum[first + length] - model.weight_sum[first] + prefetch + halo[first]
    turn = np.zeros(len(first))
    redone = np.zeros(len(first))
    for offset in range(int(length.max())):
        inside = offset < length
        here = np.minimum(first + offset, len(shapes) - 1)
        layer = shapes.take(here)
        window = np.minimum(layer.main_rows, np.ceil((rows[offset] - 1) * layer.stride) + layer.kernel)
        buffers = window * layer.main_row_bytes + rows[offset] * (
            layer.side_row_bytes + layer.output_row_bytes
        )
        buffers = buffers + layer.kept_maps * layer.kept_rows(counts)
        turn = np.where(inside, np.maximum(turn, buffers), turn)
        sram += np.where(inside, model.ranges.side[first, offset] * rows[offset] / layer.rows, 0.0)
        again = (counts - 1) * np.maximum(0, rows[offset] - layer.band_rows(counts)) / layer.rows
        redone += np.where(inside, again * (layer.macs + layer.vector_ops), 0.0)
    work = model.work_sum[first + length] - model.work_sum[first]
    extra = redone / np.maximum(work, 1.0)
    return Recomputed(first, length, counts, sram + turn, extra, tuple(rows))


def _back_propagated(model: Model, first: Longs, length: Longs, counts: Longs) -> list[Longs]:
    """Rows that each layer of the stacks makes per band so that its readers have their whole window."""
    shapes = model.shapes
    by_main, by_side = _reader_tables(model)
    longest = int(length.max())
    rows: list[Longs] = [np.zeros(0, dtype=np.int64)] * longest
    for offset in reversed(range(longest)):
        here = np.minimum(first + offset, len(shapes) - 1)
        made = shapes.take(here).band_rows(counts)
        for later in range(offset + 1, longest):
            reader = np.minimum(first + later, len(shapes) - 1)
            window = np.ceil((rows[later] - 1) * shapes.stride[reader]).astype(np.int64) + shapes.kernel[
                reader
            ].astype(np.int64)
            asked = np.where(
                by_main[here, later - offset], window, np.where(by_side[here, later - offset], rows[later], 0)
            )
            made = np.where(later < length, np.maximum(made, asked), made)
        rows[offset] = np.minimum(made, shapes.rows[here])
    return rows


def _reader_tables(model: Model) -> tuple[Bools, Bools]:
    """[producer, distance]: is it read that far on through a window; is it read there row by row?"""
    tables = np.zeros((2, len(model), MAX_LENGTH), dtype=bool)
    for layer in model.graph.layers:
        window = streamed(layer)
        for position, operand in enumerate(layer.operands):
            if operand.producer is not None and layer.index - operand.producer < MAX_LENGTH:
                tables[0 if position in window else 1, operand.producer, layer.index - operand.producer] = (
                    True
                )
    return tables[0], tables[1]
