"""What lanes truly do to each other in the simulator: a known rule, and what nobody is told of it."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Final
from zlib import crc32

import numpy as np

from headway.core.block import Pressure, Segment
from headway.core.request import Request
from headway.cost.contention import MOST_LOSS, PairLoss

Draws = Callable[..., np.random.Generator]
"""The random generator that belongs to some names."""

_OVERALL, _MODELS, _BLOCKS = 0.2, 0.4, 0.4  # shares of the variance
_DRAWS: Final = 4_096


class HiddenLoss:
    """Overlap losses that stray from a base rule by a hidden part: drawn once, the same under every policy.

    Of its variance `std`^2 a fifth is common to all, two fifths belong to the pair of models, two fifths to
    the pair of blocks: so belief that starts from the base is wrong, and can learn something of it but not
    all. Losses stay within 0 and `most`.
    """

    def __init__(self, base: PairLoss, std: float, draws: Draws, most: float = MOST_LOSS) -> None:
        self._base = base
        self._std = std
        self._draws = draws
        self._most = most
        self._overall = float(draws("overall").standard_normal()) * sqrt(_OVERALL)
        self._of_models: dict[tuple[str, str], tuple[float, list[float]]] = {}
        self._known: dict[tuple[Pressure, Pressure], float] = {}

    def __call__(self, first: Segment, second: Segment) -> float:
        """The loss of two segments; their order does not matter."""
        one, other = first.pressure, second.pressure
        if one is None or other is None:
            return self._base(first, second)
        found = self._known.get((one, other))
        if found is None:
            if one[:3] > other[:3]:
                found = self(second, first)
            else:
                hidden = self._std * self._deviation(one, other) if self._std else 0.0
                found = min(max(self._base(first, second) + hidden, 0.0), self._most)
            self._known[one, other] = found
        return found

    def _deviation(self, one: Pressure, other: Pressure) -> float:
        models = (one.model, other.model)
        drawn = self._of_models.get(models)
        if drawn is None:
            normals = self._draws("models", *models).standard_normal(_DRAWS + 1).tolist()
            drawn = self._of_models[models] = (normals[0] * sqrt(_MODELS), normals[1:])
        of_blocks = drawn[1][(one.block * 8_191 + other.block * 127) % _DRAWS]
        return self._overall + drawn[0] + of_blocks * sqrt(_BLOCKS)


class MeetingNoise:
    """What chance adds to the loss whenever two requests meet, keyed by the two, so that it is the same under
    every policy. Implements `headway.cost.contention.Chance`."""

    def __init__(self, std: float, draws: Draws) -> None:
        self._normals = (std * draws("meetings").standard_normal(_DRAWS)).tolist()
        self._tenants: dict[str, int] = {}

    def __call__(self, first: Request, second: Request) -> float:
        """The addition to w."""
        mixed = self._number(first) ^ self._number(second)
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
        drawn: float = self._normals[(mixed ^ (mixed >> 12)) % _DRAWS]
        return drawn

    def _number(self, request: Request) -> int:
        tenant = self._tenants.get(request.tenant)
        if tenant is None:
            tenant = self._tenants[request.tenant] = crc32(request.tenant.encode())
        return (tenant + request.index * 0x9E3779B1) & 0xFFFFFFFF
