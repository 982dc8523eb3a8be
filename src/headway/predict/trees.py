"""Gradient-boosted trees as arrays, evaluated by NumPy: no library is needed where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_DEPTH: Final = 4  # the leaves of a tree are bits of a 16-bit number
_CHUNK: Final = 2_048  # rows at once, so that the comparisons fit into caches


@dataclass(frozen=True)
class Trees:
    """Several ensembles (heads) over the same features, each the sum of its trees' leaves.

    All trees are complete binary trees of one depth d of at most 4, node i with children 2i + 1 (feature <=
    threshold) and 2i + 2; a tree that ends earlier repeats its leaf. `features` and `thresholds` are [tree,
    2^d - 1], `leaves` is [tree, 2^d]; `first_tree` says where each head's trees begin, its last entry is
    their number.
    """

    features: NDArray[np.intp]
    thresholds: NDArray[np.float64]
    leaves: NDArray[np.float64]
    first_tree: tuple[int, ...]

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of each head's trees, [head, row], for rows of features [row, feature]."""
        import numpy as np

        if len(rows) <= _CHUNK:
            return self._predict(rows)
        parts = [self._predict(rows[at : at + _CHUNK]) for at in range(0, len(rows), _CHUNK)]
        return np.concatenate(parts, axis=1)

    def _predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every comparison of every tree at once. One that is true excludes the leaves on its left; the first
        leaf that is not excluded is the tree's (QuickScorer, Lucchese et al., SIGIR 2015)."""
        import numpy as np

        nodes, trees = self.features.shape[1], len(self.features)
        by_node, thresholds, excluded = self._by_node
        right = rows.take(by_node, axis=1) > thresholds
        excluded = np.bitwise_or.reduce((right * excluded).reshape(-1, nodes, trees), axis=1)
        found = self.leaves.ravel().take(_first_clear().take(excluded) + self._leaf_offset)
        heads: NDArray[np.float64] = np.add.reduceat(found.T.copy(), self.first_tree[:-1], axis=0)
        return heads

    @cached_property
    def _by_node(self) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.uint16]]:
        """Features, thresholds and what is excluded, the first node of all trees first."""
        import numpy as np

        nodes = self.features.shape[1]
        masks = np.array([_left_leaves(node, nodes) for node in range(nodes)], dtype=np.uint16)
        return self.features.T.ravel(), self.thresholds.T.ravel(), masks.repeat(len(self.features))

    @cached_property
    def _leaf_offset(self) -> NDArray[np.intp]:
        import numpy as np

        trees, leaves = self.leaves.shape
        offsets: NDArray[np.intp] = np.arange(trees) * leaves
        return offsets

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
            1 <= nodes < 2**MOST_DEPTH
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


_ALL: Final = 0xFFFF


def _left_leaves(node: int, nodes: int) -> int:
    """The leaves below the left child of a node, as bits."""
    first = last = 2 * node + 1
    while first < nodes:
        first, last = 2 * first + 1, 2 * last + 2
    return sum(1 << (leaf - nodes) for leaf in range(first, last + 1))


@lru_cache(maxsize=1)
def _first_clear() -> NDArray[np.intp]:
    """The place of the lowest 0 of every 16-bit number; of one without any, 0."""
    import numpy as np

    places = np.zeros(_ALL + 1, dtype=np.intp)
    for place in reversed(range(16)):
        places[(1 << place) - 1 :: 2 << place] = place
    places[_ALL] = 0
    return places


def complete_trees(heads: Sequence[Sequence[Mapping[str, Any]]]) -> Trees:
    """Trees from LightGBM's `dump_model()["tree_info"]`, one list for each head.

    Raises ValueError for trees deeper than 4, and for a split that is not numeric.
    """
    import numpy as np

    roots = [tree["tree_structure"] for head in heads for tree in head]
    depth = max(1, *(_depth(root) for root in roots))
    if depth > MOST_DEPTH:
        raise ValueError(f"trees of depth {depth}; accepted: at most {MOST_DEPTH}")
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
