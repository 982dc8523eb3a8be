"""What the reader knows of one tensor while it walks a model, and how rows are laid out in it.

The fusion axis of a tensor is its rows: a feature map [N, C, H, W] has rows N*H (axes 0 and 2), the
operand of a matrix product has all but its last axis. Such a choice is a *layout*: the axes, in order,
that flatten to the rows. Axes of size 1 are left out, so that layouts compare equal where they mean the
same bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from headway.models.dtypes import bytes_of

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int | None, ...]
Layout = tuple[int, ...]


class UnknownShapeError(Exception):
    """A formula asked for a size that is not known; the reader then gives the analytic bound."""


@dataclass(slots=True, eq=False)
class Tensor:
    """One value of the graph.

    `shape` is None if not even the rank is known; a dimension that is not known is None. `stored` is
    the type the value is kept in, narrower than `dtype` for what a DequantizeLinear makes, since its consumer
    reads the quantised tensor. `roots` are the initialisers that a constant was computed from.
    """

    name: str
    dtype: str
    shape: Shape | None
    stored: str = ""
    constant: bool = False
    sequence: bool = False
    roots: tuple[str, ...] = ()
    producer: int | None = None
    layout: Layout | None = None  # None: rows may be taken along any axis
    sequence_elements: int | None = None  # elements of all members of a sequence together
    read_value: Callable[[], np.ndarray | None] | None = None
    _value: np.ndarray | None = field(default=None, repr=False)

    @property
    def value(self) -> np.ndarray | None:
        """The elements, where they do not depend on the network's inputs and are few; else None."""
        if self._value is None and self.read_value is not None:
            self._value = self.read_value()
            self.read_value = None
        return self._value

    @value.setter
    def value(self, value: np.ndarray | None) -> None:
        self._value = value

    @property
    def known(self) -> bool:
        """Whether the number of elements is known."""
        if self.sequence:
            return self.sequence_elements is not None
        return self.shape is not None and all(size is not None for size in self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape; raises UnknownShapeError if a part of it is not known."""
        if self.shape is None or self.sequence:
            raise UnknownShapeError(self.name)
        known = tuple(size for size in self.shape if size is not None)
        if len(known) != len(self.shape):
            raise UnknownShapeError(self.name)
        return known

    @property
    def elements(self) -> int:
        """Number of elements; raises UnknownShapeError."""
        if self.sequence:
            if self.sequence_elements is None:
                raise UnknownShapeError(self.name)
            return self.sequence_elements
        return prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes as stored; raises UnknownShapeError."""
        return bytes_of(self.elements, self.stored or self.dtype)

    def rows(self, layout: Layout) -> int:
        """Rows along a layout."""
        sizes = self.sizes
        return prod(sizes[axis] for axis in layout)


def trimmed(axes: Sequence[int], sizes: Sequence[int]) -> Layout:
    """The layout made of those axes, without axes of size 1."""
    return tuple(axis for axis in axes if sizes[axis] != 1)


def map_layout(sizes: Sequence[int]) -> Layout:
    """Rows of a feature map [N, C, H, ...]: batch and the first spatial axis."""
    return trimmed([axis for axis in (0, 2) if axis < len(sizes)], sizes)


def matrix_layout(sizes: Sequence[int]) -> Layout:
    """Rows of a matrix operand: every axis but the last."""
    return trimmed(range(len(sizes) - 1), sizes)


def usual_layout(sizes: Sequence[int]) -> Layout:
    """The layout to assume where nothing says: a feature map from four axes on, else a matrix."""
    return map_layout(sizes) if len(sizes) >= 4 else matrix_layout(sizes)


def broadcast_layout(layout: Layout, rank: int, output_rank: int) -> Layout:
    """The layout of an operand in terms of the axes of the output it is broadcast to."""
    return tuple(axis + output_rank - rank for axis in layout)


def transposed_layout(layout: Layout, perm: Sequence[int]) -> Layout | None:
    """The layout after a transposition, or None if rows would come in another order."""
    moved = tuple(list(perm).index(axis) for axis in layout)
    return moved if list(moved) == sorted(moved) else None


def reshaped_layout(layout: Layout, before: Sequence[int], after: Sequence[int]) -> Layout | None:
    """The layout after a reshape that leaves each row axis whole (or splits it in consecutive axes).

    A row axis keeps its place in memory order if the product of the sizes before it is unchanged and the
    axes there multiply to its size. None if some row axis is merged with others.
    """
    result: list[int] = []
    index = 0
    while index < len(layout):
        run = 1
        while index + run < len(layout) and layout[index + run] == layout[index] + run:
            run += 1
        outer = prod(before[: layout[index]])
        size = prod(before[layout[index] + step] for step in range(run))
        axis, reached = 0, 1
        while axis < len(after) and (reached < outer or after[axis] == 1):
            reached *= after[axis]
            axis += 1
        if reached != outer:
            return None
        covered = 1
        while axis < len(after) and covered < size:
            covered *= after[axis]
            if after[axis] != 1:
                result.append(axis)
            axis += 1
        if covered != size:
            return None
        index += run
    return tuple(result)


def reduced_layout(layout: Layout, axes: Sequence[int], keep_dims: bool) -> Layout | None:
    """The layout after reducing `axes`; None if a row axis is among them."""
    if set(layout) & set(axes):
        return None
    if keep_dims:
        return layout
    return tuple(axis - sum(1 for gone in axes if gone < axis) for axis in layout)
