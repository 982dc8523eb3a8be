"""One layer over several cores at once: every core makes a share of the output.

Source: cost-model.md sections 2b and 3 (parallel split).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np

from headway.core.block import Mode, Option, Segment
from headway.cost.layer import layer_traffic, shared_pj, shared_s, touched_share
from headway.cost.model import Model
from headway.cost.nest import AT
from headway.cost.shapes import Floats, Longs, Shapes
from headway.cost.units import unit_counts

Convention = Literal["multicast", "stream"]

# Steps in which a layer is shared out among cores of two types, and of more: shares are a few per cent from
# the best, and there are at most a few hundred to try.
_STEPS_OF_TWO = 24
_STEPS_OF_MORE = 12


def split_dram_bits(
    input_bits: float,
    weight_bits: float,
    output_bits: float,
    cores: int,
    convention: Convention = "multicast",
) -> float:
    """DRAM bits of one layer whose output channels are spread over cores, all tensors crossing once.

    By default the input is read once and passed on over the link. `convention="stream"` copies Stream,
    where every core reads the whole input (33,292,288 bits for its four-layer chain on four cores).
    """
    if convention == "stream":
        return cores * input_bits + weight_bits + output_bits
    if convention == "multicast":
        return input_bits + weight_bits + output_bits
    raise ValueError(f'convention is "multicast" or "stream", not {convention!r}')


def split_segments(model: Model, first: int, end: int, kinds: tuple[int, ...]) -> tuple[Segment, ...]:
    """One segment per block, each split the faster way: output channels or output rows."""
    return tuple(part for part, _ in _parts(model, first, end, kinds))


def split_option(model: Model, first: int, end: int, kinds: tuple[int, ...]) -> Option:
    """Blocks one after the other, each over all the cores, outputs through DRAM."""
    parts = _parts(model, first, end, kinds)
    segments = [segment for segment, _ in parts]
    bandwidth = model.device.dram_bandwidth_bytes_s
    busy = segments[0].compute_s
    if len(segments) > 1:
        busy = sum(max(segment.compute_s, segment.dram_bytes / bandwidth) for segment in segments)
    return Option(
        mode=Mode.SPLIT,
        first=first,
        end=end,
        kinds=kinds,
        cuts=(),
        band_rows=None,
        steps=sum(segment.steps for segment in segments),
        fixed_s=sum(segment.fixed_s for segment in segments),
        compute_s=busy,
        dram_bytes=sum(segment.dram_bytes for segment in segments),
        link_bytes=sum(segment.link_bytes for segment in segments),
        sram_bytes=max(sram for _, sram in parts),
        energy_pj=sum(segment.energy_pj for segment in segments),
        macs=sum(segment.macs for segment in segments),
        serial_dram_bytes=float(model.serial_dram(np.array([first]), np.array([end]), kinds[0])[0]),
    )


def _parts(model: Model, first: int, end: int, kinds: tuple[int, ...]) -> list[tuple[Segment, float]]:
    """Segment and SRAM of each block. Ranges overlap, so that each block is priced once and kept."""
    known, parts = model.split_parts, []
    for block in range(first, end):
        at = (block, kinds, block == first)
        if at not in known:
            known[at] = _split(model, block, kinds, dispatched=block == first)
        parts.append(known[at])
    return parts


@lru_cache(maxsize=256)
def _shares(kinds: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], Floats]:
    """The types of core among these, how many there are of each, and [choice, type]: shares of one core.

    Cores of a type have equal shares. Which shares are tried must not depend on how fast the cores are: the
    best of a fixed choice is never slower on a better machine, shares in proportion to speed can be.
    """
    counts = Counter(kinds)
    types = tuple(sorted(counts))
    steps = max(len(types), _STEPS_OF_TWO if len(types) == 2 else _STEPS_OF_MORE)
    cuts = np.array(list(combinations(range(1, steps), len(types) - 1)), dtype=np.int64)
    bounds = np.concatenate((np.zeros((len(cuts), 1)), cuts, np.full((len(cuts), 1), steps)), axis=1)
    each = np.array([counts[kind] for kind in types])
    return types, tuple(each.tolist()), np.diff(bounds, axis=1) / steps / each


@dataclass(frozen=True, slots=True)
class _Way:
    """One layer with all choices of shares, cut along one loop: arrays with an entry per choice."""

    compute_s: Floats
    dram: Floats
    sram: Floats
    energy_pj: Floats  # without what crosses the memory interface and the link
    link: float


def _split(model: Model, block: int, kinds: tuple[int, ...], dispatched: bool) -> tuple[Segment, float]:
    """The segment of one block and the most SRAM that one core needs: the fastest of all ways and shares.

    Split by channels: weights are divided, the input is read once from DRAM and passed on over the link.
    Split by rows: the input is divided, weights are passed on, and so are the rows that neighbours share.
    Layers without weights split by rows. Of equally fast ones the one that moves less.
    """
    shapes, device = model.shapes.take(np.array([block])), model.device
    ways = [_way(model, shapes, kinds, by_channels=False)]
    if shapes.macs[0] > 0 and not shapes.bounded[0]:
        ways.append(_way(model, shapes, kinds, by_channels=True))
    fill, overlaps = model.serial.fill_bytes[block, kinds[0]], all(model.overlaps[kind] for kind in kinds)
    best: tuple[float, float, Segment, float] | None = None
    for way in ways:
        fixed, busy = model.timed(way.compute_s, way.dram, fill, overlaps)
        time = fixed + np.maximum(busy, way.dram / device.dram_bandwidth_bytes_s)
        at = int(np.lexsort((way.dram, time))[0])
        if best is not None and best[:2] <= (float(time[at]), float(way.dram[at])):
            continue
        segment = Segment(
            first_block=block,
            end_block=block + 1,
            fixed_s=float(fixed[at]) + (device.dispatch_s if dispatched else 0.0),
            compute_s=float(busy[at]),
            dram_bytes=float(way.dram[at]),
            steps=unit_counts(shapes)[0],
            link_bytes=way.link,
            energy_pj=float(way.energy_pj[at] + model.transfer_energy_pj(way.dram[at], way.link, kinds[0])),
            macs=float(shapes.macs[0]),
        )
        best = (float(time[at]), float(way.dram[at]), segment, float(way.sram[at]))
    assert best is not None
    return best[2], best[3]


def _way(model: Model, shapes: Shapes, kinds: tuple[int, ...], by_channels: bool) -> _Way:
    """What all choices of shares of one layer cost."""
    types, counts, shares = _shares(kinds)
    device, one = model.device, np.ones(1, dtype=np.int64)
    compute, dram, sram, energy = np.zeros((4, len(shares)))
    shared_bytes = 0.0
    for column, (kind, count) in enumerate(zip(types, counts, strict=True)):
        core = model.cores[kind]
        share, where = np.unique(shares[:, column], return_inverse=True)
        whole = shapes.take(np.zeros(len(share), dtype=np.int64))
        part, shared_bytes = (_by_channels if by_channels else _by_rows)(whole, share)
        seconds = part.band_cycles(core, one) / core.clock_hz
        seconds = np.maximum(seconds, shared_s(part, core, device.operand_bytes))
        traffic = layer_traffic(part, core, device.operand_bytes)
        work = part.macs + part.vector_ops
        spent = model.core_energy_pj(work, part.array_pj(core, device.operand_bytes), kind)
        spent = spent + shared_pj(part, core, device.operand_bytes)
        compute = np.maximum(compute, seconds[where])
        sram = np.maximum(sram, traffic.sram[where])
        dram = dram + count * traffic.dram[where]
        energy = energy + count * spent[where]
    link = shared_bytes * (len(kinds) - 1)
    compute = np.maximum(compute, shared_bytes / device.link.bandwidth_bytes_s)  # to all of them at once
    # Every part counted what is shared; all but the first get it over the link.
    return _Way(compute, dram - link, sram, energy, link)


def _by_channels(shapes: Shapes, share: Floats) -> tuple[Shapes, float]:
    """Parts with these shares of the output channels (of the groups, if there are several) of a layer that
    is repeated for each of them, and the bytes that all parts read.
    """
    grouped = int(shapes.products[0]) > 1
    return replace(
        shapes,
        N=shapes.N if grouped else np.maximum(1, np.ceil(shapes.N * share - 1e-9)).astype(np.int64),
        products=np.maximum(1, np.ceil(shapes.products * share - 1e-9)).astype(np.int64)
        if grouped
        else shapes.products,
        macs=shapes.macs * share,
        vector_ops=shapes.vector_ops * share,
        weights=shapes.weights * share,
        held=shapes.held * share,
        main=shapes.main * share if grouped else shapes.main,
        side=shapes.side * share,
        output=shapes.output * share,
        nest=_part_of_nest(shapes, "G" if grouped else "K", share),
    ), 0.0 if grouped else float(shapes.main[0] * touched_share(shapes)[0])


def _by_rows(shapes: Shapes, share: Floats) -> tuple[Shapes, float]:
    """Parts with these shares of the output rows of a layer that is repeated for each of them, and the bytes
    that all parts read: the weights.
    """
    return replace(
        shapes,
        M=np.maximum(1, np.ceil(shapes.M * share - 1e-9)).astype(np.int64),
        macs=shapes.macs * share,
        vector_ops=shapes.vector_ops * share,
        main=shapes.main * share,
        side=shapes.side * share,
        output=shapes.output * share,
        nest=_part_of_nest(shapes, "OY", share),
    ), float(shapes.held[0])


def _part_of_nest(shapes: Shapes, loop: str, share: Floats) -> Longs:
    """The loops with a share of the iterations of one of them."""
    nest = shapes.nest.copy()
    nest[:, AT[loop]] = np.maximum(1, np.ceil(nest[:, AT[loop]] * share - 1e-9))
    return nest
