"""Errors on whole transformers: each GPU left out of training, and with the parameters that are shipped.

    python bench/gpu_models.py DATA evaluation.json --out models.json

Kernels come from the models' configurations (model_configs/*.json), measured latencies from models.csv. No
whole model is ever trained on. Rows compiled by a compiler are shown for comparison; the mixture-of-experts
model has no kernel sequence here and is left out.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from _gpu_data import GPUS, device_of, fit, load
from gpu_evaluate import LEVEL, settings

from headway.predict.gpu.features import KernelClass
from headway.predict.gpu.predictor import GpuPredictor, shipped_predictor
from headway.predict.gpu.transformer import transformer_blocks

_TRAIN = 80
_CLASSES = tuple(one for one in KernelClass if one is not KernelClass.CONV)  # what transformers launch


def main() -> None:
    """Fit without each GPU, predict the models, and write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("evaluation", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    evaluation = json.loads(arguments.evaluation.read_text())
    rows = {one: load(arguments.data, one) for one in _CLASSES}
    margins = {
        one.value: {kind: tuple(pair) for kind, pair in evaluation[one.value]["margins"].items()}
        for one in _CLASSES
    }
    predictors = {}
    for gpu, name in enumerate(GPUS):
        unseen = {}
        for one in _CLASSES:
            setting = settings(one)[evaluation[one.value]["left_out"][name]["setting"]]
            train = (rows[one].gpu != gpu) & (rows[one].fold < _TRAIN)
            unseen[one] = fit(rows[one], train, setting)
        predictors[name] = {
            "unseen": GpuPredictor(unseen, {}, margins, {}, LEVEL),
            "seen": shipped_predictor(),
        }
    found = [
        _predicted(row, arguments.data, predictors)
        for row in csv.DictReader((arguments.data / "models.csv").open())
        if not row["model"].startswith("switch")
    ]
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    eager = [one for one in found if not one["compiled"]]
    for kind in ("unseen", "seen"):
        for name in GPUS:
            errors = [one[kind]["error"] for one in eager if one["gpu"].startswith(name)]
            print(f"{kind} {name}: {len(errors)} models, mean {np.mean(np.abs(errors)):.1%}", flush=True)
        errors = [one[kind]["error"] for one in eager]
        inside = [one[kind]["low_ms"] <= one["measured_ms"] <= one[kind]["high_ms"] for one in eager]
        print(
            f"{kind} all: {len(errors)} models, mean {np.mean(np.abs(errors)):.1%}, largest "
            f"{np.max(np.abs(errors)):.1%}, {np.mean(inside):.0%} inside the interval"
        )


def _predicted(row: dict[str, str], folder: Path, predictors: dict) -> dict:
    config = json.loads((folder / "model_configs" / f"{row['model']}.json").read_text())
    # The published measurements of BERT are of the model that classifies sequences.
    blocks = transformer_blocks(
        config,
        int(row["batch"]),
        int(row["seq"]),
        int(row["layers"]) or None,
        classifies=config["model_type"] == "bert",
    )
    kernels = [kernel for block in blocks for kernel in block]
    measured_ms = float(row["latency_ms"])
    result: dict = {
        "gpu": row["gpu"],
        "model": row["model"],
        "sequence": int(row["seq"]),
        "batch": int(row["batch"]),
        "compiled": row["compiled"] == "true",
        "measured_ms": measured_ms,
    }
    for kind, predictor in predictors[row["gpu"].split("-")[0]].items():
        estimates = predictor.stream_s(kernels, device_of(row["gpu"]))
        by_class = {
            one.value: 1e3
            * sum(
                float(seconds)
                for seconds, kernel in zip(estimates.middle_s, kernels, strict=True)
                if kernel.kernel_class is one
            )
            for one in _CLASSES
        }
        middle_ms = 1e3 * float(estimates.middle_s.sum())
        result[kind] = {
            "ms": middle_ms,
            "low_ms": 1e3 * float(estimates.low_s.sum()),
            "high_ms": 1e3 * float(estimates.high_s.sum()),
            "error": middle_ms / measured_ms - 1,
            "by_class_ms": by_class,
        }
    return result


if __name__ == "__main__":
    main()
