"""Fused stacks and pipelines in a given number of bands, where the best number of them is not looked for."""

from __future__ import annotations

from headway.core.block import Option
from headway.core.protocols import CostTable

FIXED_BANDS = 8
"""How many."""


def in_fixed_bands(table: CostTable, option: Option) -> Option | None:
    """The same layers on the same kinds of cores in as near to FIXED_BANDS bands as the map divides; None if
    they do not fit so."""
    rows = option.steps * (option.band_rows or 1)
    band_rows = -(-rows // FIXED_BANDS)
    try:
        return table.option(option.mode, option.first, option.end, option.kinds, option.cuts, band_rows)
    except ValueError:
        return None
