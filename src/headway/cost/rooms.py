"""The room that the operands of a layer find in the topmost memories of a core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.device import Core
from headway.cost.nest import AT
from headway.cost.shapes import Floats, Shapes

ACCUMULATOR_BYTES = 4  # partial sums are wider than operands (int32, float32)


@dataclass(frozen=True, slots=True)
class Rooms:
    """Bytes for weights and for all else: one room for both (`shared`), or one each.

    `weights` has an entry per layer: in registers of the units there is no more room than in the units that
    a layer keeps busy. Weights that lie in SRAM are `pooled`, whether they share it or not. `maps` is where
    inputs lie, and what leaves too is taken to; only sums that stay have the room of the outputs.
    """

    weights: Floats
    maps: float
    sums: float
    shared: bool
    pooled: bool

    @classmethod
    def of(cls, shapes: Shapes, core: Core) -> Rooms:
        """The topmost memories of a core: systolic arrays have one for everything."""
        hierarchy = core.hierarchy
        if hierarchy is None:
            sram = float(core.sram_bytes)
            return cls(np.full(len(shapes), sram), sram, sram, True, True)
        tops = {name: levels[-1] for name, levels in hierarchy.levels.items()}
        maps, sums, top = (hierarchy.memories[tops[name]] for name in "IOW")
        if tops["W"] == tops["I"]:
            return cls(np.full(len(shapes), maps.bits / 8), maps.bits / 8, sums.bits / 8, True, True)
        if tops["W"] == tops["O"]:
            half = top.bits / 16
            return cls(np.full(len(shapes), half), maps.bits / 8, half, False, True)
        apart = [axis for axis in range(len(hierarchy.axes)) if axis not in top.axes]
        instances = np.ones(len(shapes))
        for name, factor in (loop for axis in apart for loop in hierarchy.axes[axis]):
            instances = instances * np.minimum(factor, shapes.nest[:, AT[name]])
        return cls(instances * top.bits / 8, maps.bits / 8, sums.bits / 8, False, not apart)


def streamed_weights(shapes: Shapes, core: Core, rooms: Rooms, held: Floats, operand_bytes: float) -> Floats:
    """Bytes that weights take from the room of inputs, to stream past inputs that stay there.

    Either two blocks of as many columns as the array has, with all of K, or two array tiles and the partial
    sums of those columns; never more than all the weights. An array that is described by its memories may
    use one unit of each row and column: more units never take more room. Where weights have a room of their
    own only partial sums are in the way, and those only if not even a column of weights fits there twice.
    """
    rows, columns = (core.rows, core.columns) if core.hierarchy is None else (1, 1)
    tall = 2.0 * shapes.K * columns * operand_bytes
    sums = 1.0 * ACCUMULATOR_BYTES * shapes.M * columns
    if not rooms.shared:
        return np.where(tall <= rooms.weights, 0.0, sums)
    least: Floats = np.minimum(held, np.minimum(tall, 2.0 * rows * operand_bytes * columns + sums))
    return least
