"""Cores or lanes, what lies between them, and the device they make up. The cost model reads only this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from headway.core.hierarchy import Hierarchy


class Dataflow(StrEnum):
    """Which operand stays in the array while the others move (SCALE-Sim's names)."""

    OUTPUT_STATIONARY = "os"
    WEIGHT_STATIONARY = "ws"
    INPUT_STATIONARY = "is"


LANE = "lane"
"""The kind of every lane."""


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A core's part of a second level of memory that cores share, divided equally and for good.

    `bytes` of capacity, and those read and written per second on either side; energy per byte of that.
    """

    bytes: int
    bandwidth_bytes_s: float
    energy_pj_per_byte: float


@dataclass(frozen=True, slots=True)
class Core:
    """One core of an accelerator, a systolic array with its own SRAM; or a lane of a live device.

    `kind` names the type: cores of one kind have the same costs. `vector_lanes` is how many elementary
    operations per cycle the core does outside the array. Energies are pJ per multiply-accumulate and per
    byte read or written.

    A core with a `hierarchy` is described explicitly: which loops its array unrolls, and its memories. Its
    costs come from mappings on them; `rows` are then the units along the loops that are summed over,
    `columns` the others, and `sram_bytes` is what its topmost memories hold.

    `shared` is the core's part of a level that cores share, behind the SRAM of a systolic array: its bytes
    are among `sram_bytes`. A core with a hierarchy has such a level as its topmost memory.

    A lane is `threads` threads of a processor that run one block at a time. It has no array, and only
    measured times: its other numbers are zero and mean nothing. `threads` is zero for a core.
    """

    index: int
    name: str
    kind: str
    rows: int
    columns: int
    dataflow: Dataflow
    clock_hz: float
    sram_bytes: int
    vector_lanes: int
    mac_energy_pj: float
    sram_energy_pj_per_byte: float
    double_buffered: bool = True
    threads: int = 0
    hierarchy: Hierarchy | None = None
    shared: SharedMemory | None = None

    @classmethod
    def lane(cls, index: int, threads: int) -> Core:
        """A lane of that many threads."""
        return cls(
            index,
            f"{LANE}-{index}",
            LANE,
            0,
            0,
            Dataflow.OUTPUT_STATIONARY,
            0.0,
            0,
            0,
            0.0,
            0.0,
            False,
            threads,
        )


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between any two cores: bandwidth of one transfer, and energy."""

    bandwidth_bytes_s: float
    energy_pj_per_byte: float


@dataclass(frozen=True)
class Device:
    """Cores that share one DRAM. `dispatch_s` is paid once for every run, `switch_s` for every band.

    `dram_energy_pj_per_byte` is the mean of reads and writes, which costs of runs count with; what each takes
    where they differ is in `dram_read_write_pj_per_byte`.

    Or lanes (`Device.of_lanes`), all alike: what they do to each other is measured, not derived from traffic,
    so their bandwidth is infinite, and what running costs beside the blocks is in their cost tables.
    """

    name: str
    cores: tuple[Core, ...]
    dram_bandwidth_bytes_s: float
    dram_energy_pj_per_byte: float
    link: Link
    operand_bytes: float  # width at which float tensors of a model are stored and computed here; int8 is 1
    dispatch_s: float = 0.0
    switch_s: float = 0.0
    source: str = ""
    dram_read_write_pj_per_byte: tuple[float, float] | None = None

    @cached_property
    def dram_read_pj_per_byte(self) -> float:
        """Energy of a byte read from DRAM."""
        return (self.dram_read_write_pj_per_byte or (self.dram_energy_pj_per_byte,))[0]

    @cached_property
    def dram_write_pj_per_byte(self) -> float:
        """Energy of a byte written to DRAM."""
        return (self.dram_read_write_pj_per_byte or (self.dram_energy_pj_per_byte,))[-1]

    @classmethod
    def of_lanes(cls, name: str, count: int, threads_per_lane: int, source: str = "") -> Device:
        """A device of equal lanes."""
        return cls(
            name=name,
            cores=tuple(Core.lane(index, threads_per_lane) for index in range(count)),
            dram_bandwidth_bytes_s=float("inf"),
            dram_energy_pj_per_byte=0.0,
            link=Link(float("inf"), 0.0),
            operand_bytes=4.0,
            source=source,
        )

    @cached_property
    def has_lanes(self) -> bool:
        """Whether its cores are lanes."""
        return self.cores[0].kind == LANE

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The distinct core types, in the order of their first core."""
        return tuple(dict.fromkeys(core.kind for core in self.cores))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """For each core the position of its type in `kinds`."""
        return tuple(self.kinds.index(core.kind) for core in self.cores)

    @cached_property
    def exemplars(self) -> tuple[Core, ...]:
        """One core of each type, in the order of `kinds`."""
        return tuple(next(core for core in self.cores if core.kind == kind) for kind in self.kinds)

    @cached_property
    def kind_counts(self) -> tuple[int, ...]:
        """How many cores there are of each type, in the order of `kinds`."""
        return tuple(sum(core.kind == kind for core in self.cores) for kind in self.kinds)
