"""The runs of a model that Lucas may choose from, by the block they start at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.core.bands import in_fixed_bands
from headway.core.block import Mode, Option
from headway.core.protocols import CostTable

SERIAL_LENGTHS = (1, 2, 4, 8)
"""How many layers a layer-by-layer run may take at once: up to as many as the longest fused stack."""

WORTHWHILE = 0.95
"""Fusion must move less than this share of the plain run's bytes."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which runs there are at all: single-core fusion, pipelines, and whether in their best bands."""

    fuse: bool = True
    pipeline: bool = True
    best_bands: bool = True


class Runs:
    """Options by the block they start at: those of block b are options[begin[b] : begin[b + 1]]."""

    def __init__(self, by_block: Sequence[Sequence[Option]]) -> None:
        self.options = [option for options in by_block for option in options]
        self.begin = [0, *np.cumsum([len(options) for options in by_block], dtype=np.int64).tolist()]

    def of_block(self, block: int) -> Sequence[Option]:
        return self.options[self.begin[block] : self.begin[block + 1]]

    def seconds(self, bandwidth_bytes_s: float) -> NDArray[np.float64]:
        """Latency of each with that much bandwidth."""
        return np.array([option.seconds(bandwidth_bytes_s) for option in self.options])


def singles(table: CostTable, block: int, allowed: Allowed) -> list[Option]:
    found = [
        table.option(Mode.SERIAL, block, block + length, (kind,))
        for length in SERIAL_LENGTHS
        if block + length <= table.blocks
        for kind in range(len(table.kinds))
    ]
    if allowed.fuse:
        stacks = table.stacks(block)
        found.extend(stack for stack in _banded(table, stacks, allowed) if saves(stack))
    return found


def multis(table: CostTable, block: int, allowed: Allowed) -> list[Option]:
    return _banded(table, table.pipelines(block), allowed)


def _banded(table: CostTable, options: Sequence[Option], allowed: Allowed) -> list[Option]:
    """Stacks in their best bands, or those of them that fit in a fixed number of bands."""
    if allowed.best_bands:
        return list(options)
    banded = [in_fixed_bands(table, option) for option in options]
    return [option for option in banded if option is not None]


def saves(option: Option) -> bool:
    """Whether fusing moves so much less that it is worth considering."""
    return option.dram_bytes < WORTHWHILE * option.serial_dram_bytes
