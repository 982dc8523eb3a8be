"""Descriptions of cores: systolic arrays, or arrays with unrolled loops and memories."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headway.config.memories import (
    Axes,
    Axis,
    Loops,
    MemoryDescription,
    axes_of,
    check_memories,
    hierarchy_of,
    reduction_of,
)
from headway.config.quantities import EnergyPerByte, EnergyPerOperation, Frequency, Size
from headway.config.validation import Name, Strict, mistake
from headway.core.device import Core, Dataflow, SharedMemory
from headway.core.hierarchy import OPERANDS, Hierarchy, Memory, Move, Port

MOST_CORES = 1024
MOST_SIDE = 65536  # rows or columns of an array
L2 = "l2"  # the name of the level that cores share


class Array(Strict):
    """A systolic array of rows x columns multiply-accumulate units."""

    rows: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    columns: Annotated[int, Field(ge=1, le=MOST_SIDE)]


class CoreEnergy(Strict):
    """Energy inside a core.

    The defaults are for 8-bit operands, from DeFiNES (HPCA 2023): 0.04 pJ per multiply-accumulate, and
    26 pJ per read of a 128-bit word of a 1 MiB SRAM.
    """

    mac: EnergyPerOperation = 0.04
    sram: EnergyPerByte = 1.625


class CoreGroup(Strict):
    """One core, or `count` equal ones that are named NAME-0, NAME-1 and so on."""

    name: Name
    count: Annotated[int | None, Field(ge=1, le=MOST_CORES)] = None
    array: Array | None = None
    dataflow: Annotated[
        Literal["os", "ws", "is"] | None,
        Field(description="What stays in the array: outputs (os), weights (ws) or inputs (is)."),
    ] = None
    clock: Frequency
    sram: Size | None = None
    unrolling: Annotated[
        Axis | Axes | None,
        Field(
            description="Instead of array, dataflow and sram: the loops that the array unrolls, with "
            "factors; one axis of the array each, or a list of axes.",
        ),
    ] = None
    memories: Annotated[
        Annotated[tuple[MemoryDescription, ...], Field(strict=False)] | None,
        Field(description="With unrolling: registers and SRAM, from the array upwards."),
    ] = None
    partial_sum_bits: Annotated[
        int | None,
        Field(ge=1, le=128, description="With unrolling: the width of partial sums; 16 by default."),
    ] = None
    systolic: Annotated[
        Loops | None,
        Field(description="With unrolling: loops along whose units data pass from one to the next."),
    ] = None
    vector_lanes: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_SIDE,
            description="Elementary operations per cycle outside the array; as many as columns by default.",
        ),
    ] = None
    double_buffered: Annotated[
        bool, Field(description="Whether transfers go on while the array computes.")
    ] = True
    energy: CoreEnergy = CoreEnergy()

    @model_validator(mode="after")
    def _check_inside(self) -> CoreGroup:
        if self.unrolling is None:
            for key in ("array", "dataflow", "sram"):
                if getattr(self, key) is None:
                    raise mistake("missing, but required (or unrolling and memories instead)", key)
            for key in ("memories", "partial_sum_bits", "systolic"):
                if getattr(self, key) is not None:
                    raise mistake("found without unrolling; accepted: both or neither", key)
            return self
        for key in ("array", "dataflow", "sram"):
            if getattr(self, key) is not None:
                raise mistake("found beside unrolling; accepted: one or the other", key)
        if self.memories is None:
            raise mistake("missing, but required with unrolling", "memories")
        if self.energy.sram != CoreEnergy().sram:  # written out, a description has the default
            raise mistake("found beside unrolling; accepted: energies of each memory", "energy", "sram")
        check_memories(self.axes, self.memories)
        if unknown := set(self.systolic or ()) - {loop for axis in self.axes for loop in axis}:
            raise mistake(f"{', '.join(sorted(unknown))} is not unrolled", "systolic")
        return self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of an array that is described by its unrolling; none for others."""
        return () if self.unrolling is None else axes_of(self.unrolling)

    @property
    def rows(self) -> int:
        """Units along the loops that are summed over, or the rows of a systolic array."""
        return self.array.rows if self.array else prod(reduction_of(self.axes))

    @property
    def columns(self) -> int:
        """The other units, or the columns of a systolic array."""
        if self.array:
            return self.array.columns
        return prod(factor for axis in self.axes for factor in axis.values()) // self.rows

    @property
    def lanes(self) -> int:
        """The vector lanes, the default filled in."""
        return self.vector_lanes or self.columns

    def hierarchy(self) -> Hierarchy | None:
        """The inside of a core that is described by its unrolling."""
        if self.memories is None:
            return None
        bits = self.partial_sum_bits or 16
        return hierarchy_of(self.axes, self.memories, bits, self.systolic or ())

    def core(self, index: int, name: str, kind: str, shared: SharedMemory | None = None) -> Core:
        """One of its cores, with its part of the level that cores share."""
        hierarchy = self.hierarchy()
        if hierarchy is not None and shared is not None:
            hierarchy = hierarchy.under(self._level_above(hierarchy, shared))
        sram_pj = self.energy.sram
        if hierarchy is not None:
            top = hierarchy.memories[hierarchy.levels["I"][-1]]
            sram_pj = top.write_pj / top.port_of("I", Move.FILL).bits * 8
        return Core(
            index=index,
            name=name,
            kind=kind,
            rows=self.rows,
            columns=self.columns,
            dataflow=Dataflow(self.dataflow or Dataflow.WEIGHT_STATIONARY),
            clock_hz=self.clock,
            sram_bytes=int(self.sram or 0) + (shared.bytes if shared else 0)
            if hierarchy is None
            else hierarchy.top_bytes,
            vector_lanes=self.lanes,
            mac_energy_pj=self.energy.mac,
            sram_energy_pj_per_byte=sram_pj,
            double_buffered=self.double_buffered,
            hierarchy=hierarchy,
            shared=shared if hierarchy is None else None,
        )

    def _level_above(self, hierarchy: Hierarchy, shared: SharedMemory) -> Memory:
        """The core's part of a shared level: one port for all operands, in both directions."""
        serves = (("I", Move.FILL), ("I", Move.FEED), ("W", Move.FILL), ("W", Move.FEED))
        bits = shared.bandwidth_bytes_s / self.clock * 8
        port = Port(bits, min(bits, 8.0), (*serves, *(("O", move) for move in Move)))
        access_pj = bits / 8 * shared.energy_pj_per_byte
        axes = tuple(range(len(hierarchy.axes)))
        return Memory(L2, shared.bytes * 8.0, OPERANDS, (port,), axes, access_pj, access_pj)

    @property
    def names(self) -> Iterator[str]:
        """The names of the cores that the group stands for."""
        if self.count is None:
            yield self.name
        else:
            yield from (f"{self.name}-{number}" for number in range(self.count))
