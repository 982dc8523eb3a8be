"""Explicit descriptions of a core: how loops are unrolled over its array, and its memories and ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from headway.config.quantities import EnergyPerOperation, Size, closest
from headway.config.validation import Name, Strict, mistake, shown
from headway.core.hierarchy import OPERANDS, Hierarchy, Memory, Move, Port

MOST_UNROLLED = 65536
MOST_AXES = 8
MOST_BITS = 1 << 20
MOST_MEMORIES = 32

Loop = Literal["B", "G", "K", "C", "OY", "OX", "FY", "FX"]
Operand = Literal["W", "I", "O"]
Bits = Annotated[int, Field(ge=1, le=MOST_BITS)]
Axis = dict[Loop, Annotated[int, Field(ge=1, le=MOST_UNROLLED)]]
Axes = Annotated[tuple[Axis, ...], Field(strict=False)]
Loops = Annotated[tuple[Loop, ...], Field(strict=False)]
AxisNumber = Annotated[int, Field(ge=0, lt=MOST_AXES)]

_MOVES = {"W": (Move.FILL, Move.FEED), "I": (Move.FILL, Move.FEED), "O": tuple(Move)}
_READS = (Move.FEED, Move.DRAIN)
_SERVED = tuple(f"{operand} {move}" for operand in ("W", "I", "O") for move in _MOVES[operand])


class PortDescription(Strict):
    """A port of its own for some moves of data."""

    bits: Annotated[Bits, Field(description="Bits per cycle.")]
    serves: Annotated[
        tuple[str, ...],
        Field(
            strict=False,
            description="Operand and move: fill (from above), feed (to below), store (from below) or drain "
            "(to above), such as 'W fill' or 'O drain'.",
        ),
    ]

    @field_validator("serves")
    @classmethod
    def _known(cls, serves: tuple[str, ...]) -> tuple[str, ...]:
        for entry in serves:
            if entry not in _SERVED:
                raise mistake(
                    f"found {shown(entry)}{closest(entry, frozenset(_SERVED))}; "
                    f"accepted: {', '.join(_SERVED)}"
                )
        return serves

    @property
    def moves(self) -> tuple[tuple[str, Move], ...]:
        """Pairs of operand and move."""
        pairs = (entry.split() for entry in self.serves)
        return tuple((operand, Move(move)) for operand, move in pairs)


class MemoryDescription(Strict):
    """One level of memory of a core.

    `shared_over` names the unrolled loops whose units share an instance, or axes of the array by their
    position from 0 (all by default, none for a register of each unit). `ports: separate` is one port for
    reads and one for writes, `shared` one for both, `each` one for every operand and move.
    """

    name: Name
    size: Annotated[Size, Field(description="Capacity of one instance.")]
    operands: Annotated[
        tuple[Operand, ...], Field(strict=False, description="Weights W, inputs I, outputs O.")
    ]
    shared_over: Annotated[tuple[Loop | AxisNumber, ...], Field(strict=False)] | None = None
    width_bits: Annotated[
        Bits | None, Field(description="Bits per cycle of a port, reading and writing.")
    ] = None
    read_bits: Bits | None = None
    write_bits: Bits | None = None
    grain_bits: Annotated[
        Bits | None, Field(description="The least that is accessed at once; the whole width by default.")
    ] = None
    read_energy: Annotated[EnergyPerOperation, Field(description="Of one access of the whole width.")]
    write_energy: EnergyPerOperation
    ports: (
        Literal["separate", "shared", "each"] | Annotated[tuple[PortDescription, ...], Field(strict=False)]
    ) = "separate"

    @model_validator(mode="after")
    def _check(self) -> MemoryDescription:
        if not self.operands or len(set(self.operands)) < len(self.operands):
            raise mistake(f"found {list(self.operands)}; accepted: some of W, I, O, each once", "operands")
        if isinstance(self.ports, tuple):
            self._check_ports(self.ports)
        elif self.width_bits is None and (self.read_bits is None or self.write_bits is None):
            raise mistake("missing width_bits (or both read_bits and write_bits)", "width_bits")
        elif self.width_bits is not None and (self.read_bits or self.write_bits):
            raise mistake("found width_bits beside read_bits or write_bits; accepted: either", "width_bits")
        if self.ports == "shared" and self.width_bits is None:
            raise mistake("a shared port has one width; accepted: width_bits", "width_bits")
        return self

    def _check_ports(self, ports: tuple[PortDescription, ...]) -> None:
        if self.width_bits or self.read_bits or self.write_bits:
            raise mistake("found a list of ports beside widths; accepted: bits of each port", "ports")
        served = [pair for port in ports for pair in port.moves]
        for operand in self.operands:
            for move in _MOVES[operand]:
                if served.count((operand, move)) != 1:
                    times = served.count((operand, move))
                    raise mistake(f"{operand} {move} is served by {times} ports; accepted: one", "ports")
        for other, move in served:
            if other not in self.operands:
                raise mistake(f"{other} {move} is served, but {other} is not in operands", "ports")

    def port_list(self) -> tuple[Port, ...]:
        """The ports as the cost model has them."""
        if isinstance(self.ports, tuple):
            return tuple(
                Port(port.bits, min(self.grain_bits or port.bits, port.bits), port.moves)
                for port in self.ports
            )
        pairs: list[tuple[str, Move]] = [
            (operand, move) for operand in OPERANDS if operand in self.operands for move in _MOVES[operand]
        ]
        if self.ports == "shared":
            return (self._port(True, pairs),)
        reads = [pair for pair in pairs if pair[1] in _READS]
        writes = [pair for pair in pairs if pair[1] not in _READS]
        if self.ports == "separate":
            return (self._port(True, reads), self._port(False, writes))
        return tuple(self._port(pair in reads, [pair]) for pair in pairs)

    def _port(self, read: bool, pairs: list[tuple[str, Move]]) -> Port:
        bits = self.width_bits or (self.read_bits if read else self.write_bits) or 0
        return Port(bits, min(self.grain_bits or bits, bits), tuple(pairs))

    def shared_axes(self, axes: tuple[Axis, ...]) -> tuple[int, ...]:
        """Positions of the axes whose units share an instance."""
        over = self.shared_over
        return tuple(
            index
            for index, axis in enumerate(axes)
            if over is None or index in over or any(loop in over for loop in axis)
        )

    def memory(self, axes: tuple[Axis, ...]) -> Memory:
        """The level as the cost model has it."""
        return Memory(
            self.name,
            self.size * 8,
            self.operands,
            self.port_list(),
            self.shared_axes(axes),
            self.read_energy,
            self.write_energy,
        )


def axes_of(unrolling: Axis | tuple[Axis, ...]) -> tuple[Axis, ...]:
    """One axis for each loop, or as many as are listed."""
    if isinstance(unrolling, tuple):
        return unrolling
    return tuple({loop: factor} for loop, factor in unrolling.items())


def check_memories(axes: tuple[Axis, ...], memories: tuple[MemoryDescription, ...]) -> None:
    """Refuse memories that make no hierarchy on those axes."""
    if not axes or any(not axis for axis in axes):
        raise mistake("found an axis without loops; accepted: loops with factors", "unrolling")
    if len(axes) > MOST_AXES:
        raise mistake(f"{len(axes)} axes; at most {MOST_AXES} are accepted", "unrolling")
    unrolled: list[str] = [loop for axis in axes for loop in axis]
    if len(memories) > MOST_MEMORIES:
        raise mistake(f"{len(memories)} memories; at most {MOST_MEMORIES} are accepted", "memories")
    names: dict[str, int] = {}
    below: dict[str, tuple[int, set[int]]] = {}
    for position, memory in enumerate(memories):
        if memory.name in names:
            raise mistake(
                f"memory name {memory.name!r} is already taken by memories[{names[memory.name]}]",
                "memories",
                position,
                "name",
            )
        names[memory.name] = position
        known = {*unrolled, *range(len(axes))}
        if missing := [over for over in memory.shared_over or () if over not in known]:
            raise mistake(
                f"{', '.join(map(str, missing))} is not unrolled; accepted: {', '.join(unrolled)}, or 0 to "
                f"{len(axes) - 1} for an axis",
                "memories",
                position,
                "shared_over",
            )
        shared = set(memory.shared_axes(axes))
        for operand in memory.operands:
            if operand in below and not below[operand][1] <= shared:
                lower = memories[below[operand][0]].name
                raise mistake(
                    f"units that share {lower} must share this memory above it too (operand {operand})",
                    "memories",
                    position,
                    "shared_over",
                )
            below[operand] = (position, shared)
    for operand in ("W", "I", "O"):
        if operand not in below:
            raise mistake(f"no memory serves operand {operand}; accepted: at least one", "memories")


def hierarchy_of(
    axes: tuple[Axis, ...],
    memories: tuple[MemoryDescription, ...],
    partial_bits: int,
    systolic: tuple[Loop, ...],
) -> Hierarchy:
    """The core's inside as the cost model has it."""
    return Hierarchy(
        axes=tuple(tuple(axis.items()) for axis in axes),
        memories=tuple(memory.memory(axes) for memory in memories),
        partial_bits=partial_bits,
        systolic=tuple(index for index, axis in enumerate(axes) if any(loop in systolic for loop in axis)),
    )


def reduction_of(axes: tuple[Axis, ...]) -> Iterator[int]:
    """Factors of the unrolled loops that are summed over."""
    for axis in axes:
        for loop, factor in axis.items():
            if loop in ("C", "FY", "FX"):
                yield factor
