"""One layer over several cores at once: every core makes a share of the output.

Source: cost-model.md sections 2b and 3 (parallel split).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from headway.core.block import Mode, Option, Segment
from headway.cost.layer import layer_traffic, shared_pj, shared_s
from headway.cost.model import Model
from headway.cost.nest import AT
from headway.cost.shapes import Longs, Shapes
from headway.cost.units import unit_counts

Convention = Literal["multicast", "stream"]


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


def _split(model: Model, block: int, kinds: tuple[int, ...], dispatched: bool) -> tuple[Segment, float]:
    """The segment of one block and the most SRAM that one core needs.

    Shares are in proportion to the cores' speed on this block. Split by channels: weights are divided, the
    input is read once from DRAM and passed on over the link. Split by rows: the input is divided, weights are
    passed on, and so are the rows that neighbours share. Layers without weights split by rows.
    """
    shapes = model.shapes.take(np.array([block]))
    speed = [1.0 / float(model.serial.cycles_s[block, kind]) for kind in kinds]
    shares = [each / sum(speed) for each in speed]
    ways = [_by_rows(shapes, shares)]
    if shapes.macs[0] > 0 and not shapes.bounded[0]:
        ways.append(_by_channels(shapes, shares))
    device = model.device
    best: tuple[float, Segment, float] | None = None
    for parts, shared_bytes in ways:
        compute, dram, sram, energy = 0.0, 0.0, 0.0, 0.0
        priced: dict[int, tuple[float, float, float, float, float]] = {}  # cores of a kind have equal parts
        for part, kind in zip(parts, kinds, strict=True):
            if kind not in priced:
                priced[kind] = _part(model, part, kind)
            part_s, part_dram, part_sram, core_pj, memory_pj = priced[kind]
            compute = max(compute, part_s)
            dram += part_dram
            sram = max(sram, part_sram)
            energy += core_pj
            energy += memory_pj
        link = shared_bytes * (len(kinds) - 1)
        dram -= link  # every part counted what is shared; all but the first get it over the link
        compute = max(compute, shared_bytes / device.link.bandwidth_bytes_s)  # to all of them at once
        fill = float(model.serial.fill_bytes[block, kinds[0]])
        fixed, busy = model.timed(compute, dram, fill, all(model.overlaps[kind] for kind in kinds))
        energy += model.transfer_energy_pj(dram, link, kinds[0])
        segment = Segment(
            first_block=block,
            end_block=block + 1,
            fixed_s=float(fixed) + (device.dispatch_s if dispatched else 0.0),
            compute_s=float(busy),
            dram_bytes=dram,
            steps=unit_counts(shapes)[0],
            link_bytes=link,
            energy_pj=float(energy),
            macs=float(shapes.macs[0]),
        )
        time = segment.solo_s(device.dram_bandwidth_bytes_s)
        if best is None or time < best[0]:
            best = (time, segment, sram)
    assert best is not None
    return best[1], best[2]


def _part(model: Model, part: Shapes, kind: int) -> tuple[float, float, float, float, float]:
    """One core's part of a layer: seconds of compute, DRAM bytes, SRAM, energy in the core and beyond."""
    core, operand_bytes = model.cores[kind], model.device.operand_bytes
    cycles = float(part.band_cycles(core, np.ones(1, dtype=np.int64))[0])
    traffic = layer_traffic(part, core, operand_bytes)
    work = float(part.macs[0] + part.vector_ops[0])
    return (
        max(cycles / core.clock_hz, float(shared_s(part, core, operand_bytes)[0])),
        float(traffic.dram[0]),
        float(traffic.sram[0]),
        model.core_energy_pj(work, float(part.array_pj(core, operand_bytes)[0]), kind),
        float(shared_pj(part, core, operand_bytes)[0]),
    )


def _by_channels(shapes: Shapes, shares: list[float]) -> tuple[list[Shapes], float]:
    """Parts with a share of the output channels each (of the groups, if there are several)."""
    grouped = int(shapes.products[0]) > 1
    return [
        replace(
            shapes,
            N=shapes.N if grouped else np.maximum(1, np.ceil(shapes.N * share)).astype(np.int64),
            products=np.maximum(1, np.ceil(shapes.products * share)).astype(np.int64)
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
        )
        for share in shares
    ], 0.0 if grouped else float(shapes.main[0])


def _by_rows(shapes: Shapes, shares: list[float]) -> tuple[list[Shapes], float]:
    """Parts with a share of the output rows each; all need all the weights."""
    return [
        replace(
            shapes,
            M=np.maximum(1, np.ceil(shapes.M * share)).astype(np.int64),
            macs=shapes.macs * share,
            vector_ops=shapes.vector_ops * share,
            main=shapes.main * share,
            side=shapes.side * share,
            output=shapes.output * share,
            nest=_part_of_nest(shapes, "OY", share),
        )
        for share in shares
    ], float(shapes.held[0])


def _part_of_nest(shapes: Shapes, loop: str, share: float) -> Longs:
    """The loops with a share of the iterations of one of them."""
    nest = shapes.nest.copy()
    nest[:, AT[loop]] = np.maximum(1, np.ceil(nest[:, AT[loop]] * share))
    return nest
