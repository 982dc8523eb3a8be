"""Trees evaluated with NumPy, against a walk node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.predict.gpu.forest import Forest


def forest_of(draws: list[tuple[int, int, float, float]]) -> Forest:
    """Trees of depth up to two, each from (shape, feature, threshold, value)."""
    nodes: list[tuple[int, float, int, int, float]] = []
    roots = []
    for shape, feature, threshold, value in draws:
        at = len(nodes)
        roots.append(at)
        if shape == 0:
            nodes.append((0, 0.0, at, at, value))
            continue
        nodes.append((feature, threshold, at + 1, at + 2, 0.0))
        nodes.append((0, 0.0, at + 1, at + 1, value))
        if shape == 1:
            nodes.append((0, 0.0, at + 2, at + 2, -value))
        else:
            nodes.append((1 - feature, -threshold, at + 3, at + 4, 0.0))
            nodes.append((0, 0.0, at + 3, at + 3, 2 * value))
            nodes.append((0, 0.0, at + 4, at + 4, 3 * value))
    columns = list(zip(*nodes, strict=True))
    types = (np.int16, np.float32, np.int32, np.int32, np.float32)
    arrays = [np.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return Forest(*arrays, np.array(roots, np.int32), 2, ("one", "two"))


def walked(forest: Forest, row: np.ndarray) -> float:
    total = 0.0
    for root in forest.roots:
        node = int(root)
        while forest.left[node] != node:
            goes_left = row[forest.feature[node]] <= forest.threshold[node]
            node = int(forest.left[node] if goes_left else forest.right[node])
        total += float(forest.value[node])
    return total


numbers = st.floats(-4, 4, width=32)
trees = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), numbers, numbers), min_size=1, max_size=6)
rows = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)


@given(trees, rows)
def test_sums_are_those_of_a_walk_and_survive_storing(draws, drawn_rows):
    forest, columns = forest_of(draws), np.array(drawn_rows)
    expected = [walked(forest, row) for row in columns]
    assert np.allclose(forest.sums(columns), expected, atol=1e-5)
    again = Forest.from_arrays(forest.arrays("kept"), "kept")
    assert np.array_equal(again.sums(columns), forest.sums(columns))
    assert again.names == forest.names
