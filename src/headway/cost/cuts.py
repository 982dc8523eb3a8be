"""Where pipelines are cut into stages: the fastest of all cuts, without pricing those that cannot be."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations

import numpy as np

from headway.cost.model import PIPELINE_COUNTS, Model
from headway.cost.pipeline import (
    MAX_STAGES,
    Candidates,
    Pipelines,
    evaluate,
    kind_tuples,
    read_before,
)
from headway.cost.ranges import MAX_LENGTH
from headway.cost.shapes import Floats, Longs
from headway.cost.units import MAX_BANDS

_CUT_COLUMN = 7  # stages are balanced on the times of eight bands


def pipelines_of(model: Model, first: Longs, length: Longs) -> Pipelines:
    """The fastest pipeline over all stage cuts, for each stack and tuple of core types, in the counts tried.

    One entry per number of stages. Of all cuts: a choice by anything but the time itself, such as the balance
    of the stages, could be slower on a better machine.
    """
    least_s = _least_stage_s(model)
    pipelines = []
    for stages in range(2, min(MAX_STAGES, len(model.device.cores)) + 1):
        kinds = kind_tuples(model.device, stages)
        rows = [
            _cuts_of_use(model, first[length == n], n, kinds, least_s)
            for n in range(stages, int(length.max(initial=0)) + 1)
        ]
        pipelines.append(_fastest(_joined([row for each in rows for row in each], model, stages)))
    return tuple(pipelines)


def _cuts_of_use(model: Model, first: Longs, length: int, kinds: Longs, least_s: Floats) -> list[Candidates]:
    """Pipelines over stacks of one length: those with the best-balanced cuts, and all that may be faster.

    Stages that cannot fit at any band height (weights and input buffers at the lowest one) are left out.
    """
    stages = kinds.shape[1]
    cuts = np.array(list(combinations(range(1, length), stages - 1)), dtype=np.int64).reshape(-1, stages - 1)
    bounds = np.concatenate((np.zeros((len(cuts), 1), int), cuts, np.full((len(cuts), 1), length)), axis=1)
    balance, least = _bounds_of_time(model, first, bounds, kinds, least_s)
    choice = np.argmin(balance, axis=2)  # [tuple, stack]
    fits = np.isfinite(balance.min(axis=2))

    def priced(of_kind: Longs, of_stack: Longs, of_cut: Longs) -> Candidates:
        columns = model.columns_of(PIPELINE_COUNTS, first[of_stack] + length - 1)
        lengths = np.full(len(of_stack), length)
        return evaluate(model, first[of_stack], lengths, kinds[of_kind], bounds[of_cut], model.bands, columns)

    of_kind, of_stack = np.nonzero(fits)
    balanced = priced(of_kind, of_stack, choice[of_kind, of_stack])
    found = np.full(fits.shape, np.inf)
    found[of_kind, of_stack] = balanced.fastest_s
    found *= 1 - 1e-12
    faster = least < found[:, :, None]
    np.put_along_axis(faster, choice[:, :, None], False, axis=2)
    of_kind, of_stack, of_cut = np.nonzero(faster)
    nearly = _flow_s(model, first[of_stack], kinds[of_kind], bounds[of_cut]) < found[of_kind, of_stack]
    return [balanced, priced(of_kind[nearly], of_stack[nearly], of_cut[nearly])]


def _bounds_of_time(
    model: Model, first: Longs, bounds: Longs, kinds: Longs, least_s: Floats
) -> tuple[Floats, Floats]:
    """[tuple, stack, cut]: seconds of the slowest stage or link in eight bands, and what no pipeline with
    those cuts is faster than; both infinite where a stage cannot fit.

    The slowest resource has all bands one after the other; each other one at least one of them.
    """
    seconds = model.bands.cycles_s_sum[:, _CUT_COLUMN, :]
    room = model.weight_sum + model.bands.input_sum[:, -1]
    length = int(bounds[0, -1])
    dram = model.ranges.read[first, 0, length] + model.ranges.written[first, length]
    dram = dram + model.weight_sum[first + length] - model.weight_sum[first]
    shape = (len(kinds), len(first), len(bounds))
    worst, slowest, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for stage in range(kinds.shape[1]):
        begins, ends = bounds[:, stage], bounds[:, stage + 1]
        begin, end = first[:, None] + begins, first[:, None] + ends
        fits = (room[end] - room[begin])[None] <= model.capacity[:, None, None]
        balance = (seconds[end] - seconds[begin]).transpose(2, 0, 1)  # [kind, stack, cut]
        np.maximum(worst, np.where(fits, balance, np.inf)[kinds[:, stage]], out=worst)
        least = least_s[begin, ends - begins].transpose(2, 0, 1)[kinds[:, stage]]
        np.maximum(slowest, least, out=slowest)
        total += least
        if stage:
            link = model.ranges.inbound[first[:, None], begins, ends]
            link = link + read_before(model, first[:, None], begins, ends)
            link_s = link / model.device.link.bandwidth_bytes_s
            np.maximum(worst, link_s, out=worst)
            np.maximum(slowest, link_s, out=slowest)
            total += link_s
    bandwidth = model.device.dram_bandwidth_bytes_s
    time = slowest + (total - slowest) / MAX_BANDS + (model.first_weights[first] / bandwidth)[:, None]
    time = np.maximum(time, (dram / bandwidth)[:, None])
    return worst, np.where(np.isfinite(worst), time, np.inf)


def _flow_s(model: Model, first: Longs, kinds: Longs, bounds: Longs) -> Floats:
    """[pipeline]: seconds that no choice of bands is faster than: weights of the first layer, then bands.

    The way through the slowest resource, each lag at the faster of the two stages that it lies between.
    """
    columns = model.columns_of(PIPELINE_COUNTS, first + bounds[:, -1] - 1)
    counts = model.bands.counts[columns]
    once, slowest, behind, before = (np.zeros(columns.shape) for _ in range(4))
    for stage in range(kinds.shape[1]):
        begins, ends, kind = bounds[:, stage], bounds[:, stage + 1], kinds[:, stage, None]
        a, b = (first + begins)[:, None], (first + ends)[:, None]
        busy = model.bands.cycles_s_sum[b, columns, kind] - model.bands.cycles_s_sum[a, columns, kind]
        tau = busy / counts + model.device.switch_s
        if stage:
            link = model.ranges.inbound[first, begins, ends] + read_before(model, first, begins, ends)
            passed = link[:, None] / model.device.link.bandwidth_bytes_s / counts
            once += passed
            np.maximum(slowest, passed, out=slowest)
            lag = model.bands.lag_sum[b, columns] - model.bands.lag_sum[a, columns]
            behind += np.minimum(lag, counts - 1) * np.minimum(before, tau)
        once += tau
        np.maximum(slowest, tau, out=slowest)
        before = tau
    flow = (once + (counts - 1) * slowest + behind).min(axis=1)
    least: Floats = flow + model.first_weights[first] / model.device.dram_bandwidth_bytes_s
    return least


def _least_stage_s(model: Model) -> Floats:
    """[layer, length, kind]: the least seconds that those layers take on one core, in any number of bands."""
    sums = model.bands.cycles_s_sum
    switch_s = model.bands.counts[None, :, None] * model.device.switch_s
    least = np.zeros((len(model), MAX_LENGTH + 1, sums.shape[2]))
    for length in range(1, MAX_LENGTH + 1):
        count = len(model) + 1 - length
        if count > 0:
            stages = sums[length:] - sums[:count] + switch_s
            least[:count, length] = stages.min(axis=1)
    return least


def _joined(parts: list[Candidates], model: Model, stages: int) -> Candidates:
    """All pipelines of some groups, in their order."""
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        empty = (np.zeros((0, stages), dtype=np.int64), np.zeros((0, stages + 1), dtype=np.int64))
        columns = np.zeros((0, len(PIPELINE_COUNTS)), dtype=np.int64)
        return evaluate(model, none, none, *empty, model.bands, columns)
    return Candidates(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Candidates)
        }
    )


def _fastest(candidates: Candidates) -> Candidates:
    """Of each stack and tuple of core types the fastest; among equals the first."""
    keys = (candidates.fastest_s, *candidates.kinds.T, candidates.length, candidates.first)
    order = np.lexsort(keys)
    same = np.column_stack((candidates.first, candidates.length, candidates.kinds))[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (same[1:] != same[:-1]).any(axis=1)
    chosen = order[new]
    return Candidates(**{field.name: getattr(candidates, field.name)[chosen] for field in fields(Candidates)})
