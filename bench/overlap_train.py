"""Trains the shipped overlap predictor, and the classes of blocks, on what overlap_measure.py measured.

Leaves one family of networks out at a time for the errors that it prints, then fits all of it for what is
shipped. Errors are of the time of the pair, |T_hat - T| / T, beside the noise floor (each round's w against
the others' median) and what needs no training.

    .venv/bin/python bench/overlap_train.py MEASURED.jsonl [--out src/headway/predict/data] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from headway.cost.contention import MOST_LOSS
from headway.models.block_work import BlockWork
from headway.predict.classes import class_vectors
from headway.predict.fluid import Blocks, fluid_losses
from headway.predict.mlp import fit_perceptron
from headway.predict.overlap import HEADS, PAIR_VERSION, TreeOverlap, pair_vectors
from headway.predict.pressures import lane_pressures, processor_limits
from headway.predict.trees import Trees, complete_trees
from headway.wiring.calibration import known_latency

TREES, LEAVES, DEPTH, RATE = 30, 12, 4, 0.1
LEAST_RATIO = 0.1  # pairs that are less even say too little
CLASSES = 8


@dataclass(frozen=True)
class Data:
    """Measured pairs, a row each."""

    first: Blocks
    second: Blocks
    w: np.ndarray
    alone: np.ndarray  # [pair, member]
    together: np.ndarray
    rounds: np.ndarray  # [pair, round]: w of each round
    families: np.ndarray  # [pair, member]
    counts: np.ndarray  # [pair, feature]: operators of each sort and runs of both, the longer network first

    def at(self, rows: np.ndarray) -> Data:
        """Those rows."""
        positions = np.flatnonzero(rows)
        return Data(
            self.first.at(positions),
            self.second.at(positions),
            self.w[rows],
            self.alone[rows],
            self.together[rows],
            self.rounds[rows],
            self.families[rows],
            self.counts[rows],
        )


def load(path: Path) -> Data:
    """Pairs that are even enough, as rows."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:] if line.endswith("}")]
    device = processor_limits(known_latency()[0], 2)
    sides: list[list[Any]] = [[], []]
    alone, together, rounds, families, counts = [], [], [], [], []
    for line in lines:
        table = np.array(line["rounds"])
        solo, both = np.median(table[:, :2], axis=0), float(np.median(table[:, 2]))
        if solo.min() < LEAST_RATIO * solo.max():
            continue
        for at, member in enumerate(line["pair"]):
            work = BlockWork(
                flops=member["flops"] * member["times"],
                read_bytes=member["moved_bytes"] * member["times"],
                written_bytes=0,
                weight_bytes=0,
                output_elements=member["output_elements"],
                kernels=member["kernels"] * member["times"],
                footprint_bytes=member["footprint_bytes"],
                operator_shares={},
            )
            probed = [member["slowdowns"]]
            pressure = lane_pressures("synthetic", 1, 2, [work], [solo[at]], device, probed)[0]
            # Seconds are those of one run: what is shipped sees blocks, not stretches of many.
            sides[at].append((solo[at] / member["times"], *pressure[3:8], *pressure.slowdowns))
        alone.append(solo)
        together.append(both)
        rounds.append((table[:, 2] - table[:, :2].max(axis=1)) / table[:, :2].min(axis=1))
        families.append([member["family"] for member in line["pair"]])
        members = sorted(zip(solo, line["pair"], strict=True), key=lambda each: -each[0])
        counts.append([each for _, member in members for each in (*member["counts"], member["times"])])
    first, second = (np.array(side) for side in sides)
    losses = (np.array(together) - np.max(alone, axis=1)) / np.min(alone, axis=1)
    return Data(
        Blocks(first),
        Blocks(second),
        np.clip(losses, 0.0, MOST_LOSS),
        np.array(alone),
        np.array(together),
        np.array(rounds),
        np.array(families),
        np.array(counts, dtype=float),
    )


def fit(data: Data, *, with_fluid: bool, seed: int) -> tuple[Trees, bool]:
    """Trees for each of HEADS, and whether they add to the fluid base."""
    rows = pair_vectors(data.first, data.second)
    target = data.w - rows[:, 0] if with_fluid else data.w
    if not with_fluid:
        rows[:, 0] = 0.0
    weights = (data.alone.min(axis=1) / data.together) ** 2
    heads = []
    for quantile in HEADS:
        model = lightgbm.LGBMRegressor(
            objective="quantile",
            alpha=quantile,
            n_estimators=TREES,
            num_leaves=LEAVES,
            max_depth=DEPTH,
            learning_rate=RATE,
            min_child_samples=15,
            subsample=0.8,
            subsample_freq=1,
            colsample_bytree=0.7,
            random_state=seed,
            n_jobs=1,
            deterministic=True,
            verbose=-1,
        )
        model.fit(rows, target, sample_weight=weights)
        heads.append(model.booster_.dump_model()["tree_info"])
    return complete_trees(heads), with_fluid


