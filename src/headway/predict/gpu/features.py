"""Scale-free features of GPU kernels: every one a ratio, a count of tiles, or a share.

A model sees work over peak, bytes over bandwidth, waves over multiprocessors, the share of a tile that is
padding, bytes over cache. That is what lets it carry over to a GPU that it has not seen, as NeuSight found
(Lee, Phanishayee, Mahajan, "Forecasting GPU performance for deep learning training and inference", ASPLOS
2025). It predicts the logarithm of latency over a bound, not a utilisation in (0, 1): Winograd convolution
does less work than is counted for direct convolution, so rows lie above the peak.

All shapes are arrays of one length, a row for each kernel. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.predict.gpu.devices import GpuDevice

Floats = NDArray[np.float64]

FLOAT_BYTES: Final = 4
_TILES: Final = ((128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (32, 32), (256, 128))
_TILE_PENALTY: Final = (1.0, 1.08, 1.08, 1.2, 1.35, 1.35, 1.9, 1.0)  # operand traffic per multiply-add
_REDUCTION_START: Final = 24.0  # steps of the reduction that filling and draining a tile costs
_LAUNCH_S: Final = 30e-6  # a launch as a framework makes it, of the order that all five GPUs show
_RESIDENT_THREADS: Final = 2048.0  # per multiprocessor


class KernelClass(StrEnum):
    """The classes of kernels that have a model of their own, and the dimensions that describe them."""

    BMM = "bmm"  # batch, m, n, k
    LINEAR = "linear"  # batch (1), m, n, k
    CONV = "conv"  # batch, channels in, channels out, output side, input side, filter side
    ELEMENTWISE = "elementwise"  # rows, width, tensors read and written
    SOFTMAX = "softmax"  # rows, width, 2
    LAYER_NORM = "layer_norm"  # rows, width, 2


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Features of kernels of one class: `columns` (kernels x features), their `names`, the bound in seconds.

    The latency is the bound times what the trees say.
    """

    columns: Floats
    names: tuple[str, ...]
    bound_s: Floats


def features_of(kernel_class: KernelClass, device: GpuDevice, dims: Floats) -> FeatureTable:
    """Features of kernels of one class; `dims` has a row for each kernel, as `KernelClass` says."""
    columns = dims.T
    if kernel_class in (KernelClass.BMM, KernelClass.LINEAR):
        return matmul_features(device, *columns)
    if kernel_class is KernelClass.CONV:
        return convolution_features(device, *columns)
    return vector_features(device, *columns)


def _table(columns: dict[str, Floats], bound_s: Floats) -> FeatureTable:
    return FeatureTable(np.column_stack(list(columns.values())), tuple(columns), bound_s)


def _log(values: Floats) -> Floats:
    return np.log2(np.maximum(values, 1e-12))


def matmul_features(device: GpuDevice, batch: Floats, m: Floats, n: Floats, k: Floats) -> FeatureTable:
    """Features of `batch` products (m x k) times (k x n); a linear layer has batch 1."""
    flops = 2.0 * batch * m * n * k
    columns = _product_columns(device, batch, m, n, k)
    weights = batch * k * n * FLOAT_BYTES
    rows = batch * m * k * FLOAT_BYTES
    out = batch * m * n * FLOAT_BYTES
    compute_s = flops / device.sustained_flops
    return _with_bound(device, columns, compute_s, weights + rows + out, weights / batch, out)


def convolution_features(
    device: GpuDevice,
    batch: Floats,
    c_in: Floats,
    c_out: Floats,
    size_out: Floats,
    size_in: Floats,
    kernel: Floats,
) -> FeatureTable:
    """Features of square 2-D convolutions, as the product (b x size² rows) x (c_in x kernel²) x c_out."""
    m, k = batch * size_out**2, c_in * kernel**2
    flops = 2.0 * m * k * c_out
    columns = _product_columns(device, np.ones_like(m), m, c_out, k)
    # Winograd F(4x4, 3x3): 36 products of (tiles x c_in) times (c_in x c_out)
    tiles = batch * np.ceil(size_out / 4.0) ** 2
    columns |= {
        "winograd_padding": _log(tiles * 16.0 / m),
        "channels_in": _log(c_in),
        "size": _log(size_out),
        "batch": _log(batch),
    }
    for tile in (32, 64, 128):
        columns[f"winograd_fill_{tile}"] = _log(np.ceil(tiles / tile) * tile / tiles)
    weights = k * c_out * FLOAT_BYTES
    image = batch * c_in * size_in**2 * FLOAT_BYTES
    out = m * c_out * FLOAT_BYTES
    compute_s = flops / device.sustained_flops
    return _with_bound(device, columns, compute_s, weights + image + out, weights, out)


