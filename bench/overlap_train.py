"""Trains the shipped overlap predictor, and the classes of blocks, on what overlap_measure.py measured.

How well such predictors do on networks that they were not taught is what `headway evaluate predictor
--measured MEASURED.jsonl` tells.

    .venv/bin/python bench/overlap_train.py MEASURED.jsonl [--out src/headway/predict/data] [--seed 0]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from headway.predict.classes import class_vectors
from headway.predict.overlap import PAIR_VERSION
from headway.predict.overlap_fit import fit_trees
from headway.predict.pairs import Pairs, read_pairs
from headway.predict.pressures import processor_limits
from headway.wiring.calibration import known_latency

CLASSES = 8


def classes(pairs: Pairs, seed: int) -> dict[str, np.ndarray]:
    """Centres of k-means over all members, standardised (Lloyd, from spread-out rows)."""
    rows = np.concatenate([class_vectors(blocks) for blocks in pairs.blocks])
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale < 1e-9] = 1.0
    rows = (rows - mean) / scale
    rng = np.random.default_rng(seed)
    centres = rows[rng.integers(len(rows))][None]
    while len(centres) < CLASSES:
        far = ((rows[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        centres = np.vstack([centres, rows[rng.choice(len(rows), p=far / far.sum())]])
    for _ in range(100):
        nearest = ((rows[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        moved = [
            rows[nearest == at].mean(axis=0) if (nearest == at).any() else centres[at]
            for at in range(CLASSES)
        ]
        centres = np.array(moved)
    return {"mean": mean, "scale": scale, "centres": centres}


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
    np.savez_compressed(arguments.out / "block_classes.npz", **classes(pairs, arguments.seed))


if __name__ == "__main__":
    main()