def others(rest: Data, test: Data, seed: int) -> dict[str, np.ndarray]:
    """w of what others predict with: a plane and a random forest over the pair vector, and SKADI's network
    over counts of operators and runs, which predicts T."""
    known, asked = pair_vectors(rest.first, rest.second), pair_vectors(test.first, test.second)
    weights = np.sqrt((rest.alone.min(axis=1) / rest.together) ** 2)
    scale = known.std(axis=0) + 1e-9
    inputs = np.column_stack([known / scale, np.ones(len(known))])
    ridge = 0.1 * np.eye(inputs.shape[1])
    plane, *_ = np.linalg.lstsq(
        np.vstack([inputs * weights[:, None], ridge]),
        np.concatenate([rest.w * weights, np.zeros(len(ridge))]),
        rcond=None,
    )
    forest = RandomForestRegressor(200, min_samples_leaf=5, n_jobs=1, random_state=seed)
    forest.fit(known, rest.w, sample_weight=weights**2)
    skadi = fit_perceptron(rest.counts, rest.together, epochs=270, rng=np.random.default_rng(seed))
    longer, shorter = test.alone.max(axis=1), test.alone.min(axis=1)
    return {
        "plane over the pair vector": np.clip(
            np.column_stack([asked / scale, np.ones(len(asked))]) @ plane, 0.0, MOST_LOSS
        ),
        "random forest over the pair vector": forest.predict(asked),
        "SKADI's counts, predicting T": (skadi.predict(test.counts) - longer) / shorter,
    }


def errors(data: Data, w: np.ndarray) -> np.ndarray:
    """Relative errors of the pairs' times, positive where too little was predicted."""
    predicted = data.alone.max(axis=1) + w * data.alone.min(axis=1)
    return (data.together - predicted) / data.together


def described(name: str, wrong: np.ndarray, covered: float | None) -> str:
    """A row of the table."""
    size = np.abs(wrong)
    cover = "" if covered is None else f"{100 * covered:.1f} %"
    return (
        f"| {name} | {100 * size.mean():.1f} % | {100 * np.percentile(size, 95):.1f} % |"
        f" {100 * (wrong > 0.05).mean():.1f} % | {cover} |"
    )


def classes(data: Data, seed: int) -> dict[str, np.ndarray]:
    """Centres of k-means over all members, standardised (Lloyd, from spread-out rows)."""
    rows = np.concatenate([class_vectors(data.first), class_vectors(data.second)])
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
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/headway/predict/data"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = load(arguments.measured)
    print(f"{len(data.w)} pairs, median w {np.median(data.w):.2f}; {platform.machine()}, {date.today()}\n")
    predicted = {name: np.zeros((3, len(data.w))) for name in ("trees", "trees without the fluid base")}
    constant = np.zeros(len(data.w))
    compared: dict[str, np.ndarray] = {}
    for family in sorted(set(data.families.ravel())):
        left_out = (data.families == family).any(axis=1)
        rest = data.at(~left_out)
        test = data.at(left_out)
        constant[left_out] = np.median(rest.w)
        for name, w in others(rest, test, arguments.seed).items():
            compared.setdefault(name, np.zeros(len(data.w)))[left_out] = w
        for name, with_fluid in zip(predicted, (True, False), strict=True):
            trees, adds = fit(rest, with_fluid=with_fluid, seed=arguments.seed)
            predicted[name][:, left_out] = TreeOverlap(trees, adds=adds).of_pairs(test.first, test.second)
    print(
        "| predictor | MAPE | p95 | under by > 5 % | within the 99 % loss |\n| --- | --- | --- | --- | --- |"
    )
    rest_w = np.array([np.median(np.delete(row, at)) for row in data.rounds for at in range(len(row))])
    shortest = data.alone.min(axis=1)
    floor = (data.rounds.ravel() - rest_w) * np.repeat(shortest / data.together, data.rounds.shape[1])
    print(described("noise floor, round against the others", floor, None))
    print(described("serial sum", errors(data, np.ones(len(data.w))), None))
    print(described("longest alone", errors(data, np.zeros(len(data.w))), None))
    print(described("constant, median of the rest", errors(data, constant), None))
    print(described("fluid base", errors(data, fluid_losses(data.first, data.second)), None))
    for name, w in compared.items():
        print(described(f"{name}, family left out", errors(data, w), None))
    for name, heads in predicted.items():
        print(
            described(f"{name}, family left out", errors(data, heads[0]), float((data.w <= heads[2]).mean()))
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, with_fluid in (("overlap_trees", True), ("overlap_trees_no_fluid", False)):
        trees, adds = fit(data, with_fluid=with_fluid, seed=arguments.seed)
        arrays = trees.to_arrays() | {"version": np.array(PAIR_VERSION), "adds": np.array(adds)}
        np.savez_compressed(arguments.out / f"{name}.npz", **arrays)
    np.savez_compressed(arguments.out / "block_classes.npz", **classes(data, arguments.seed))


if __name__ == "__main__":
    main()
