"""Boosted regression trees, evaluated with NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIELDS: Final = ("feature", "threshold", "left", "right", "value", "roots")


@dataclass(frozen=True, slots=True)
class Forest:
    """A sum of binary trees in flat arrays, one entry for each node of all trees.

    A row goes left where its feature is at most the threshold. A leaf has itself for both children, so that
    walking on from it stays there. `roots` are the first nodes of the trees, `depth` the longest path,
    `names` the features that the columns must hold, in order.
    """

    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    roots: NDArray[np.int32]
    depth: int
    names: tuple[str, ...]

    def sums(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The trees' sum for each row of `columns` (rows x features)."""
        node = np.broadcast_to(self.roots, (len(columns), len(self.roots)))
        row = np.arange(len(columns))[:, None]
        for _ in range(self.depth):
            goes_left = columns[row, self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        total: NDArray[np.float64] = self.value[node].sum(axis=1, dtype=np.float64)
        return total

    def arrays(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The arrays to store, their names begun with `prefix`; `from_arrays` reads them."""
        stored: dict[str, NDArray[np.generic]] = {f"{prefix}.{name}": getattr(self, name) for name in _FIELDS}
        stored[f"{prefix}.depth"] = np.array(self.depth)
        stored[f"{prefix}.names"] = np.array(self.names)
        return stored

    @classmethod
    def from_arrays(cls, stored: Mapping[str, NDArray[np.generic]], prefix: str) -> Forest:
        """A forest from the arrays that `arrays` gave."""
        return cls(
            depth=int(stored[f"{prefix}.depth"].item()),
            names=tuple(str(name) for name in stored[f"{prefix}.names"]),
            **{name: stored[f"{prefix}.{name}"] for name in _FIELDS},  # type: ignore[arg-type]
        )
