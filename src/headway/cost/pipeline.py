"""Multi-core fusion: bands flow through stages of consecutive layers, each on its own core.

Source: cost-model.md section 3 (closed form of Stream's fused pipeline) and accelerators.md section 4
(T_MCF).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from headway.core.block import Mode, Option
from headway.core.device import Device
from headway.cost.chain import longest_way
from headway.cost.fused import first_window, line_bytes, within
from headway.cost.model import PIPELINE_COUNTS, Bands, Model, bands_asked
from headway.cost.shapes import Floats, Longs

MAX_STAGES = 4


@dataclass(frozen=True, slots=True)
class Candidates:
    """Costs of pipelines: arrays [pipeline, choice of band count] unless said otherwise.

    `time_s` is inf where a pipeline does not fit.
    """

    first: Longs  # [pipeline]
    length: Longs  # [pipeline]
    kinds: Longs  # [pipeline, stage]
    bounds: Longs  # [pipeline, stage + 1], layer offsets
    counts: Longs
    fixed_s: Floats
    compute_s: Floats
    time_s: Floats
    dram: Floats  # [pipeline]
    link: Floats  # [pipeline]
    sram: Floats
    drain_s: Floats
    energy_pj: Floats  # [pipeline]
    spill: Floats  # [pipeline]
    serial_dram: Floats  # [pipeline]
    best: Longs  # [pipeline]: the fastest choice, the larger band among equals

    @property
    def fastest_s(self) -> Floats:
        """[pipeline]: seconds of the fastest choice."""
        seconds: Floats = self.time_s[np.arange(len(self.best)), self.best]
        return seconds


Pipelines = tuple[Candidates, ...]


def kind_tuples(device: Device, stages: int) -> Longs:
    """[tuple, stage]: the assignments of core types to stages for which the device has the cores."""
    tuples = [
        kinds
        for kinds in product(range(len(device.kinds)), repeat=stages)
        if all(count <= device.kind_counts[kind] for kind, count in Counter(kinds).items())
    ]
    return np.array(tuples, dtype=np.int64).reshape(-1, stages)


def evaluate(
    model: Model, first: Longs, length: Longs, kinds: Longs, bounds: Longs, bands: Bands, columns: Longs
) -> Candidates:
    """Costs of pipelines with given cuts.

    Stages and the links between them are resources that n bands pass in order. A stage starts its band t when
    band t + lag of its predecessor has arrived, lag summed over its layers. The time is the longest way
    through that grid: every resource once, n - 1 more bands at the slowest, and per stage its lag, at the
    predecessor's pace before the slowest resource and at its own pace after it. With equal stages:
    n * tau + sum((1 + lag) * tau + link), which is exact for Stream's four-core run. What several stages read
    from outside crosses the memory interface once and is passed on.
    """
    stages = kinds.shape[1]
    device, counts = model.device, bands.counts[columns]
    taus: list[Floats] = []  # stage, link, stage, link, ...
    lags: list[Floats] = []
    sram = np.zeros(counts.shape)
    fits = np.ones(counts.shape, dtype=bool)
    links = np.zeros(len(first))
    energy = np.zeros(len(first))
    for stage in range(stages):
        begin, end, kind = bounds[:, stage], bounds[:, stage + 1], kinds[:, stage]
        a, b, k = (first + begin)[:, None], (first + end)[:, None], kind[:, None]
        arriving = model.ranges.inbound[first, begin, end] + read_before(model, first, begin, end)
        if stage:
            taus.append(arriving[:, None] / device.link.bandwidth_bytes_s / counts)
            lags.append(bands.lag_sum[b, columns] - bands.lag_sum[a, columns])
        busy = bands.cycles_s_sum[b, columns, k] - bands.cycles_s_sum[a, columns, k]
        taus.append(busy / counts + device.switch_s)
        need = model.weight_sum[b] - model.weight_sum[a]
        need = need + bands.input_sum[b, columns] - bands.input_sum[a, columns]
        need += bands.fresh[a, columns] + 2 * bands.output[b - 1, columns]
        need += _between(model.ranges.waiting, first, begin, end)[:, None]
        need += stages * _between(model.ranges.side, first, begin, end)[:, None] / counts
        sram = np.maximum(sram, need)
        fits &= need <= model.capacity[k]
        links += arriving
        energy += model.core_energy_pj(
            (model.work_sum[b] - model.work_sum[a])[:, 0],
            model.array_pj_sum[b[:, 0], kind] - model.array_pj_sum[a[:, 0], kind],
            kind,
        )
    last = first + length
    dram = model.weight_sum[last] - model.weight_sum[first]
    dram = dram + model.ranges.read[first, 0, length] + model.ranges.written[first, length]
    window = first_window(model, bands, first[:, None], columns)
    overlaps = np.all(model.overlaps[kinds], axis=1, keepdims=True)
    flow = longest_way(taus, lags, counts)
    fill = model.first_weights[first][:, None] + window
    fixed, compute = model.timed(flow, dram[:, None], fill, overlaps)
    time = np.where(fits, fixed + np.maximum(compute, dram[:, None] / device.dram_bandwidth_bytes_s), np.inf)
    return Candidates(
        first=first,
        length=length,
        kinds=kinds,
        bounds=bounds,
        counts=counts,
        fixed_s=fixed,
        compute_s=compute,
        time_s=time,
        dram=dram,
        link=links,
        sram=sram,
        drain_s=sum(taus[1:], np.zeros(counts.shape)),
        energy_pj=energy + model.transfer_energy_pj(dram, links, kinds[:, 0]),
        spill=line_bytes(model, first, length) + within(model.ranges.waiting, first, length),
        serial_dram=model.serial_dram(first, last, kinds[:, 0]),
        best=np.argmin(time, axis=1),
    )


def read_before(model: Model, first: Longs, begin: Longs, end: Longs) -> Floats:
    """Bytes from outside that a stage reads and an earlier one has read: those cross the link, not DRAM."""
    read = model.ranges.read
    again: Floats = read[first, begin, end] - (read[first, 0, end] - read[first, 0, begin])
    return again


def _between(values: Floats, first: Longs, begin: Longs, end: Longs) -> Floats:
    """Sum of [first, offset] over begin <= offset < end."""
    return within(values, first, end) - within(values, first, begin)


def pipeline_at(
    model: Model, first: int, end: int, kinds: tuple[int, ...], cuts: tuple[int, ...], band_rows: int | None
) -> Option:
    """One pipeline; without cuts the best of all.

    Raises ValueError if it does not fit, or if the cuts make no sense.
    """
    where = f"blocks {first} to {end} of {model.graph.name} as a pipeline over {len(kinds)} cores"
    length, stages = end - first, len(kinds)
    if stages > MAX_STAGES:
        raise ValueError(f"{where}: at most {MAX_STAGES} cores")
    if stages > length:
        raise ValueError(f"{where}: a stage needs at least one of the {length} layers")
    if cuts:
        if len(cuts) != stages - 1 or any(a >= b for a, b in zip((first, *cuts), (*cuts, end), strict=True)):
            raise ValueError(f"{where}: cuts {cuts} must be {stages - 1} ascending blocks inside the range")
        offsets = [tuple(cut - first for cut in cuts)]
    else:
        offsets = list(combinations(range(1, length), stages - 1))
    bounds = np.array([(0, *inner, length) for inner in offsets], dtype=np.int64)
    rows = len(bounds)
    bands, columns = bands_asked(model, PIPELINE_COUNTS, end - 1, band_rows)
    candidates = evaluate(
        model,
        np.full(rows, first),
        np.full(rows, length),
        np.tile(np.array(kinds, dtype=np.int64), (rows, 1)),
        bounds,
        bands,
        np.tile(columns, (rows, 1)),
    )
    row = int(np.argmin(candidates.time_s[np.arange(rows), candidates.best]))
    if not np.isfinite(candidates.time_s[row, candidates.best[row]]):
        need = float(candidates.sram.min())
        raise ValueError(f"{where} does not fit: one core would need at least {need:.0f} bytes of SRAM")
    return _option(model, candidates, row)


def pipeline_options(model: Model, pipelines: Pipelines, block: int) -> tuple[Option, ...]:
    """The pipelines that start at a block, without those that another of the same length makes pointless."""
    kinds = range(len(model.cores))
    found = []
    for candidates in pipelines:
        rows = np.flatnonzero(candidates.first == block)
        columns = (
            candidates.length[rows],
            candidates.time_s[rows, candidates.best[rows]],
            candidates.dram[rows],
            np.stack([(candidates.kinds[rows] == kind).sum(axis=1) for kind in kinds], axis=1),
        )
        for row, length, time, dram, cores in zip(rows.tolist(), *(c.tolist() for c in columns), strict=True):
            if time < np.inf:
                found.append((length, time, dram, cores, candidates, row))
    found.sort(key=lambda entry: entry[:4])
    kept: list[tuple[int, float, list[int], Candidates, int]] = []
    for length, _, dram, cores, candidates, row in found:
        if not any(
            length == other_length
            and other_dram <= dram
            and all(theirs <= ours for theirs, ours in zip(other_cores, cores, strict=True))
            for other_length, other_dram, other_cores, _, _ in kept
        ):
            kept.append((length, dram, cores, candidates, row))
    return tuple(_option(model, candidates, row) for *_, candidates, row in kept)


def _option(model: Model, candidates: Candidates, row: int) -> Option:
    column = int(candidates.best[row])
    first, length = int(candidates.first[row]), int(candidates.length[row])
    count = int(candidates.counts[row, column])
    return Option(
        mode=Mode.PIPELINE,
        first=first,
        end=first + length,
        kinds=tuple(candidates.kinds[row].tolist()),
        cuts=tuple(first + offset for offset in candidates.bounds[row, 1:-1].tolist()),
        band_rows=model.band_rows(first + length - 1, count),
        steps=count,
        fixed_s=float(candidates.fixed_s[row, column]) + model.device.dispatch_s,
        compute_s=float(candidates.compute_s[row, column]),
        dram_bytes=float(candidates.dram[row]),
        link_bytes=float(candidates.link[row]),
        sram_bytes=float(candidates.sram[row, column]),
        energy_pj=float(candidates.energy_pj[row]),
        macs=float(model.mac_sum[first + length] - model.mac_sum[first]),
        serial_dram_bytes=float(candidates.serial_dram[row]),
        spill_bytes=float(candidates.spill[row]),
        drain_s=float(candidates.drain_s[row, column]),
    )
