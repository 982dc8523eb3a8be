"""A small multilayer perceptron in NumPy: what Abacus and SKADI predict with, three hidden layers of 32."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HIDDEN: Final = (32, 32, 32)
_BATCH: Final = 128
_RATE: Final = 3e-3
_DECAY: Final = (0.9, 0.999)


@dataclass(frozen=True)
class Perceptron:
    """ReLU layers and a linear end. Inputs and the output are standardised by `shift` and `scale`, of which
    the last entries are those of the output."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    shift: Floats
    scale: Floats

    def predict(self, rows: Floats) -> Floats:
        """One number for each row of inputs."""
        values = (rows - self.shift[:-1]) / self.scale[:-1]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = (values @ weight + bias).clip(min=0.0)
        ends: Floats = (values @ self.weights[-1] + self.biases[-1])[:, 0]
        seconds: Floats = ends * self.scale[-1] + self.shift[-1]
        return seconds


def fit_perceptron(rows: Floats, targets: Floats, *, epochs: int, rng: np.random.Generator) -> Perceptron:
    """Fit by least squares with Adam and a cosine decay of the rate, in batches of 128 (Kingma and Ba, 2015).

    The public code of SKADI trains by stochastic gradient descent for 270 epochs; Adam comes to the same fit
    in fewer.
    """
    import numpy as np

    table = np.column_stack([rows, targets])
    shift, scale = table.mean(axis=0), table.std(axis=0)
    scale[scale < 1e-12] = 1.0
    table = (table - shift) / scale
    sizes = (rows.shape[1], *HIDDEN, 1)
    weights = [rng.standard_normal((low, high)) * np.sqrt(2.0 / low) for low, high in pairwise(sizes)]
    values = [*weights, *(np.zeros(size) for size in sizes[1:])]
    first, second = [np.zeros_like(each) for each in values], [np.zeros_like(each) for each in values]
    layers = len(weights)
    steps = epochs * -(-len(table) // _BATCH)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(table))
        for start in range(0, len(table), _BATCH):
            batch = table[order[start : start + _BATCH]]
            gradients = _gradients(values[:layers], values[layers:], batch[:, :-1], batch[:, -1])
            step += 1
            rate = _RATE * 0.5 * (1.0 + np.cos(np.pi * step / steps))
            for at, gradient in enumerate(gradients):
                first[at] += (1.0 - _DECAY[0]) * (gradient - first[at])
                second[at] += (1.0 - _DECAY[1]) * (gradient**2 - second[at])
                size = np.sqrt(second[at] / (1.0 - _DECAY[1] ** step)) + 1e-8
                values[at] -= rate * first[at] / (1.0 - _DECAY[0] ** step) / size
    return Perceptron(tuple(values[:layers]), tuple(values[layers:]), shift, scale)


def _gradients(weights: list[Floats], biases: list[Floats], rows: Floats, targets: Floats) -> list[Floats]:
    """Of the mean squared error, by weights and then biases."""
    passed = [rows]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        passed.append((passed[-1] @ weight + bias).clip(min=0.0))
    wrong = (passed[-1] @ weights[-1] + biases[-1])[:, 0] - targets
    back = (2.0 / len(rows)) * wrong[:, None]
    of_weights: list[Floats] = []
    of_biases: list[Floats] = []
    for at in range(len(weights) - 1, -1, -1):
        of_weights.insert(0, passed[at].T @ back)
        of_biases.insert(0, back.sum(axis=0))
        if at:
            back = (back @ weights[at].T) * (passed[at] > 0.0)
    return [*of_weights, *of_biases]
