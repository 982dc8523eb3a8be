"""Units: the pieces of a layer between which a run that goes layer by layer can stop.

Rows of a map, row blocks of M of a matrix product, heads or parts of one head in attention, and output
columns where there is a single row (accelerators.md section 5.2: N_l = ceil(OH / b), at most 64).
"""

from __future__ import annotations

import numpy as np

from headway.cost.arrays import Longs
from headway.cost.shapes import Shapes

MAX_BANDS = 64  # of a stack and units of a layer: the resolution at which a policy preempts
LEAST_COLUMNS = 64  # of a block of output columns: fewer leave large arrays idle


def unit_counts(shapes: Shapes) -> tuple[int, ...]:
    """Into how many units each layer is cut: as many as whole rows allow, or blocks of columns of one row."""
    by_rows = fitting_counts(shapes.rows, shapes.groups, np.full(len(shapes), MAX_BANDS))
    columns = np.where((shapes.macs > 0) & ~shapes.recurrent, shapes.N * shapes.products, 1)
    blocks = np.minimum(MAX_BANDS, np.maximum(1, columns // LEAST_COLUMNS))
    by_columns = -(-columns // -(-columns // blocks))
    return tuple(int(count) for count in np.where(shapes.rows > 1, by_rows, by_columns))


def fitting_counts(rows: Longs, groups: Longs, counts: Longs) -> Longs:
    """The numbers of bands, none above those given, that some band height gives."""
    fewer = np.minimum(counts, rows)
    plain = -(-rows // -(-rows // fewer))
    whole = -(-groups // -(-groups // fewer))
    each = rows // groups
    part = groups * -(-each // -(-each // np.maximum(1, fewer // groups)))
    fitting: Longs = np.where(groups == 1, plain, np.where(fewer <= groups, whole, part))
    return fitting
