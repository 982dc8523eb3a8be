"""How far solo times stray from belief, the same for every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headway.core.request import Request

Draws = Callable[[str, int], np.random.Generator]
"""The random generator of a tenant's chunk of requests."""

Noise = Callable[[Request], Sequence[float]]
"""For a request the factors on the solo times of its blocks, one per block."""

_CHUNK = 256


class LogNormalNoise:
    """Independent log-normal factors with mean 1 on the solo time of each block of each request.

    `std` is the standard deviation of the logarithm. Draws are keyed by tenant and request index, not
    consumed in the order in which requests run, so that a request meets the same noise under every policy.
    """

    def __init__(self, std: float, draws: Draws) -> None:
        self._std = std
        self._draws = draws
        self._chunks: dict[tuple[str, int], list[list[float]]] = {}

    def __call__(self, request: Request) -> Sequence[float]:
        """The factors of a request, one per block."""
        if self._std == 0.0:
            return (1.0,) * request.blocks
        chunk, row = divmod(request.index, _CHUNK)
        factors = self._chunks.get((request.tenant, chunk))
        if factors is None:
            draws = self._draws(request.tenant, chunk)
            normal = draws.standard_normal((_CHUNK, request.blocks))
            factors = np.exp(self._std * normal - self._std**2 / 2).tolist()
            self._chunks[request.tenant, chunk] = factors
        return factors[row]


class RecordedNoise:
    """Factors drawn from recorded ratios of single times to their median, independently for each block.

    Keyed like those of `LogNormalNoise`.
    """

    def __init__(self, ratios: Sequence[float], draws: Draws) -> None:
        self._ratios = np.asarray(ratios)
        self._draws = draws
        self._chunks: dict[tuple[str, int], list[list[float]]] = {}

    def __call__(self, request: Request) -> Sequence[float]:
        """The factors of a request, one per block."""
        chunk, row = divmod(request.index, _CHUNK)
        factors = self._chunks.get((request.tenant, chunk))
        if factors is None:
            draws = self._draws(request.tenant, chunk)
            factors = draws.choice(self._ratios, size=(_CHUNK, request.blocks)).tolist()
            self._chunks[request.tenant, chunk] = factors
        return factors[row]
