"""Parts of tensors: slices, padding and cyclic shifts along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder


def slice_axis(b: GraphBuilder, x: Tensor, axis: int, start: int, end: int, step: int = 1) -> Tensor:
    """x[start:end:step] along ``axis``, with 0 <= start and end <= the axis's size."""
    shape = list(x.shape)
    shape[axis] = len(range(start, end, step))
    steering = [b.constant([value], np.int64) for value in (start, end, axis, step)]
    return b.node("Slice", [x, *steering], tuple(shape))


def pad(b: GraphBuilder, x: Tensor, before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
    """Zeros before and behind, an amount per axis; ``x`` itself where all are 0."""
    if not any(before) and not any(after):
        return x
    shape = tuple(sum(sizes) for sizes in zip(before, x.shape, after, strict=True))
    return b.node("Pad", [x, b.constant([*before, *after], np.int64), b.constant(0.0)], shape)


def roll(b: GraphBuilder, x: Tensor, axis: int, shift: int) -> Tensor:
    """The elements moved ``shift`` places down, with those that leave at the start put at the end."""
    size = x.shape[axis]
    moved = slice_axis(b, x, axis, shift, size)
    return nn.concat(b, [moved, slice_axis(b, x, axis, 0, shift)], axis=axis)
