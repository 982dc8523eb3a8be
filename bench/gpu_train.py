"""Fit the GPU predictor's parameters that are shipped.

    python bench/gpu_train.py DATA evaluation.json

DATA is a folder with the measured kernels (bmm.parquet, linear.parquet, conv.parquet, vector.parquet);
evaluation.json is what bench/gpu_evaluate.py wrote: it holds the settings chosen and the margins. All rows
are used.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from _gpu_data import GPUS, fit, load
from gpu_evaluate import LEVEL, seen_setting, settings

from headway.predict.gpu.features import KernelClass

_FOLDER = Path(__file__).parent.parent / "src" / "headway" / "predict" / "gpu" / "data"
_MEASURED = {  # cards whose rows the trees for measured GPUs may serve
    "a100-pcie-40gb": "a100",
    "a100-pcie-80gb": "a100",
    "a100-sxm-40gb": "a100",
    "p100": "p100",
    "p4": "p4",
    "t4": "t4",
    "v100": "v100",
}


def main() -> None:
    """Fit every class on all rows and write trees and margins beside the package's code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("evaluation", type=Path)
    parser.add_argument("--folder", type=Path, default=_FOLDER)
    parser.add_argument("--classes", nargs="*", default=[one.value for one in KernelClass])
    arguments = parser.parse_args()
    evaluation = json.loads(arguments.evaluation.read_text())
    stored: dict[str, np.ndarray] = {}
    margins = {}
    if len(arguments.classes) < len(KernelClass):  # the others stay as they are
        with np.load(arguments.folder / "trees.npz") as kept:
            stored = {name: kept[name] for name in kept.files}
        margins = json.loads((arguments.folder / "parameters.json").read_text())["margins"]
    for kernel_class in map(KernelClass, arguments.classes):
        rows = load(arguments.data, kernel_class)
        all_rows = np.ones(len(rows.gpu), bool)
        found = evaluation[kernel_class.value]
        setting = settings(kernel_class)[found["final_setting"]]
        stored |= fit(rows, all_rows, setting).arrays(f"unseen.{kernel_class.value}")
        seen = fit(rows, all_rows, seen_setting(kernel_class), with_gpu=True)
        stored |= seen.arrays(f"seen.{kernel_class.value}")
        margins[kernel_class.value] = {
            kind: [round(margin, 4) for margin in pair] for kind, pair in found["margins"].items()
        }
        print(kernel_class.value, len(rows.gpu), "rows", found["final_setting"], flush=True)
    np.savez_compressed(arguments.folder / "trees.npz", **stored)
    parameters = {
        "level": LEVEL,
        "measured": {name: GPUS.index(gpu) for name, gpu in _MEASURED.items()},
        "margins": margins,
    }
    (arguments.folder / "parameters.json").write_text(json.dumps(parameters, indent=1) + "\n")


if __name__ == "__main__":
    main()
