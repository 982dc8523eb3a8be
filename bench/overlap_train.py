"""Trains the shipped overlap predictor on what overlap_measure.py measured.

How well such predictors do on networks that they were not taught is what `headway evaluate predictor
--measured MEASURED.jsonl` tells.

    .venv/bin/python bench/overlap_train.py MEASURED.jsonl [--out src/headway/predict/data] [--seed 0]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from headway.predict.overlap import PAIR_VERSION
from headway.predict.overlap_fit import fit_trees
from headway.predict.pairs import read_pairs
from headway.predict.pressures import processor_limits
from headway.wiring.calibration import known_latency


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/headway/predict/data"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.measured, processor_limits(known_latency()[0], 2))
    print(f"{len(pairs)} pairs, median w {np.median(pairs.losses):.2f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, with_fluid in (("overlap_trees", True), ("overlap_trees_no_fluid", False)):
        trees = fit_trees(
            pairs.vectors, pairs.losses, pairs.weights, with_fluid=with_fluid, seed=arguments.seed
        )
        arrays = trees.to_arrays() | {"version": np.array(PAIR_VERSION), "adds": np.array(with_fluid)}
        np.savez_compressed(arguments.out / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main()
