"""Random draws that belong to a seed and names, not to the order in which they are asked for."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from itertools import accumulate

import numpy as np

from headway.config.priorities import Classes

CHUNK = 1024  # draws made at once; what is drawn does not depend on it


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The random generator that belongs to a seed and a sequence of names, on every machine the same."""
    text = "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(int.from_bytes(digest, "big"))))


class NumberedDraws:
    """Draws evenly distributed over [0, 1), one for each number from 0 on, in whatever order."""

    def __init__(self, seed: int, *names: str | int) -> None:
        self._seed, self._names = seed, names
        self._chunks: dict[int, list[float]] = {}

    def at(self, number: int) -> float:
        """The draw of that number."""
        chunk, position = divmod(number, CHUNK)
        if chunk not in self._chunks:
            while len(self._chunks) >= 4:  # numbers come nearly in order
                del self._chunks[next(iter(self._chunks))]
            self._chunks[chunk] = stream(self._seed, *self._names, chunk).random(CHUNK).tolist()
        return self._chunks[chunk][position]


class DrawnPriorities:
    """The priority of each request of a tenant, drawn by its index."""

    def __init__(self, classes: Classes, seed: int, tenant: str) -> None:
        self._priorities = classes.priorities
        self._bounds = list(accumulate(classes.weights))
        self._draws = NumberedDraws(seed, "priority", tenant)

    def of(self, index: int) -> int:
        """The priority of the request with that index."""
        return self._priorities[bisect_right(self._bounds, self._draws.at(index) * self._bounds[-1])]
