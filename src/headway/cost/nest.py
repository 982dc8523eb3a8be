"""Loop nests, how they lie on an array, and batches of temporal mappings of them, as arrays.

Arrays of loops run from the innermost to the outermost. Dimensions are positions in `LOOP_DIMS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from headway.core.hierarchy import LOOP_DIMS, OPERANDS, Hierarchy
from headway.cost.arrays import Bools, Floats, Longs

DIMS = len(LOOP_DIMS)
AT = {name: position for position, name in enumerate(LOOP_DIMS)}
IRRELEVANT = {
    "W": ("B", "OY", "OX"),
    "I": ("K",),
    "O": ("C", "FY", "FX"),
}


@dataclass(frozen=True, slots=True)
class Nest:
    """A layer as a loop nest: sizes by `LOOP_DIMS`, and what relates input rows to output rows.

    `C` and `K` are those of one group, `G` the number of groups. `input_rows` and `input_columns` clip the
    input to what is fetched: the true map (padding is never fetched), or None for all that the window
    touches, padding included, as ZigZag counts it. Operands have `bits` bits, partial sums what the hierarchy
    says. A transposed convolution has the nest of the convolution that it is computed as.
    """

    sizes: tuple[int, ...]
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    input_rows: int | None = None
    input_columns: int | None = None
    bits: tuple[int, int, int] = (8, 8, 8)  # W, I, final O

    @classmethod
    def of(
        cls,
        sizes: Mapping[str, int],
        *,
        stride: int = 1,
        dilation: int = 1,
        input_rows: int | None = None,
        input_columns: int | None = None,
        bits: tuple[int, int, int] = (8, 8, 8),
    ) -> Nest:
        """A nest from sizes by name (the others are 1). Raises ValueError for a name that is no loop."""
        for name, size in sizes.items():
            if name not in AT:
                raise ValueError(f"{name!r} is no loop; accepted: {', '.join(LOOP_DIMS)}")
            if size < 1:
                raise ValueError(f"loop {name} has at least one iteration, not {size}")
        return cls(
            tuple(sizes.get(name, 1) for name in LOOP_DIMS),
            stride,
            stride,
            dilation,
            dilation,
            input_rows,
            input_columns,
            bits,
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        product = 1
        for size in self.sizes:
            product *= size
        return product


@dataclass(frozen=True, slots=True)
class Spread:
    """How a nest lies on an array: what each axis unrolls, and what is left to temporal loops.

    `exact` may be fractional, so that exact times temporal is the nest (K = 1000 on 32 columns: 31.25 on
    average); it counts data moved. `whole` is rounded down, as the peer does for data per cycle.
    """

    exact: tuple[tuple[float, ...], ...]  # [axis][dim]
    whole: tuple[tuple[float, ...], ...]
    temporal: tuple[int, ...]  # [dim]

    @property
    def cycles(self) -> int:
        """The product of the temporal loops: cycles without any stall."""
        product = 1
        for size in self.temporal:
            product *= size
        return product


def spread(nest: Nest, hierarchy: Hierarchy, factors: Longs | None = None) -> Spread:
    """The nest on the array, every unrolled loop as wide as array (or factors [loop]) and nest allow."""
    part = None if factors is None else factors[None, :]
    exact, whole, temporal = spreads(np.array([nest.sizes], dtype=np.int64), hierarchy, part)
    return Spread(
        tuple(map(tuple, exact[0].tolist())),
        tuple(map(tuple, whole[0].tolist())),
        tuple(temporal[0].tolist()),
    )


def spreads(sizes: Longs, hierarchy: Hierarchy, factors: Longs | None = None) -> tuple[Floats, Floats, Longs]:
    """Unrolling of many nests [n, dim]: exact and whole [n, axis, dim], and the temporal sizes [n, dim].

    A dimension that several axes unroll is spread over all of them; the first axis with the largest factor
    takes what does not divide. `factors` [n, loop] are those of each nest, axis after axis, instead of the
    whole array's.
    """
    count, axes = len(sizes), len(hierarchy.axes)
    used = np.ones((count, axes, DIMS))
    left = sizes.copy()
    position = 0
    for axis, loops in enumerate(hierarchy.axes):
        for name, factor in loops:
            dim = AT[name]
            most = factor if factors is None else factors[:, position]
            position += 1
            taken = np.minimum(most, left[:, dim])
            left[:, dim] = -(-left[:, dim] // taken)
            used[:, axis, dim] = taken
    total = np.prod(used, axis=1)
    temporal = np.ceil(sizes / total).astype(np.int64)
    widest = np.argmax(used, axis=1)  # [n, dim], the first of equals
    exact = used.copy()
    rows, dims = np.meshgrid(np.arange(count), np.arange(DIMS), indexing="ij")
    exact[rows, widest, dims] = sizes / temporal / (total / used[rows, widest, dims])
    whole = np.maximum(1.0, np.floor(exact + 1e-9))
    return exact, whole, temporal


@dataclass(frozen=True, slots=True)
class Batch:
    """Temporal mappings, one per row n. All share the hierarchy; each row has its own nest and spread.

    `loops` and `sizes` are [n, position] from the innermost loop; unused positions have size 1. What all rows
    have in common (one nest on one array) is there once: the first axis of `exact` and all that follow it is
    then 1 instead of n.
    `cuts[operand]` is [n, level]: how many loops lie in or below each memory level; in the topmost, all.
    """

    loops: Longs
    sizes: Floats
    exact: Floats  # [n, axis, dim]
    whole: Floats
    strides: Floats  # [n, 4]: stride y, x, dilation y, x
    limits: Floats  # [n, 2]: most input rows, columns
    bits: Floats  # [n, 3]
    macs: Floats
    operands: tuple[str, ...]
    cuts: Mapping[str, Longs]

    def __len__(self) -> int:
        return len(self.loops)


def batch_of(
    nests: Sequence[Nest],
    spreads: Sequence[Spread],
    orders: Sequence[Longs],
    sizes: Sequence[Floats],
    operands: tuple[str, ...] = OPERANDS,
) -> Batch:
    """Rows for several nests; orders and sizes of each are [row, position]. The cuts are still to come."""
    counts = [len(order) for order in orders]
    loops, lengths = joined(list(zip(orders, sizes, strict=True)))
    alike = all(nest == nests[0] for nest in nests) and all(each == spreads[0] for each in spreads)

    def rows(values: Sequence[object]) -> Floats:
        if alike:
            return np.array(values[:1], dtype=np.float64)
        return np.repeat(np.array(values, dtype=np.float64), counts, axis=0)

    return Batch(
        loops=loops,
        sizes=lengths,
        exact=rows([each.exact for each in spreads]),
        whole=rows([each.whole for each in spreads]),
        strides=rows([(n.stride_y, n.stride_x, n.dilation_y, n.dilation_x) for n in nests]),
        limits=rows([input_map(nest) for nest in nests]),
        bits=rows([nest.bits for nest in nests]),
        macs=rows([nest.macs for nest in nests]),
        operands=operands,
        cuts={},
    )


def joined(orders: Sequence[tuple[Longs, Floats]]) -> tuple[Longs, Floats]:
    """Dims and sizes of loops [row, position] of several groups of orders, as long as the longest."""
    width = max(order.shape[1] for order, _ in orders)
    loops = np.concatenate([_widened(order, width, 0) for order, _ in orders])
    sizes = np.concatenate([_widened(size, width, 1) for _, size in orders])
    return loops.astype(np.int64), sizes.astype(np.float64)


def _widened(values: Any, width: int, fill: int) -> Any:
    if values.shape[1] == width:
        return values
    widened = np.full((len(values), width), fill, dtype=values.dtype)
    widened[:, : values.shape[1]] = values
    return widened


@lru_cache(maxsize=1024)
def input_map(nest: Nest) -> tuple[int, int]:
    """Input rows and columns that are fetched: those the window touches, up to the true map's."""
    oy, ox, fy, fx = nest.sizes[4:]
    high = int(touched(np.array(oy), np.array(fy), np.array(nest.stride_y), np.array(nest.dilation_y)))
    wide = int(touched(np.array(ox), np.array(fx), np.array(nest.stride_x), np.array(nest.dilation_x)))
    return (
        high if nest.input_rows is None else min(high, nest.input_rows),
        wide if nest.input_columns is None else min(wide, nest.input_columns),
    )


