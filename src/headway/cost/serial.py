"""Layer by layer on one core: the costs of a block before and after others, and of ranges of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.block import Mode, Option, Segment
from headway.cost.model import Model
from headway.cost.shapes import Floats


@dataclass(frozen=True, slots=True)
class SerialRuns:
    """Costs of each block in its four surroundings: arrays [input kept, output unwritten, block, kind]."""

    fixed_s: Floats
    compute_s: Floats
    busy_s: Floats  # the larger of compute_s and transfer at full bandwidth
    dram: Floats
    energy_pj: Floats
    steps: tuple[int, ...]  # per block

    @property
    def cold_s(self) -> Floats:
        """[block, kind]: seconds of a block by itself, without dispatch."""
        cold: Floats = self.fixed_s[0, 0] + self.busy_s[0, 0]
        return cold


def serial_runs(model: Model) -> SerialRuns:
    """Costs of all blocks on all core types."""
    costs, shapes = model.serial, model.shapes
    kinds = np.arange(len(model.cores))
    inside_pj = model.core_energy_pj((shapes.macs + shapes.vector_ops)[:, None], costs.array_pj, kinds)
    variants: dict[tuple[int, int], tuple[Any, ...]] = {}
    for kept in (0, 1):
        fill = np.where(kept and costs.kept > 0, costs.fill_weight_bytes, costs.fill_bytes)
        for unwritten in (0, 1):
            dram = np.maximum(0.0, costs.dram - kept * costs.kept - unwritten * costs.unwritten)
            fixed, compute = model.timed(costs.cycles_s, dram, fill, model.overlaps)
            busy = np.maximum(compute, dram / model.device.dram_bandwidth_bytes_s)
            energy = inside_pj + model.transfer_energy_pj(dram, 0.0, kinds)
            variants[kept, unwritten] = (fixed, compute, busy, dram, energy)
    fixed, compute, busy, dram, energy = (
        np.array([[variants[kept, unwritten][i] for unwritten in (0, 1)] for kept in (0, 1)])
        for i in range(5)
    )
    return SerialRuns(fixed, compute, busy, dram, energy, model.units)


def serial_segments(model: Model, runs: SerialRuns, first: int, end: int, kind: int) -> tuple[Segment, ...]:
    """One segment per block; the first also pays the dispatch."""
    segments = []
    for block in range(first, end):
        at = (int(block > first), int(block < end - 1), block, kind)
        segments.append(
            Segment(
                first_block=block,
                end_block=block + 1,
                fixed_s=float(runs.fixed_s[at]) + (model.device.dispatch_s if block == first else 0.0),
                compute_s=float(runs.compute_s[at]),
                dram_bytes=float(runs.dram[at]),
                steps=runs.steps[block],
                energy_pj=float(runs.energy_pj[at]),
                macs=float(model.shapes.macs[block]),
            )
        )
    return tuple(segments)


def serial_option(model: Model, runs: SerialRuns, first: int, end: int, kind: int) -> Option:
    """The sum of the segments. `compute_s` adds up the larger of compute and transfer at full bandwidth,
    block by block, so that `seconds` is exact there; with less bandwidth it is a lower bound, the segments
    are exact.
    """
    segments = serial_segments(model, runs, first, end, kind)
    costs = model.serial
    sram = 0.0
    spill = 0.0
    for block in range(first, end):
        need = float(
            (costs.sram if block == first or not costs.kept[block, kind] else costs.sram_kept)[block, kind]
        )
        if block + 1 < end and costs.kept[block + 1, kind]:
            need += float(model.shapes.output[block])
            spill = max(spill, float(costs.unwritten[block, kind]))
        sram = max(sram, need)
    dram = sum(segment.dram_bytes for segment in segments)
    bandwidth = model.device.dram_bandwidth_bytes_s
    busy = segments[0].compute_s
    if end > first + 1:
        busy = sum(max(segment.compute_s, segment.dram_bytes / bandwidth) for segment in segments)
    return Option(
        mode=Mode.SERIAL,
        first=first,
        end=end,
        kinds=(kind,),
        cuts=(),
        band_rows=None,
        steps=sum(segment.steps for segment in segments),
        fixed_s=sum(segment.fixed_s for segment in segments),
        compute_s=busy,
        dram_bytes=dram,
        link_bytes=0.0,
        sram_bytes=sram,
        energy_pj=sum(segment.energy_pj for segment in segments),
        macs=sum(segment.macs for segment in segments),
        serial_dram_bytes=dram,
        spill_bytes=spill,
    )
