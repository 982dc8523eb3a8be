"""Cores, what lies between them, and the device they make up. The cost model reads only this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Dataflow(StrEnum):
    """Which operand stays in the array while the others move (SCALE-Sim's names)."""

    OUTPUT_STATIONARY = "os"
    WEIGHT_STATIONARY = "ws"


@dataclass(frozen=True, slots=True)
class Core:
    """One core of an accelerator: a systolic array with its own SRAM.

    `kind` names the type: cores of one kind have the same costs. `vector_lanes` is how many elementary
    operations per cycle the core does outside the array. Energies are pJ per multiply-accumulate and per
    byte read or written.
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


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between any two cores: bandwidth of one transfer, and energy."""

    bandwidth_bytes_s: float
    energy_pj_per_byte: float


@dataclass(frozen=True)
class Device:
    """Cores that share one DRAM. `dispatch_s` is paid once for every run, `switch_s` for every band."""

    name: str
    cores: tuple[Core, ...]
    dram_bandwidth_bytes_s: float
    dram_energy_pj_per_byte: float
    link: Link
    operand_bytes: float  # width at which float tensors of a model are stored and computed here; int8 is 1
    dispatch_s: float = 0.0
    switch_s: float = 0.0
    source: str = ""

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
