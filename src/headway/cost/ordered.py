"""All orders of the loops of a nest, and the sets of loops below each place in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headway.cost.arrays import Longs
from headway.cost.nest import AT
from headway.cost.orders import MIRRORED, arrangements
from headway.cost.subsets import irrelevant_loops

_STANDS_FOR = {
    AT[dim]: AT[alike[0]] for alike in (("B", "OY", "OX"), ("K",), ("C", "FY", "FX"), ("G",)) for dim in alike
}
"""For each dimension one that leaves the same operands as they are."""


@dataclass(frozen=True)
class Chains:
    """Orders of the loops of one nest [order, position], and the sets of the first of them [order, cut].

    `kept[operand]` [order, cut] are the sets with the loops above the cut that leave the operand as it is.
    """

    orders: Longs
    sets: Longs
    kept: dict[str, Longs]

    def __len__(self) -> int:
        return len(self.orders)

    def sets_below(self, cut: Longs) -> Longs:
        """The sets of the loops below cuts [order or 1, choice or 1, ...]."""
        if len(cut) == 1:
            return self.sets[:, cut[0]]
        rows = np.arange(len(self)).reshape(-1, *[1] * (cut.ndim - 1))
        return np.asarray(self.sets[rows, cut])

    def some(self, rows: Longs) -> Chains:
        """Only these orders."""
        return Chains(
            self.orders[rows], self.sets[rows], {name: each[rows] for name, each in self.kept.items()}
        )


def chains_of(loops: tuple[tuple[int, int], ...], alike: bool, operands: tuple[str, ...]) -> Chains:
    """All orders of loops (dim, size). Where rows and columns are `alike`, of two that only swap them one."""
    return _chains(_pattern(loops, alike), alike, operands)


def _pattern(loops: tuple[tuple[int, int], ...], alike: bool) -> tuple[tuple[int, int], ...]:
    """What the orders of loops depend on: which are equal, and which operands each leaves as it is.

    Where rows and columns are alike, also which dimensions they have.
    """
    if alike:
        return tuple((dim, _place(loops, {dim, int(MIRRORED[dim])}, size)) for dim, size in loops)
    sorts = list(dict.fromkeys(loops))
    return tuple((_STANDS_FOR[dim], sorts.index((dim, size))) for dim, size in loops)


def _place(loops: tuple[tuple[int, int], ...], dims: set[int], size: int) -> int:
    """The place of a size among those of the loops over some dimensions."""
    return sorted({length for dim, length in loops if dim in dims}).index(size)


@lru_cache(maxsize=256)
def _chains(loops: tuple[tuple[int, int], ...], symmetric: bool, operands: tuple[str, ...]) -> Chains:
    """All orders of loops (dim, size); sizes matter only where equal. Of equal loops the first is first."""
    arranged = arrangements(loops, symmetric)
    orders = np.zeros(arranged.shape, dtype=np.int64)
    for index, sort in enumerate(dict.fromkeys(loops)):
        here = arranged == index
        orders += np.where(here, loops.index(sort) + np.cumsum(here, axis=1) - 1, 0)
    sets = np.zeros((len(orders), len(loops) + 1), dtype=np.int64)
    sets[:, 1:] = np.cumsum(np.int64(1) << orders, axis=1)
    kept = {}
    for name in operands:
        free = irrelevant_loops(name, np.array([dim for dim, _ in loops]))[orders]
        above = sets.copy()
        for position in range(len(loops) - 1, -1, -1):
            above[:, position] = np.where(free[:, position], above[:, position + 1], above[:, position])
        kept[name] = above
    return Chains(orders, sets, kept)
