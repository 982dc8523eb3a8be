"""The inside of a core that is described explicitly: how loops are unrolled over its array, and its memories.

A fixed-dataflow array of any published sort can be described so: weight or output stationary, row stationary,
and arrays of more than two dimensions (ZigZag's way of describing them, Mei et al., IEEE TC 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

LOOP_DIMS = ("B", "G", "K", "C", "OY", "OX", "FY", "FX")
"""Loops of every layer: batch, group, output and input channel of a group, output row and column, filter row
and column. The rows of a matrix product are B, its columns K, its reduction C; where both factors are
activations, G counts the products."""

OPERANDS = ("O", "W", "I")
"""Outputs, weights (or the factor that stays), inputs."""


class Move(StrEnum):
    """The four ways in which data of an operand pass a memory's ports."""

    FILL = "fill"  # written, from the memory above (inputs; partial sums on their way back)
    FEED = "feed"  # read, for the memory or the array below
    STORE = "store"  # written, from below (outputs only)
    DRAIN = "drain"  # read, for the memory above (outputs only)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a memory: the bits that pass it per cycle, in multiples of `grain_bits`, and what it serves.

    `serves` has pairs of an operand and a move. Several moves on one port take turns.
    """

    bits: float
    grain_bits: float
    serves: tuple[tuple[str, Move], ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """One level of memory: `bits` of capacity in each instance, shared by the operands it serves.

    `axes` are the array axes (by position in `Hierarchy.axes`) that one instance serves; along all others
    there is an instance per unit. Energies are pJ for an access of a port's whole width.
    """

    name: str
    bits: float
    operands: tuple[str, ...]
    ports: tuple[Port, ...]
    axes: tuple[int, ...]
    read_pj: float
    write_pj: float

    def port_of(self, operand: str, move: Move) -> Port:
        """The port that an operand's move takes. Raises ValueError if there is none."""
        for port in self.ports:
            if (operand, move) in port.serves:
                return port
        raise ValueError(f"memory {self.name} has no port for {operand} {move}")


@dataclass(frozen=True)
class Hierarchy:
    """Array axes and memories, from the registers upwards.

    An axis unrolls one or more loop dimensions by a factor each. Partial sums have `partial_bits`. The
    topmost level of each operand is the last memory in the list that serves it. Along `systolic` axes data
    pass from unit to unit, so that the last results leave the array a cycle per unit later.
    """

    axes: tuple[tuple[tuple[str, int], ...], ...]
    memories: tuple[Memory, ...]
    partial_bits: int = 16
    systolic: tuple[int, ...] = ()

    @cached_property
    def units(self) -> int:
        """Multiply-accumulate units of the array."""
        count = 1
        for axis in self.axes:
            for _, factor in axis:
                count *= factor
        return count

    @cached_property
    def levels(self) -> dict[str, tuple[int, ...]]:
        """For each operand the positions of its memories, lowest first."""
        return {
            operand: tuple(
                position for position, memory in enumerate(self.memories) if operand in memory.operands
            )
            for operand in OPERANDS
        }

    @cached_property
    def top_bytes(self) -> int:
        """Capacity in bytes of the memories that are some operand's topmost and serve the whole array.

        Weights that come from DRAM straight into registers of the units have none.
        """
        tops = {self.levels[operand][-1] for operand in OPERANDS}
        whole = len(self.axes)
        return int(sum(self.memories[top].bits for top in tops if len(self.memories[top].axes) == whole) // 8)

    def under(self, memory: Memory) -> Hierarchy:
        """The same with one more memory on top."""
        return replace(self, memories=(*self.memories, memory))


BURST_BITS = 64
"""The least that is read from or written to DRAM at once."""


def main_memory(bits_per_cycle: float, read_pj_per_bit: float, write_pj_per_bit: float, axes: int) -> Memory:
    """DRAM without bounds behind one port for reads and writes of all operands of an array of `axes` axes."""
    serves = (("I", Move.FEED), ("W", Move.FEED), ("O", Move.STORE), ("O", Move.FEED))
    port = Port(bits_per_cycle, BURST_BITS, serves)
    read_pj, write_pj = (bits_per_cycle * energy for energy in (read_pj_per_bit, write_pj_per_bit))
    return Memory("dram", float("inf"), OPERANDS, (port,), tuple(range(axes)), read_pj, write_pj)
