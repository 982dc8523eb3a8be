"""The tables of docs/gpu-latency.md, from what gpu_evaluate.py and gpu_models.py wrote.

python bench/gpu_tables.py evaluation.json models.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from _gpu_data import GPUS

from headway.predict.gpu.features import KernelClass


def _table(heads: list[str], lines: list[list[str]]) -> None:
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join(["---"] * len(heads)) + " |")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def _errors(evaluation: dict, kind: str, key: str) -> None:
    lines = []
    for one in KernelClass:
        found = [evaluation[one.value][kind][gpu][key] for gpu in GPUS]
        lines.append([one.value, *(f"{value:.1%}" for value in found), f"{np.mean(found):.1%}"])
    _table(["class", *GPUS, "mean"], lines)


def main() -> None:
    """Print every table."""
    evaluation, models = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    for kind in ("left_out", "seen"):
        for key in ("mape", "mape_above_floor"):
            print(f"{kind}, {key}\n")
            _errors(evaluation, kind, key)
    print("coverage\n")
    _errors(evaluation, "left_out", "coverage")
    print("margins: factors on the middle value\n")
    _table(
        ["class", "seen", "unseen", "setting"],
        [
            [
                one.value,
                *(
                    " to ".join(f"{np.exp(margin):.2f}" for margin in evaluation[one.value]["margins"][kind])
                    for kind in ("seen", "unseen")
                ),
                evaluation[one.value]["final_setting"],
            ]
            for one in KernelClass
        ],
    )
    print("noise:", evaluation["noise"], "\n")
    eager = [one for one in models if not one["compiled"]]
    lines = []
    for gpu in (*GPUS, ""):
        of_gpu = [one for one in eager if one["gpu"].startswith(gpu)]
        cells = []
        for kind in ("unseen", "seen"):
            errors = np.array([one[kind]["error"] for one in of_gpu])
            inside = [one[kind]["low_ms"] <= one["measured_ms"] <= one[kind]["high_ms"] for one in of_gpu]
            cells += [f"{np.abs(errors).mean():.1%}", f"{errors.min():+.0%} to {errors.max():+.0%}"]
            cells.append(f"{np.mean(inside):.0%}")
        lines.append([gpu or "all", str(len(of_gpu)), *cells])
    _table(["GPU", "runs", "left out", "range", "inside", "seen", "range", "inside"], lines)
    lines = [
        [
            one["gpu"],
            one["model"],
            f"{one['sequence']}, {one['batch']}" + (", compiled" if one["compiled"] else ""),
            f"{one['measured_ms']:.0f}",
            *(f"{one[kind]['ms']:.0f} ({one[kind]['error']:+.1%})" for kind in ("unseen", "seen")),
        ]
        for one in models
    ]
    _table(["GPU", "model", "sequence, batch", "measured ms", "left out", "seen"], lines)


if __name__ == "__main__":
    main()
