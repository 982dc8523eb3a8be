"""The classification extension: an output's best classes instead of its scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.serve.tensors import Array, invalid


def best_classes(array: Array, classes: int, labels: Sequence[str], batched: bool, name: str) -> Array:
    """The `classes` highest scores of an output, best first, as strings "score:index[:label]".

    For a batched model the first dimension stays: (batch, classes); all others count as one. Equal scores
    keep the order of their indices. Raises Refusal for an output of strings or truth values.
    """
    if array.dtype == object or array.dtype == np.bool_:
        raise invalid(f"output {name!r}: classification needs numbers, this output has none")
    rows = array.reshape(array.shape[0], -1) if batched and array.ndim else array.reshape(1, -1)
    whole = array.dtype.kind in "iu"
    if array.dtype.kind == "V":
        rows = rows.astype(np.float32)
    # A stable order of the reversed row, reversed: equal scores by index, and no sign to change.
    order = rows.shape[1] - 1 - np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :classes]
    best = np.empty(order.shape, object)
    for row in range(order.shape[0]):
        for rank, index in enumerate(order[row].tolist()):
            score = rows[row, index]
            text = f"{int(score)}:{index}" if whole else f"{float(score):f}:{index}"
            best[row, rank] = (f"{text}:{labels[index]}" if index < len(labels) else text).encode()
    return best if batched and array.ndim else best.reshape(-1)
