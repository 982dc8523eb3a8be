"""Finds the classes of blocks that are shipped: k-means over synthetic networks on lanes and simulated GPUs.

Members of measured pairs (of overlap_measure.py) and blocks of synthetic networks on two simulated GPUs count
alike. Features are clipped to their middle 98 %, standardised, and clipped at two standard deviations: so no
feature outweighs the others where blocks have more of it than any that were seen here. `--compare` writes
nothing and tells what the classes found are worth beside those that are shipped: the share of blocks in the
largest class, and the errors of predictions that learn by class.

    .venv/bin/python bench/block_classes.py MEASURED.jsonl [--out src/headway/predict/data] [--seed 0]
    .venv/bin/python bench/block_classes.py MEASURED.jsonl --compare [--pairs 600]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from headway.config import StreamHardware
from headway.core.errors import HeadwayError
from headway.models import load_model
from headway.predict import classes
from headway.predict.assessment import assess
from headway.predict.fluid import Blocks
from headway.predict.pairs import Pairs, read_pairs
from headway.predict.pressures import processor_limits
from headway.predict.rivals import OURS, RIVALS
from headway.predict.splits import shipped_splits
from headway.predict.synthetic import synthetic_network
from headway.wiring.calibration import known_latency
from headway.wiring.simulated_pairs import RULES, simulated_pairs
from headway.wiring.streams import stream_table

CLASSES = 8
CLIPPED = 0.01  # of the rows at either end of each feature
MOST_DEVIATIONS = 2.0  # from the mean
GPUS = ("a100-sxm-40gb", "t4")
NETWORKS = 140
STARTS = 20


def on_gpus(seed: int) -> np.ndarray:
    """Class vectors of blocks of synthetic networks on simulated GPUs."""
    rows = []
    for gpu in GPUS:
        hardware = StreamHardware.model_validate({"name": "gpu", "gpu": gpu, "block": "1 ms"})
        device = hardware.device()
        for number in range(NETWORKS):
            try:
                graph = load_model(synthetic_network(number, seed=seed))
                table, _ = stream_table(str(number), graph, hardware, device)
            except HeadwayError:
                continue  # recurrent networks have no kernels there
            rows.append(classes.class_vectors(Blocks.of(table.blocks_on(1))))
    return np.concatenate(rows)


def found(pairs: Pairs, seed: int) -> dict[str, np.ndarray]:
    """Centres, and how rows are clipped and standardised before they are compared with them."""
    sources = [np.concatenate([classes.class_vectors(blocks) for blocks in pairs.blocks]), on_gpus(seed)]
    rows = np.concatenate(sources)
    weights = np.concatenate([np.full(len(source), 1.0 / len(source)) for source in sources])
    low, high = np.quantile(rows, [CLIPPED, 1.0 - CLIPPED], axis=0)
    clipped = np.clip(rows, low, high)
    mean = np.average(clipped, axis=0, weights=weights)
    scale = np.sqrt(np.average((clipped - mean) ** 2, axis=0, weights=weights))
    scale[scale < 1e-9] = 1.0
    low = np.maximum(low, mean - MOST_DEVIATIONS * scale)
    high = np.minimum(high, mean + MOST_DEVIATIONS * scale)
    standard = (np.clip(rows, low, high) - mean) / scale
    fitted = KMeans(CLASSES, n_init=STARTS, random_state=seed).fit(standard, sample_weight=weights)
    order = np.lexsort(fitted.cluster_centers_.T[::-1])
    print(f"blocks: {', '.join(str(len(source)) for source in sources)}")
    return {"low": low, "high": high, "mean": mean, "scale": scale, "centres": fitted.cluster_centers_[order]}


def told(name: str, pairs: Pairs, seed: int) -> None:
    """Print what predictions that learn by class are off on one sample."""
    assigned = np.concatenate([classes.block_classes(blocks) for blocks in pairs.blocks])
    largest = np.bincount(assigned, minlength=CLASSES).max() / len(assigned)
    result = assess(name, pairs, shipped_splits(), seed, rivals={OURS: RIVALS[OURS]})
    errors = [f"{each.split} {100 * each.mape:.2f}" for each in result.scores if "online" in each.predictor]
    curve = [f"{each.overlaps}: {100 * each.mape:.2f}" for each in result.curve]
    print(f"{name}: largest class {largest:.0%}; {', '.join(errors)}; {', '.join(curve)}", flush=True)


def main() -> None:
    """Find the classes and write them, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/headway/predict/data"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--pairs", type=int, default=600, help="in each simulated sample")
    options = parser.parse_args()
    measured = read_pairs(options.measured, processor_limits(known_latency()[0], 2))
    arrays = found(measured, options.seed)
    centres = arrays["centres"] * arrays["scale"] + arrays["mean"]
    for row in centres:
        print(
            " ".join(f"{name} {value:.2f}" for name, value in zip(classes.CLASS_FEATURES, row, strict=True))
        )
    if not options.compare:
        np.savez_compressed(options.out / "block_classes.npz", **arrays)
        return
    samples: Mapping[str, Pairs] = {"measured": measured} | {
        rule: simulated_pairs(rule, GPUS[0], options.pairs, shipped_splits(), options.seed) for rule in RULES
    }
    shipped = classes.shipped_classes
    for words, use in (("shipped", shipped), ("found", lambda: arrays)):
        classes.shipped_classes = use
        print(words)
        for name, pairs in samples.items():
            told(name, pairs, options.seed)


if __name__ == "__main__":
    main()