def among(dims: Sequence[int]) -> Bools:
    """[dim]: whether each dimension is one of these."""
    found = np.zeros(DIMS, dtype=bool)
    found[list(dims)] = True
    return found


def touched(outputs: Any, taps: Any, stride: Any, dilation: Any, whole: bool = True) -> Floats:
    """Input rows that a number of output rows and filter rows touch: distinct values of s * o + d * f.

    Fractional numbers (an average over tiles that do not divide evenly) are rounded down if `whole`.
    """
    if whole:
        outputs, taps = np.floor(outputs + 1e-9), np.floor(taps + 1e-9)
    common = np.gcd(np.asarray(stride).astype(np.int64), np.asarray(dilation).astype(np.int64))
    rows: Floats = outputs * taps - np.maximum(0.0, taps - stride / common) * (outputs - dilation / common)
    apart: Floats = np.where(outputs > dilation / common, rows, outputs * taps)
    return apart


def elements(operand: str, extent: Floats, batch: Batch, whole: bool = True) -> Floats:
    """Elements of an operand that loops of these extents [n, dim] touch; a whole number if asked."""
    return elements_of(operand, extent, batch.strides, batch.limits, whole)


def elements_of(operand: str, extent: Floats, strides: Floats, limits: Floats, whole: bool) -> Floats:
    """As `elements`; strides and limits as in a batch."""
    b, g, k, c, oy, ox, fy, fx = extent.T
    if operand == "W":
        held = g * k * c * fy * fx
    elif operand == "O":
        held = b * g * k * oy * ox
    else:
        high = touched(oy, fy, strides[:, 0], strides[:, 2], whole)
        wide = touched(ox, fx, strides[:, 1], strides[:, 3], whole)
        held = b * g * c * np.minimum(limits[:, 0], high) * np.minimum(limits[:, 1], wide)
    return np.asarray(np.rint(held)) if whole else held


def extents(batch: Batch) -> Floats:
    """[n, position, dim]: iterations of each dimension in the first loops."""
    count, width = batch.loops.shape
    factors = np.ones((count, width + 1, DIMS))
    rows = np.arange(count)
    for position in range(width):
        factors[rows, position + 1, batch.loops[:, position]] = batch.sizes[:, position]
    return np.cumprod(factors, axis=1, dtype=np.float64)
