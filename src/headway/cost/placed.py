"""A nest on parts of an array: what lies side by side, what is left to loops, what one pass takes.

Arrays have one row per part. Everything here is the same in any order of the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.hierarchy import Hierarchy
from headway.cost.arrays import Floats, Longs
from headway.cost.mapping import end_cycles
from headway.cost.nest import AT, Nest, elements_of, spreads, touched
from headway.cost.subarray import columns_of, folded, is_product
from headway.cost.ways import Way

_NO_LIMIT = 1 << 40  # of input rows and columns


@dataclass(frozen=True)
class Spaces:
    """Parts of an array [part]: spatial extents, exact and whole [part, axis, dim], what is left in time
    [part, dim], most input rows and columns [part, 2], multiply-accumulates.
    """

    exact: Floats
    whole: Floats
    temporal: Longs
    limits: Floats
    macs: Floats

    @classmethod
    def of(cls, nest: Nest, hierarchy: Hierarchy, parts: Longs, may_fold: bool) -> Spaces:
        """A nest on parts [part, loop]; rows of a product may lie on columns of the array (`folded`)."""
        sizes = np.array([nest.sizes] * len(parts), dtype=np.int64)
        fetched = np.array([[nest.input_rows or _NO_LIMIT, nest.input_columns or _NO_LIMIT]] * len(parts))
        if may_fold and nest.sizes[AT["OX"]] == 1:
            wide = columns_of(hierarchy, parts)
            fetched[is_product(sizes) & (wide > 1)] = _NO_LIMIT
            sizes = folded(sizes, wide)
        exact, whole, temporal = spreads(sizes, hierarchy, parts)
        extent = sizes.astype(np.float64)
        rows = touched(extent[:, AT["OY"]], extent[:, AT["FY"]], nest.stride_y, nest.dilation_y)
        columns = touched(extent[:, AT["OX"]], extent[:, AT["FX"]], nest.stride_x, nest.dilation_x)
        limits: Floats = np.minimum(fetched, np.stack((rows, columns), axis=1))
        return cls(exact, whole, temporal, limits, np.multiply.reduce(extent, axis=1))

    def __len__(self) -> int:
        return len(self.temporal)

    def some(self, rows: Sequence[int]) -> Spaces:
        """Only these parts."""
        return Spaces(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


class Placed:
    """A nest on parts of an array, seen by operands.

    By operand, `below` [index, part, dim] are spatial extents below each memory level, and `unique` [index,
    part] how many of such get different data; indices are those of `Way.served`. `ends` [part] are the cycles
    before the first and after the last operation.
    """

    def __init__(self, nest: Nest, hierarchy: Hierarchy, spaces: Spaces, ways: Sequence[Way]) -> None:
        self.spaces, self.limits = spaces, spaces.limits
        self.strides = (nest.stride_y, nest.stride_x, nest.dilation_y, nest.dilation_x)
        self._bits = dict(zip("WIO", map(float, nest.bits), strict=True))
        self._partial_bits = float(hierarchy.partial_bits)
        self.below = {way.name: _below(way, spaces.exact) for way in ways}
        self.unique = {way.name: self._unique(way.name) for way in ways}
        passed = {way.name: self._pass_bits(way) for way in ways}
        self.onload, self.offload = end_cycles(passed, spaces.exact, hierarchy)
        self.ends: Floats = self.onload + self.offload

    def bits_of(self, name: str) -> tuple[float, float]:
        """Bits of an element of an operand, and of one that is a sum which is not complete."""
        value = self._bits[name]
        return value, self._partial_bits if name == "O" else value

    def _unique(self, name: str) -> Floats:
        below = self.below[name]
        indices, count, dims = below.shape
        limits = self.limits if count == 1 else np.concatenate([self.limits] * indices)
        strides = np.array([self.strides], dtype=np.float64)
        held = elements_of(name, below.reshape(-1, dims), strides, limits, whole=False)
        held = held.reshape(indices, count)
        unique: Floats = held[-1] / held
        return unique

    def _pass_bits(self, way: Way) -> Floats:
        """[level, part]: bits that one pass of the array takes from, or gives to, an instance."""
        unique = self.unique[way.name]
        value, partial = self.bits_of(way.name)
        width: Floats | float = value
        if way.name == "O":
            dims = list(way.reduction)
            below = self.below["O"]
            left = np.multiply.reduce(self.spaces.temporal[:, dims], axis=1)
            added_above = np.multiply.reduce(below[-1][:, dims] / below[1][:, dims], axis=1)
            width = np.where(left * added_above > 1, partial, value)
        passed: Floats = width * unique[0] / unique[1 : 1 + len(way.levels)]
        return passed


def _below(way: Way, exact: Floats) -> Floats:
    """[index, part, dim]: spatial extents of the axes served below."""
    found: list[Floats] = []
    for index, axes in enumerate(way.served):
        if index and axes == way.served[index - 1]:
            found.append(found[-1])
        else:
            found.append(np.multiply.reduce(exact[:, list(axes)], axis=1))
    return np.stack(found)
