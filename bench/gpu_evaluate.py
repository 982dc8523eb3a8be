"""Errors of the GPU predictor on GPUs and shapes left out together; chooses settings on inner folds.

    python bench/gpu_evaluate.py DATA --out evaluation.json

For each GPU left out, the setting of each class is the best on inner folds: one more GPU is left out of
those that remain and predicted. Shapes of folds 80 to 99 serve the test alone. Writes the chosen settings,
the errors' quantiles (margins of the intervals) and the tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from _gpu_data import GPUS, Rows, Setting, fit, load, predicted_s

from headway.predict.gpu.features import KernelClass

_INNER_TRAIN, _TRAIN = 65, 80  # folds below: inner training shapes; all training shapes
_OF_EACH = 270  # errors that each GPU gives to a margin
LEVEL = 0.9  # of the intervals
_DEVICE = ("power_share", "cache_per_sm", "cache", "clock_per_byte")
_CACHE = ("bytes_over_cache", "weights_over_cache")
_BALANCE = ("memory_over_compute",)
_PRODUCT_SETS = {
    "no balance": _DEVICE + _CACHE + _BALANCE,
    "no generation": (*_DEVICE, "recent", *_CACHE, *_BALANCE),
}
_WAVES = ("waves", "row_waves")
_VECTOR_SETS = {
    "no waves": (*_DEVICE, "recent", "stacked", *_CACHE, *_WAVES),
    "row waves": (*_DEVICE, "recent", "stacked", *_CACHE, "waves"),
}
_FAMILIES = (  # one setting serves a family: few GPUs cannot tell many choices apart
    (KernelClass.ELEMENTWISE, KernelClass.SOFTMAX, KernelClass.LAYER_NORM),
    (KernelClass.BMM,),
    (KernelClass.LINEAR,),
    (KernelClass.CONV,),
)


def settings(kernel_class: KernelClass) -> dict[str, Setting]:
    """The settings to choose from."""
    product = kernel_class in (KernelClass.BMM, KernelClass.LINEAR, KernelClass.CONV)
    return {
        f"{name}, {leaves} leaves": Setting(left_out, leaves, trees)
        for name, left_out in (_PRODUCT_SETS if product else _VECTOR_SETS).items()
        for leaves, trees in (((12, 150),) if product else ((6, 150), (16, 120)))
    }


def seen_setting(kernel_class: KernelClass) -> Setting:
    """The setting of the trees for GPUs that were measured; convolution algorithms jump, so it has more."""
    return Setting((), 40, 500 if kernel_class is KernelClass.CONV else 250, 20)


def inner_errors(rows: Rows, share: float) -> dict[str, np.ndarray]:
    """For each setting the error of GPU i when j was left out too, as (i, j)."""
    found = {}
    some = np.random.default_rng(3).random(len(rows.gpu)) < share
    for name, setting in settings(rows.kernel_class).items():
        errors = np.full((len(GPUS), len(GPUS)), np.nan)
        for one, other in itertools.combinations(range(len(GPUS)), 2):
            train = (rows.gpu != one) & (rows.gpu != other) & (rows.fold < _INNER_TRAIN) & some
            forest = fit(rows, train, setting)
            for gpu, without in ((one, other), (other, one)):
                check = (rows.gpu == gpu) & (rows.fold >= _INNER_TRAIN) & (rows.fold < _TRAIN) & some
                ratio = predicted_s(rows, check, forest) / rows.latency_s[check]
                errors[gpu, without] = np.abs(ratio - 1).mean()
        found[name] = errors
    return found


def evaluate(rows: Rows, inner: dict[str, np.ndarray]) -> dict:
    """The nested evaluation of one class; `inner` are the inner errors of its family."""
    choices = settings(rows.kernel_class)
    result: dict = {"inner": {name: float(np.nanmean(errors)) for name, errors in inner.items()}}
    result["final_setting"] = min(inner, key=lambda name: np.nanmean(inner[name]))
    result["left_out"] = {}
    logs: list[np.ndarray] = []
    for gpu, name in enumerate(GPUS):
        # errors[:, gpu] never saw that GPU, neither in training nor in the check
        setting = min(inner, key=lambda one: np.nanmean(inner[one][:, gpu]))
        forest = fit(rows, (rows.gpu != gpu) & (rows.fold < _TRAIN), choices[setting])
        test = (rows.gpu == gpu) & (rows.fold >= _TRAIN)
        result["left_out"][name] = {
            "setting": setting,
            **_errors(rows, test, predicted_s(rows, test, forest)),
        }
        logs.append(np.log(rows.latency_s[test] / predicted_s(rows, test, forest)))
    seen = fit(rows, rows.fold < _TRAIN, seen_setting(rows.kernel_class), with_gpu=True)
    test = rows.fold >= _TRAIN
    result["seen"] = {}
    for gpu, name in enumerate(GPUS):
        these = test & (rows.gpu == gpu)
        result["seen"][name] = _errors(rows, these, predicted_s(rows, these, seen))
    result["margins"] = {
        "unseen": _quantiles(_even(logs)),
        "seen": _quantiles(np.log(rows.latency_s[test] / predicted_s(rows, test, seen))),
    }
    for gpu, name in enumerate(GPUS):  # coverage with margins from the other GPUs alone
        low, high = _quantiles(
            np.concatenate(
                [log[:: max(1, len(log) // 500)][:500] for at, log in enumerate(logs) if at != gpu]
            )
        )
        result["left_out"][name]["coverage"] = float(((logs[gpu] >= low) & (logs[gpu] <= high)).mean())
    return result


def _even(logs: Iterable[np.ndarray]) -> np.ndarray:
    """The same number of errors of each GPU, so that each counts alike."""
    return np.concatenate([log[:: max(1, len(log) // _OF_EACH)][:_OF_EACH] for log in logs])


def _quantiles(logs: np.ndarray) -> list[float]:
    """Lower and upper margin in log latency, with the correction of split conformal prediction."""
    outside = (1 - LEVEL) / 2 * (1 - 1 / len(logs))
    return [float(np.quantile(logs, outside)), float(np.quantile(logs, 1 - outside))]


def _errors(rows: Rows, test: np.ndarray, predicted: np.ndarray) -> dict:
    ratio = predicted / rows.latency_s[test]
    error = np.abs(ratio - 1)
    above = rows.latency_s[test] > 2 * rows.floor_s[test]
    return {
        "rows": int(test.sum()),
        "mape": float(error.mean()),
        "mape_above_floor": float(error[above].mean()),
        "rows_above_floor": int(above.sum()),
        "p95": float(np.quantile(error, 0.95)),
        "bias": float(np.log(ratio).mean()),
    }


def noise(folder: Path) -> dict:
    """The spread of shapes that were measured twice."""
    spreads = []
    for kernel_class in (KernelClass.ELEMENTWISE, KernelClass.SOFTMAX, KernelClass.LAYER_NORM):
        rows = load(folder, kernel_class)
        found: dict[tuple, list[float]] = {}
        for key in zip(rows.op, rows.gpu, *rows.dims.T, rows.latency_s, strict=True):
            found.setdefault(key[:-1], []).append(float(key[-1]))
        spreads += [max(two) / min(two) - 1 for two in found.values() if len(two) > 1]
    return {"pairs": len(spreads), "median": float(np.median(spreads)), "largest": float(max(spreads))}


def main() -> None:
    """Evaluate the classes that are asked for and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--classes", nargs="*", default=[one.value for one in KernelClass])
    parser.add_argument("--inner-share", type=float, default=0.35, help="rows used in the inner folds")
    arguments = parser.parse_args()
    document = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for family in _FAMILIES:
        classes = [one for one in family if one.value in arguments.classes]
        if not classes:
            continue
        rows = {one: load(arguments.data, one) for one in classes}
        inner = [inner_errors(one, arguments.inner_share) for one in rows.values()]
        joint = {name: np.mean([errors[name] for errors in inner], axis=0) for name in inner[0]}
        for one in classes:
            document[one.value] = evaluate(rows[one], joint)
    for name in arguments.classes:
        found = document[name]
        print(f"{name}: {found['final_setting']}")
        for kind in ("left_out", "seen"):
            for gpu, errors in found[kind].items():
                print(f"  {kind:9}{gpu:5}", errors, flush=True)
    document["noise"] = noise(arguments.data)
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