def _product_columns(device: GpuDevice, batch: Floats, m: Floats, n: Floats, k: Floats) -> dict[str, Floats]:
    columns: dict[str, Floats] = {}
    whole = batch * m * n / device.sms
    times = []
    for (rows, width), penalty in zip(_TILES, _TILE_PENALTY, strict=True):
        tiles = batch * np.ceil(m / rows) * np.ceil(n / width)
        waves = tiles / device.sms
        area = rows * width
        # At least one tile for each multiprocessor in use; long reductions may be split over idle ones.
        times.append(np.maximum(np.ceil(waves) * area, area) / whole * penalty)
        if (rows, width) in ((128, 128), (64, 64), (128, 64), (32, 32)):
            columns[f"waves_{rows}x{width}"] = _log(waves)
            columns[f"quantisation_{rows}x{width}"] = _log(np.ceil(waves) / waves)
        if (rows, width) in ((128, 128), (64, 64), (32, 32)):
            columns[f"padding_{rows}x{width}"] = _log(tiles * area / (batch * m * n))
    columns["best_tile"] = _log(np.min(times, axis=0))
    columns["rows"] = _log(m)
    columns["width"] = _log(n)
    columns["reduction"] = _log(k)
    return columns


def _with_bound(
    device: GpuDevice,
    columns: dict[str, Floats],
    compute_s: Floats,
    moved: Floats,
    weights: Floats,
    out: Floats,
) -> FeatureTable:
    memory_s = moved / device.bandwidth_bytes_s
    bound_s = np.maximum(compute_s, memory_s) + _LAUNCH_S
    columns |= {
        "memory_over_compute": _log(memory_s / compute_s),
        "work_over_launch": _log(np.maximum(compute_s, memory_s) / _LAUNCH_S),
        "bytes_over_cache": _log(moved / device.l2_bytes),
        "weights_over_cache": _log(weights / device.l2_bytes),
        "out_share": out / moved,
        "power_share": np.full_like(moved, device.sustained_flops / device.peak_flops),
        "recent": np.full_like(moved, float(device.compute_capability >= 7.0)),
        "cache_per_sm": np.full_like(moved, np.log2(device.l2_bytes / device.sms)),
    }
    return _table(columns, bound_s)


def vector_features(device: GpuDevice, rows: Floats, width: Floats, tensors: Floats) -> FeatureTable:
    """Features of operators that pass once over (rows, width), reading and writing `tensors` such tensors."""
    elements = rows * width
    memory_s = elements * tensors * FLOAT_BYTES / device.delivered_bytes_s
    bound_s = memory_s + _LAUNCH_S
    alignment = np.where(width % 4 == 0, 2.0, np.where(width % 2 == 0, 1.0, 0.0))
    columns = {
        "work_over_launch": _log(memory_s / _LAUNCH_S),
        "bytes_over_cache": _log(elements * tensors * FLOAT_BYTES / device.l2_bytes),
        "waves": _log(elements / (device.sms * _RESIDENT_THREADS)),
        "row_waves": _log(rows / device.sms),
        "width": _log(width),
        "alignment": alignment,
        "tensors": tensors,
        "recent": np.full_like(elements, float(device.compute_capability >= 7.0)),
        "stacked": np.full_like(elements, float(device.has_stacked_memory)),
        "cache": np.full_like(elements, np.log2(device.l2_mb)),
        "clock_per_byte": np.full_like(
            elements, np.log2(device.sms * device.clock_mhz * 1e6 / device.delivered_bytes_s)
        ),
    }
    return _table(columns, bound_s)
