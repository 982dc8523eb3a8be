"""Facts of the measured kernels that docs/gpu-latency.md names: how efficiency depends on what is no shape.

python bench/gpu_facts.py DATA
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
from _gpu_data import GPUS, Rows, load

from headway.predict.gpu.devices import known_device
from headway.predict.gpu.features import KernelClass

_NAMES = ("a100-pcie-40gb", "p100", "p4", "t4", "v100")


def _medians(title: str, efficiency: np.ndarray, gpu: np.ndarray, chosen: np.ndarray) -> None:
    found = {
        name: f"{np.median(efficiency[chosen & (gpu == index)]):.2f}"
        for index, name in enumerate(GPUS)
        if (chosen & (gpu == index)).sum() > 4
    }
    print(f"{title}: {found}")


def _transfer(rows: Rows) -> None:
    """How far one GPU's efficiency on a shape tells another's, the median ratio of the two taken off."""
    known = [
        dict(zip(map(tuple, rows.dims[rows.gpu == at]), rows.target[rows.gpu == at], strict=True))
        for at in range(len(GPUS))
    ]
    for one, other in itertools.combinations(range(len(GPUS)), 2):
        both = known[one].keys() & known[other].keys()
        ratios = np.array([known[one][shape] - known[other][shape] for shape in both])
        error = np.abs(np.exp(ratios - np.median(ratios)) - 1).mean()
        print(f"the same products on {GPUS[one]} and {GPUS[other]}: {error:.0%} apart")


def main() -> None:
    """Print median efficiencies (FLOPs over latency times peak) by GPU."""
    folder = Path(sys.argv[1])
    peaks = np.array([known_device(name).peak_flops for name in _NAMES])
    rows = load(folder, KernelClass.LINEAR)
    _, m, n, k = rows.dims.T
    efficiency = 2.0 * m * n * k / rows.latency_s / peaks[rows.gpu]
    large = (m > 500) & (n > 500) & (k > 500)
    for shortest_s in (0.35e-3, 6e-3, 0.1, 1.4):
        these = large & (rows.latency_s >= shortest_s) & (rows.latency_s < 2 * shortest_s)
        _medians(f"linear, {shortest_s:g} to {2 * shortest_s:g} s", efficiency, rows.gpu, these)
    weights_mib = 4.0 * n * k / 2**20
    for least in (4, 64, 512, 1024):
        these = (m > 1000) & (weights_mib >= least) & (weights_mib < 4 * least)
        _medians(f"linear, weights of {least} to {4 * least} MiB", efficiency, rows.gpu, these)
    for low, high in ((1024, 8192), (16384, 66000)):
        these = (m > 1000) & (k > 512) & (n > low) & (n <= high)
        _medians(f"linear, {low} to {high} outputs", efficiency, rows.gpu, these)
    delivered = np.array([known_device(name).delivered_bytes_s for name in _NAMES])
    wide = (m > 1000) & (k > 1024) & (n > 16384)
    per_byte = 2.0 * m * n * k / rows.latency_s / delivered[rows.gpu]
    _medians("linear, above 16384 outputs, FLOPs per byte that memory delivers", per_byte, rows.gpu, wide)
    of_linear = large & (rows.latency_s >= 0.01) & (rows.latency_s < 0.1)
    _medians("linear, 10 to 100 ms", efficiency, rows.gpu, of_linear)
    rows = load(folder, KernelClass.BMM)
    batch, m, n, k = rows.dims.T
    efficiency = 2.0 * batch * m * n * k / rows.latency_s / peaks[rows.gpu]
    narrow, long = np.minimum(m, n), rows.latency_s > 3e-4
    these = long & (narrow > 32) & (narrow <= 64) & (k > 128) & (k <= 256)
    _medians("products, 33 to 64 wide, reduction 129 to 256", efficiency, rows.gpu, these)
    these = long & (narrow > 128) & (narrow <= 256) & (k > 8) & (k <= 16)
    _medians("products, 129 to 256 wide, reduction 9 to 16", efficiency, rows.gpu, these)
    these = long & (narrow > 256) & (k > 512)
    _medians("products, above 256 wide, reduction above 512", efficiency, rows.gpu, these)
    of_products = (narrow > 256) & (k > 256) & (rows.latency_s >= 0.01) & (rows.latency_s < 0.1)
    _medians("products, above 256 wide, 10 to 100 ms", efficiency, rows.gpu, of_products)
    powered = np.array([known_device(name).sustained_flops for name in _NAMES]) / peaks
    print(f"share of the peak that power pays for: {dict(zip(GPUS, powered.round(2).tolist(), strict=True))}")
    for shortest_s in (0.32e-3, 1e-3, 3.2e-3, 10e-3, 32e-3):
        these = (narrow > 256) & (k > 256) & (rows.latency_s >= shortest_s)
        these &= rows.latency_s < 3.16 * shortest_s
        _medians(f"products, above 256 wide, from {shortest_s:g} s on", efficiency, rows.gpu, these)
    _transfer(rows)


if __name__ == "__main__":
    main()
