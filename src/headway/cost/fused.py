"""Single-core fusion: row bands go depth first through a whole stack of layers on one core.

Sources: cost-model.md section 3 (DeFiNES' overlap modes, Stream's stored halo) and accelerators.md section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.core.block import Mode, Option
from headway.cost.layer import touched_share
from headway.cost.model import Bands, Model, prefix, widest
from headway.cost.ranges import MAX_LENGTH
from headway.cost.recompute import recomputed
from headway.cost.shapes import Floats, Longs
from headway.cost.units import MAX_BANDS

Overlap = Literal["cached", "recomputed"]
RECOMPUTE_LIMIT = 0.10  # extra work that recomputing the halo may cost (accelerators.md section 5.4)
WEIGHTS_IN_FLIGHT = 1 / 8  # of the heaviest layer's: two of sixteen blocks, where weights pass through


def input_buffer_rows(
    kernels: Sequence[int],
    strides: Sequence[int],
    heights: Sequence[int],
    band: int,
    overlap: Overlap = "cached",
) -> tuple[int, ...]:
    """Input rows that each layer of a chain buffers, for bands of `band` rows of the last layer's output.

    `heights` are the rows of each layer's input map. Cached halo: a layer makes r rows per band and buffers
    r * s + max(0, k - s) input rows, and its producer makes r * s rows. Recomputed halo: both are (r - 1) *
    s + k rows. Both are clipped to the map.
    """
    rows: list[int] = []
    made = band
    for kernel, stride, height in reversed(list(zip(kernels, strides, heights, strict=True))):
        if overlap == "cached":
            buffered, made = made * stride + max(0, kernel - stride), made * stride
        else:
            buffered = made = (made - 1) * stride + kernel
        rows.append(min(height, buffered))
        made = min(height, made)
    return tuple(reversed(rows))


@dataclass(frozen=True, slots=True)
class Stacks:
    """Costs of stacks in some band heights on one core type: arrays [stack, choice].

    `time_s` is inf where the stack does not fit that way. `extra` is the share of work that is done twice (0
    with cached halo), `streamed` the bytes of weights fetched again for every band after the first.
    """

    first: Longs  # [stack]
    length: Longs  # [stack]
    kind: int
    counts: Longs
    fixed_s: Floats
    compute_s: Floats
    time_s: Floats
    dram: Floats
    sram: Floats
    energy_pj: Floats
    extra: Floats
    streamed: Floats
    spill: Floats
    serial_dram: Floats  # [stack]


def fused_stacks(
    model: Model, first: Longs, length: Longs, kind: int, bands: Bands, columns: Longs
) -> Stacks:
    """Costs of the stacks first .. first + length - 1 in the band counts bands.counts[columns].

    SRAM need with cached halo: weights, input buffers of all layers, the largest output band, the next band
    of the stack's input (if double-buffered), and tensors that skip layers. Where that does not fit, the halo
    is recomputed if that fits and costs at most 10 % more work; else weights that do not fit are streamed in
    every band: where nothing else fits, in the count that needs least, and if that is less than what fusion
    saves. (With another rule, more SRAM or bandwidth could choose more traffic, or a slower run.) One band is
    the layers one after the other with all maps in between, skipping ones too, in SRAM; it alone crosses
    barriers, and can stop between units of a layer. Weights that do not fit beside those pass through, and
    then cannot be fetched ahead.
    """
    core, device, ranges = model.cores[kind], model.device, model.ranges
    begin, end, counts = first[:, None], (first + length)[:, None], bands.counts[columns]
    one = counts == 1
    weights = model.weight_sum[end] - model.weight_sum[begin]
    waiting = within(ranges.waiting, first, length)[:, None]
    prefetch = bands.fresh[begin, columns] * core.double_buffered
    buffers = bands.input_sum[end, columns] - bands.input_sum[begin, columns]
    buffers = buffers + widest(bands.output, begin, length[:, None], columns) + prefetch + waiting
    passing = WEIGHTS_IN_FLIGHT * heaviest(model.shapes.weights, first, length)[:, None]
    live = ranges.live[first, length][:, None]
    need = np.where(one, live, buffers) + weights
    capacity = float(core.sram_bytes)
    once = model.weight_sum[end] - model.weight_sum[begin]
    once = once + (ranges.read[first, 0, length] + ranges.written[first, length])[:, None]
    compute = bands.cycles_s_sum[end, columns, kind] - bands.cycles_s_sum[begin, columns, kind]
    extra = np.zeros_like(need)
    streamed = np.zeros_like(need)
    spill = np.where(one, live, line_bytes(model, first, length)[:, None] + waiting)

    if (passes := one & (need > capacity)).any():
        need = np.where(passes, live + passing, need)
        compute = np.where(passes, _layer_by_layer(model, first, length, kind)[:, None], compute)
    banded = ranges.fusable[first, length][:, None] & ~one
    if (tight := (need > capacity) & banded).any():
        stack, choice = np.nonzero(tight)
        redone = recomputed(model, first[stack], length[stack], counts[tight], prefetch[tight])
        little = redone.extra <= RECOMPUTE_LIMIT
        fits = (redone.sram <= capacity) & little
        cached = np.where(banded, need, np.inf)
        least = np.min(cached, axis=1)
        instead = np.zeros(len(first), dtype=bool)
        np.logical_or.at(instead, stack, little & (redone.sram < least[stack]))
        use = (stack[fits], choice[fits])
        need[use], extra[use], spill[use] = redone.sram[fits], redone.extra[fits], 0.0
        compute[use] += redone.added_s(model, kind, fits)
        starved = (np.where(banded | one, need, np.inf) > capacity).all(axis=1)
        chosen = banded & (cached == least[:, None]) & (starved & ~instead)[:, None]
        resident = capacity - buffers - np.minimum(passing, weights)
        again = np.maximum(0.0, weights - resident) * (counts - 1)
        saved = _once_each(model, first, length)[:, None] - once
        stream = chosen & (resident >= 0) & (again < saved)
        need = np.where(stream, capacity, need)
        streamed = np.where(stream, again, 0.0)

    dram = once + streamed
    compute = compute + counts * device.switch_s
    window = first_window(model, bands, begin, columns)
    fill = np.where(one, model.serial.fill_bytes[begin, kind], model.first_weights[begin] + window)
    fixed, compute = model.timed(compute, dram, fill, core.double_buffered)
    time = fixed + np.maximum(compute, dram / device.dram_bandwidth_bytes_s)
    work = (model.work_sum[end] - model.work_sum[begin]) * (1 + extra)
    array_pj = (model.array_pj_sum[end, kind] - model.array_pj_sum[begin, kind]) * (1 + extra)
    return Stacks(
        first=first,
        length=length,
        kind=kind,
        counts=counts,
        fixed_s=fixed,
        compute_s=compute,
        time_s=np.where((need <= capacity) & (banded | one), time, np.inf),
        dram=dram,
        sram=need,
        energy_pj=model.core_energy_pj(work, array_pj, kind) + model.transfer_energy_pj(dram, 0.0, kind),
        extra=extra,
        streamed=streamed,
        spill=spill,
        serial_dram=model.serial_dram(first, first + length, kind),
    )


def _layer_by_layer(model: Model, first: Longs, length: Longs, kind: int) -> Floats:
    """Seconds of layers that run one after the other, each as long as it computes or reads from DRAM."""
    ranges, bandwidth = model.ranges, model.device.dram_bandwidth_bytes_s
    total = np.zeros(len(first))
    for offset in range(int(length.max(initial=0))):
        here = np.minimum(first + offset, len(model) - 1)
        moved = model.shapes.weights[here] + ranges.read[first, 0, offset + 1] - ranges.read[first, 0, offset]
        moved = moved + np.where(ranges.last_use[here] >= first + length, model.shapes.output[here], 0.0)
        slower = np.maximum(model.serial.cycles_s[here, kind], moved / bandwidth)
        total += np.where(offset < length, slower, 0.0)
    return total


def _once_each(model: Model, first: Longs, length: Longs) -> Floats:
    """DRAM bytes of the layers by themselves if each tensor that one reads or writes crosses once."""
    total = prefix(model.shapes.traffic_once)
    once: Floats = total[first + length] - total[first]
    return once


def fused_option(model: Model, stacks: Stacks, row: int, column: int) -> Option:
    """One of the stacks in one of its band counts, as what a table offers."""
    first, length = int(stacks.first[row]), int(stacks.length[row])
    count = int(stacks.counts[row, column])
    units = sum(model.units[first : first + length])
    extra = float(stacks.extra[row, column])
    return Option(
        mode=Mode.FUSED,
        first=first,
        end=first + length,
        kinds=(stacks.kind,),
        cuts=(),
        band_rows=model.band_rows(first + length - 1, count),
        steps=count if count > 1 else min(MAX_BANDS, units),
        fixed_s=float(stacks.fixed_s[row, column]) + model.device.dispatch_s,
        compute_s=float(stacks.compute_s[row, column]),
        dram_bytes=float(stacks.dram[row, column]),
        link_bytes=0.0,
        sram_bytes=float(stacks.sram[row, column]),
        energy_pj=float(stacks.energy_pj[row, column]),
        macs=float(model.mac_sum[first + length] - model.mac_sum[first]) * (1 + extra),
        serial_dram_bytes=float(stacks.serial_dram[row]),
        spill_bytes=float(stacks.spill[row, column]),
    )


def first_window(model: Model, bands: Bands, first: Longs, columns: Longs) -> Floats:
    """[stack, choice]: bytes of a stack's input that must be there before its first band."""
    rows = np.minimum(model.shapes.main[first], bands.fresh[first, columns] + halo_bytes(model)[first])
    window: Floats = rows * touched_share(model.shapes)[first]
    return window


def halo_bytes(model: Model) -> Floats:
    shapes = model.shapes
    return np.minimum(shapes.main_rows, shapes.line_rows) * shapes.main_row_bytes


def line_bytes(model: Model, first: Longs, length: Longs) -> Floats:
    """Halo lines of internal maps, alive at a band boundary; those of the stack's input can be read again."""
    halo = np.concatenate(([0.0], np.cumsum(halo_bytes(model))))
    lines: Floats = halo[first + length] - halo[first + 1]
    return lines


def within(values: Floats, first: Longs, length: Longs) -> Floats:
    """Sum of [first, offset] over the offsets inside each range."""
    total = np.concatenate((np.zeros((len(values), 1)), np.cumsum(values, axis=1)), axis=1)
    inside: Floats = total[first, length]
    return inside


def heaviest(values: Floats, first: Longs, length: Longs) -> Floats:
    """The largest value of a layer of each range."""
    most = values[first]
    for offset in range(1, MAX_LENGTH):
        most = np.maximum(most, values[first + np.minimum(offset, length - 1)])
    return most
