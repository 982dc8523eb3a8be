"""Other ways to predict matrix products on a GPU left out, on inner folds only: what was tried and not taken.

    python bench/gpu_transfer.py DATA --classes linear --share 0.5
    python bench/gpu_transfer.py DATA --classes bmm --share 0.15

Of each pair of GPUs left out, one is predicted from the other three, with other shapes. `one for all`
are trees over all three, as shipped. Trees of each GPU alone say what efficiency a shape has there, given the
new GPU's waves and tiles; their mean, median, and mean weighted by likeness (generation, multiprocessors,
bytes per operation) are taken. `--reserve` gives boards that are short of power their full clock at first: at
a duration t the speed is s + (1 - s) / (1 + t / reserve), s being the share that the power pays for.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from _gpu_data import GPUS, Rows, Setting, fit, load
from gpu_evaluate import settings

from headway.predict.gpu.devices import known_device
from headway.predict.gpu.features import KernelClass

NAMES = ("a100-pcie-40gb", "p100", "p4", "t4", "v100")
LIKENESS = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 1.0, 1.0), (2.0, 2.0, 1.0), (4.0, 2.0, 2.0))
TRAIN, ASKED = 65, 80  # folds of shapes below
GOOD_SHARE = 0.8  # of the speed, in the duration by which the reserve is used up


def with_reserve(rows: Rows, reserve_s: float) -> Rows:
    """The same rows over a bound in which a board short of power is faster at first."""
    flops = 2.0 * rows.dims.prod(axis=1)
    bound_s = rows.bound_s.copy()
    for gpu, name in enumerate(NAMES):
        device, these = known_device(name), rows.gpu == gpu
        share = device.sustained_flops / device.peak_flops
        launch_s = rows.bound_s[these].min()
        compute_s = full_s = flops[these] / device.peak_flops
        for _ in range(8):
            compute_s = full_s / (share + (1 - share) / (1 + compute_s / GOOD_SHARE / reserve_s))
        limited = rows.bound_s[these] - launch_s <= full_s / share * 1.001
        bound_s[these] = np.where(limited, launch_s + compute_s, rows.bound_s[these])
    return replace(rows, bound_s=bound_s)


def errors(rows: Rows, share: float) -> dict[str, np.ndarray]:
    """By method the error of GPU i when j was left out too, as (i, j)."""
    some = np.random.default_rng(3).random(len(rows.gpu)) < share
    taught, asked = some & (rows.fold < TRAIN), some & (rows.fold >= TRAIN) & (rows.fold < ASKED)
    gpu, target = rows.gpu[asked], rows.target[asked]
    table = rows.columns[asked]

    def told(chosen: np.ndarray, setting: Setting) -> np.ndarray:
        forest = fit(rows, chosen, setting)
        return forest.sums(table[:, [rows.names.index(name) for name in forest.names]])

    known = settings(rows.kernel_class)
    bare = replace(known["no generation, 12 leaves"], leaves=16, trees=200, rows_per_leaf=30)
    alone = np.array([told(taught & (rows.gpu == one), bare) for one in range(len(GPUS))])
    found = {}

    def score(predict: Callable[[int, int], np.ndarray]) -> np.ndarray:
        result = np.full((len(GPUS), len(GPUS)), np.nan)
        for of, without in itertools.permutations(range(len(GPUS)), 2):
            these = gpu == of
            result[of, without] = np.abs(np.exp(predict(of, without)[these] - target[these]) - 1).mean()
        return result

    for name, setting in known.items():
        pooled = {
            pair: told(taught & ~np.isin(rows.gpu, pair), setting)
            for pair in itertools.combinations(range(len(GPUS)), 2)
        }
        found[f"one for all, {name}"] = score(lambda *pair, pooled=pooled: pooled[tuple(sorted(pair))])
        for weights in LIKENESS:
            found[f"{name}, mean with likeness {weights}"] = score(
                lambda *pair, pooled=pooled, weights=weights: (
                    (pooled[tuple(sorted(pair))] + weighted(alone, *pair, weights)) / 2
                )
            )
    for weights in LIKENESS:
        found[f"likeness {weights}"] = score(lambda *pair, weights=weights: weighted(alone, *pair, weights))
    found["median"] = score(
        lambda *pair: np.median([each for at, each in enumerate(alone) if at not in pair], axis=0)
    )
    return found


def weighted(alone: np.ndarray, of: int, without: int, weights: tuple[float, float, float]) -> np.ndarray:
    """The mean of the other GPUs' trees, weighted by how alike they are."""
    devices = [known_device(name) for name in NAMES]
    facts = np.array(
        [
            (
                each.compute_capability,
                np.log2(each.sms),
                np.log2(each.bandwidth_bytes_s / each.sustained_flops),
            )
            for each in devices
        ]
    )
    rest = [at for at in range(len(GPUS)) if at not in (of, without)]
    apart = np.abs(facts[rest] - facts[of]) @ np.array(weights)
    near = np.exp(-(apart - apart.min()))
    mean: np.ndarray = near / near.sum() @ alone[rest]
    return mean


def main() -> None:
    """Print the mean error of each way, and by GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--classes", nargs="*", choices=("bmm", "linear"), default=["linear", "bmm"])
    parser.add_argument("--share", type=float, default=0.3, help="of the rows")
    parser.add_argument("--reserve", type=float, help="milliseconds")
    options = parser.parse_args()
    for kernel_class in map(KernelClass, options.classes):
        rows = load(options.data, kernel_class)
        if options.reserve is not None:
            rows = with_reserve(rows, 1e-3 * options.reserve)
        for name, found in sorted(errors(rows, options.share).items(), key=lambda each: np.nanmean(each[1])):
            by_gpu = zip(GPUS, np.nanmean(found, axis=1), strict=True)
            print(
                f"{kernel_class.value}, {name}: {np.nanmean(found):.1%} "
                f"({', '.join(f'{gpu} {error:.0%}' for gpu, error in by_gpu)})",
                flush=True,
            )


if __name__ == "__main__":
    main()
