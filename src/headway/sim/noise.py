"""How far solo times stray from belief, the same for every policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.core.request import Request

Draws = Callable[[str, int], np.random.Generator]
"""The random generator of a tenant's chunk of requests."""

Noise = Callable[[Request], Sequence[float]]
"""For a request the factors on the solo times of its blocks, one per block."""

_CHUNK = 256


class _KeyedNoise(ABC):
    """Factors that are keyed by tenant and request index, not consumed in the order in which requests run, so
    that a request meets the same noise under every policy."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._chunks: dict[tuple[str, int], list[list[float]]] = {}

    def __call__(self, request: Request) -> Sequence[float]:
        """The factors of a request, one per block."""
        chunk, row = divmod(request.index, _CHUNK)
        factors = self._chunks.get((request.tenant, chunk))
        if factors is None:
            factors = self._drawn(self._draws(request.tenant, chunk), (_CHUNK, request.blocks)).tolist()
            self._chunks[request.tenant, chunk] = factors
        return factors[row]

    @abstractmethod
    def _drawn(self, draws: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Factors for a chunk of requests, [request, block]."""


class LogNormalNoise(_KeyedNoise):
    """Independent log-normal factors with mean 1 on the solo time of each block of each request.

    `std` is the standard deviation of the logarithm.
    """

    def __init__(self, std: float, draws: Draws) -> None:
        super().__init__(draws)
        self._std = std

    def __call__(self, request: Request) -> Sequence[float]:
        """The factors of a request, one per block."""
        return super().__call__(request) if self._std else (1.0,) * request.blocks

    def _drawn(self, draws: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return np.exp(self._std * draws.standard_normal(shape) - self._std**2 / 2)


class RecordedNoise(_KeyedNoise):
    """Factors drawn from recorded ratios of single times to their median, independently for each block."""

    def __init__(self, ratios: Sequence[float], draws: Draws) -> None:
        super().__init__(draws)
        self._ratios = np.asarray(ratios, dtype=np.float64)

    def _drawn(self, draws: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return draws.choice(self._ratios, size=shape)
