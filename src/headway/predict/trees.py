"""Gradient-boosted trees as arrays, evaluated by NumPy: no library is needed where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Trees:
    """Several ensembles (heads) over the same features, each the sum of its trees' leaves.

    All trees are complete binary trees of one depth d, node i with children 2i + 1 (feature <= threshold)
    and 2i + 2; a tree that ends earlier repeats its leaf. `features` and `thresholds` are [tree, 2^d - 1],
    `leaves` is [tree, 2^d]; `first_tree` says where each head's trees begin, its last entry is their number.
    """

    features: NDArray[np.intp]
    thresholds: NDArray[np.float64]
    leaves: NDArray[np.float64]
    first_tree: tuple[int, ...]

    @property
    def depth(self) -> int:
        """Comparisons on the way to a leaf."""
        return int(self.leaves.shape[1]).bit_length() - 1

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of each head's trees, [head, row], for rows of features [row, feature]."""
        import numpy as np

        count, width = rows.shape
        trees, nodes = self.features.shape
        values = np.ascontiguousarray(rows).ravel()
        features, thresholds = self.features.ravel(), self.thresholds.ravel()
        offset = (np.arange(trees) * nodes)[:, None]
        row_at = (np.arange(count) * width)[None, :]
        node = np.zeros((trees, count), dtype=np.intp)
        for _ in range(self.depth):
            place = node + offset
            right = values.take(row_at + features.take(place)) > thresholds.take(place)
            node = 2 * node + 1 + right
        leaves = self.leaves.ravel().take(node - nodes + (np.arange(trees) * (nodes + 1))[:, None])
        heads: NDArray[np.float64] = np.add.reduceat(leaves, np.array(self.first_tree[:-1]), axis=0)
        return heads

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Compact arrays that `from_arrays` reads: 16-bit features, 32-bit numbers."""
        import numpy as np

        return {
            "features": self.features.astype(np.int16),
            "thresholds": self.thresholds.astype(np.float32),
            "leaves": self.leaves.astype(np.float32),
            "first_tree": np.array(self.first_tree, dtype=np.int32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Trees:
        """Read what `to_arrays` gave. Raises ValueError for arrays whose shapes do not fit together."""
        import numpy as np

        features, thresholds, leaves = arrays["features"], arrays["thresholds"], arrays["leaves"]
        first = tuple(int(each) for each in arrays["first_tree"])
        trees = len(features)
        nodes = features.shape[1] if features.ndim == 2 else -1
        fits = (
            nodes >= 1
            and (nodes + 1) & nodes == 0
            and thresholds.shape == features.shape
            and leaves.shape == (trees, nodes + 1)
            and len(first) >= 2
            and first[0] == 0
            and first[-1] == trees
            and all(low < high for low, high in pairwise(first))
        )
        if not fits:
            raise ValueError(
                f"trees of shapes {features.shape}, {thresholds.shape}, {leaves.shape}, heads at {first}"
            )
        return cls(features.astype(np.intp), thresholds.astype(float), leaves.astype(float), first)


def complete_trees(heads: Sequence[Sequence[Mapping[str, Any]]]) -> Trees:
    """Trees from LightGBM's `dump_model()["tree_info"]`, one list for each head.

    Raises ValueError for a split that is not numeric or sends missing values elsewhere than comparisons do.
    """
    import numpy as np

    roots = [tree["tree_structure"] for head in heads for tree in head]
    depth = max(1, *(_depth(root) for root in roots))
    nodes = 2**depth - 1
    features = np.zeros((len(roots), nodes), dtype=np.intp)
    thresholds = np.full((len(roots), nodes), np.inf)
    leaves = np.zeros((len(roots), nodes + 1))
    for tree, root in enumerate(roots):
        _fill(root, 0, features[tree], thresholds[tree], leaves[tree])
    first = [0]
    for head in heads:
        first.append(first[-1] + len(head))
    return Trees(features, thresholds, leaves, tuple(first))


def _depth(node: Mapping[str, Any]) -> int:
    if "leaf_value" in node:
        return 0
    return 1 + max(_depth(node["left_child"]), _depth(node["right_child"]))


def _fill(
    node: Mapping[str, Any],
    at: int,
    features: NDArray[np.intp],
    thresholds: NDArray[np.float64],
    leaves: NDArray[np.float64],
) -> None:
    nodes = len(features)
    if at >= nodes:
        leaves[at - nodes] = node["leaf_value"]
    elif "leaf_value" in node:
        _fill(node, 2 * at + 1, features, thresholds, leaves)
        _fill(node, 2 * at + 2, features, thresholds, leaves)
    else:
        if node["decision_type"] != "<=":
            raise ValueError(f"a split by {node['decision_type']!r}; accepted: '<='")
        features[at], thresholds[at] = node["split_feature"], node["threshold"]
        _fill(node["left_child"], 2 * at + 1, features, thresholds, leaves)
        _fill(node["right_child"], 2 * at + 2, features, thresholds, leaves)
