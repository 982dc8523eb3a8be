"""Latency of a model's blocks on a GPU, and what each asks of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headway.core.errors import HeadwayError
from headway.models.graph import Graph
from headway.predict.gpu.devices import GpuDevice
from headway.predict.gpu.kernels import Kernel
from headway.predict.gpu.lowering import kernels_of
from headway.predict.gpu.predictor import GpuPredictor, shipped_predictor

_RESIDENT_THREADS = 2048  # per multiprocessor


@dataclass(frozen=True, slots=True)
class BlockSeconds:
    """Latency of a block of layers [first, end), in seconds: the middle value and the interval's bounds.

    `extrapolated_share` is the share of the middle value that kernels make which no measured row is like;
    `reasons` says why, each cause once.
    """

    first: int
    end: int
    kernels: int
    middle_s: float
    low_s: float
    high_s: float
    extrapolated_share: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockDemand:
    """What a block asks of the device while it runs alone, as shares of what there is, all at most 1.

    `compute` is FLOPs over latency times peak, `bandwidth` bytes over latency times bandwidth, `occupancy`
    the mean share of resident threads that the kernels' outputs fill, weighted with their time (one thread
    is taken for each output element).
    """

    compute: float
    bandwidth: float
    occupancy: float


def block_seconds(
    graph: Graph, cuts: Sequence[int], device: GpuDevice, predictor: GpuPredictor | None = None
) -> tuple[BlockSeconds, ...]:
    """Latency of each block of a float32 model, its kernels in a stream one after the other, nothing fused.

    The errors of one model's kernels on one GPU go together, so the bounds of a block are the sums of its
    kernels' bounds, and those of a model the sums of its blocks'. That is wider than independent errors.

    Args:
        graph: the layers as they are in the file, not merged.
        cuts: the index of the first layer of each block but the first, increasing.
        device: the GPU.
        predictor: by default the shipped one.

    Raises:
        HeadwayError: cuts out of order, merged layers, or a precision other than float32.
    """
    lowered, bounds = _lowered(graph, cuts)
    used = predictor or shipped_predictor()
    found = []
    for first, end in pairwise(bounds):
        kernels = [kernel for layer in lowered[first:end] for kernel in layer]
        estimates = used.stream_s(kernels, device)
        middle_s = float(estimates.middle_s.sum())
        outside_s = float(estimates.middle_s[estimates.extrapolated].sum())
        found.append(
            BlockSeconds(
                first,
                end,
                sum(kernel.count for kernel in kernels),
                middle_s,
                float(estimates.low_s.sum()),
                float(estimates.high_s.sum()),
                outside_s / middle_s if middle_s else 0.0,
                tuple(dict.fromkeys(kernel.extrapolated for kernel in kernels if kernel.extrapolated)),
            )
        )
    return tuple(found)


def kernel_demands(
    graph: Graph, cuts: Sequence[int], device: GpuDevice, predictor: GpuPredictor | None = None
) -> tuple[BlockDemand, ...]:
    """What each block asks of the device at full speed; arguments and errors as for `block_seconds`."""
    lowered, bounds = _lowered(graph, cuts)
    used = predictor or shipped_predictor()
    found = []
    for first, end in pairwise(bounds):
        kernels = [kernel for layer in lowered[first:end] for kernel in layer]
        found.append(_demand(kernels, used.stream_s(kernels, device).middle_s, device))
    return tuple(found)


def _demand(kernels: Sequence[Kernel], seconds: np.ndarray, device: GpuDevice) -> BlockDemand:
    total_s = float(seconds.sum())
    if not total_s:
        return BlockDemand(0.0, 0.0, 0.0)
    flops = sum(kernel.flops * kernel.count for kernel in kernels)
    moved = sum(kernel.moved_bytes * kernel.count for kernel in kernels)
    threads = device.sms * _RESIDENT_THREADS
    filled = np.array([min(1.0, kernel.out_elements / threads) for kernel in kernels])
    return BlockDemand(
        min(1.0, flops / (total_s * device.peak_flops)),
        min(1.0, moved / (total_s * device.bandwidth_bytes_s)),
        float((filled * seconds).sum() / total_s),
    )


def _lowered(graph: Graph, cuts: Sequence[int]) -> tuple[tuple[tuple[Kernel, ...], ...], tuple[int, ...]]:
    bounds = (0, *cuts, len(graph.layers))
    if any(later <= earlier for earlier, later in pairwise(bounds)):
        raise HeadwayError(
            f"{graph.name}: cuts at {list(cuts)}; accepted: increasing layer indices from 1 to "
            f"{len(graph.layers) - 1}"
        )
    return kernels_of(graph), bounds


def even_cuts(
    graph: Graph, blocks: int, device: GpuDevice, predictor: GpuPredictor | None = None
) -> tuple[int, ...]:
    """Places that split a model into at most `blocks` blocks of about equal latency.

    Near each even mark (within a third of a block) the place is taken where fewest bytes cross; a mark
    without a place near it gives no cut. Raises HeadwayError as `block_seconds` does.
    """
    lowered = kernels_of(graph)
    used = predictor or shipped_predictor()
    flat = [kernel for layer in lowered for kernel in layer]
    owner = [at for at, layer in enumerate(lowered) for _ in layer]
    per_layer = np.bincount(owner, used.stream_s(flat, device).middle_s, minlength=len(lowered))
    until = np.cumsum(per_layer)
    crossing = np.zeros(len(lowered) + 1)
    for layer in graph.layers:
        last = min(graph.last_use[layer.index], len(lowered) - 1)
        crossing[layer.index + 1 : last + 1] += layer.output_bytes
    wanted = until[-1] * np.arange(1, blocks) / blocks
    slack = until[-1] / blocks / 3
    cuts: list[int] = []
    for mark in wanted:
        near = [
            at
            for at in range(1, len(lowered))
            if abs(until[at - 1] - mark) <= slack and (not cuts or at > cuts[-1])
        ]
        if near:
            cuts.append(min(near, key=lambda at: (crossing[at], abs(until[at - 1] - mark))))
    return tuple(cuts)
