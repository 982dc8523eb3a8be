"""Classes of blocks: what a new model has in common with those that were seen before.

A class is the nearest of a few fixed centres in scale-free features, from k-means over synthetic blocks
(`bench/block_classes.py`), so that a block has the same class on every day and in every log.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from headway.predict.fluid import Blocks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLASS_FEATURES: Final = ("compute", "memory", "occupancy", "gap", "log_cache")


def class_vectors(blocks: Blocks) -> NDArray[np.float64]:
    """What classes are told apart by, a row for each block with columns as CLASS_FEATURES."""
    import numpy as np

    vectors = blocks.table[:, 1:6].copy()
    vectors[:, -1] = np.log1p(vectors[:, -1])
    return vectors


def block_classes(blocks: Blocks) -> list[int]:
    """The class of each block, a position in the shipped centres."""
    import numpy as np

    shipped = shipped_classes()
    rows = np.clip(class_vectors(blocks), shipped["low"], shipped["high"])
    rows = (rows - shipped["mean"]) / shipped["scale"]
    distances = ((rows[:, None, :] - shipped["centres"][None, :, :]) ** 2).sum(axis=2)
    return [int(each) for each in np.argmin(distances, axis=1)]


@lru_cache(maxsize=1)
def shipped_classes() -> dict[str, NDArray[Any]]:
    """The centres; features are first clipped (`low`, `high`) and standardised (`mean`, `scale`)."""
    import numpy as np

    path = resources.files("headway.predict") / "data" / "block_classes.npz"
    with path.open("rb") as file, np.load(file) as arrays:
        return {name: arrays[name] for name in ("low", "high", "mean", "scale", "centres")}
