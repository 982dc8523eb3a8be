"""Hardware descriptions: the schema of their YAML, and the device that a description stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from headway.config.lanes import LaneHardware
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
from headway.config.quantities import (
    Bandwidth,
    EnergyPerByte,
    EnergyPerOperation,
    Frequency,
    Overhead,
    Size,
)
from headway.config.validation import Name, Strict, mistake, shown, validate
from headway.config.yaml_file import Document, Place, parse_yaml
from headway.core.device import Core, Dataflow, Device, Link
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Hierarchy, Move

MOST_CORES = 1024
MOST_SIDE = 65536  # rows or columns of an array


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
        Literal["os", "ws"] | None,
        Field(description="What stays in the array: outputs (os) or weights (ws)."),
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

    def core(self, index: int, name: str, kind: str) -> Core:
        """One of its cores."""
        hierarchy = self.hierarchy()
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
            sram_bytes=int(self.sram or 0) if hierarchy is None else hierarchy.top_bytes,
            vector_lanes=self.lanes,
            mac_energy_pj=self.energy.mac,
            sram_energy_pj_per_byte=sram_pj,
            double_buffered=self.double_buffered,
            hierarchy=hierarchy,
        )

    @property
    def names(self) -> Iterator[str]:
        """The names of the cores that the group stands for."""
        if self.count is None:
            yield self.name
        else:
            yield from (f"{self.name}-{number}" for number in range(self.count))


class LinkDescription(Strict):
    """The connection between any two cores. The default energy is a hop of 0.7 pJ/bit (Gemini, HPCA 2024)."""

    bandwidth: Bandwidth
    energy: EnergyPerByte = 5.6


class Dram(Strict):
    """The memory that all cores share. The default energy is 7.5 pJ/bit (SET, ISCA 2023)."""

    bandwidth: Bandwidth
    energy: EnergyPerByte = 60.0


class Hardware(Strict):
    """A multi-core accelerator: cores with their arrays and SRAM, a link between them, one shared DRAM."""

    name: Name
    source: Annotated[str, Field(description="Where the numbers come from.")] = ""
    assumptions: Annotated[str, Field(description="Which numbers are recalled or assumed.")] = ""
    operand_bits: Annotated[
        Literal[4, 8, 16, 32],
        Field(description="Width at which float tensors of a model are stored and computed here."),
    ] = 8
    cores: Annotated[tuple[CoreGroup, ...], Field(strict=False, json_schema_extra={"minItems": 1})]
    link: Annotated[LinkDescription | None, Field(description="Required if there is more than one core.")] = (
        None
    )
    dram: Dram
    dispatch_overhead: Annotated[Overhead, Field(description="Paid once for every run.")] = 1e-6
    switch_overhead: Annotated[Overhead, Field(description="Paid for every band of a fused run.")] = 5e-8

    @model_validator(mode="after")
    def _check_cores(self) -> Hardware:
        if not self.cores:
            raise mistake("found an empty list; accepted: at least one core", "cores")
        total = sum(group.count or 1 for group in self.cores)
        if total > MOST_CORES:
            raise mistake(f"{total} cores; at most {MOST_CORES} are accepted", "cores")
        groups: dict[str, int] = {}
        cores: dict[str, int] = {}
        for position, group in enumerate(self.cores):
            place: Place = ("cores", position, "name")
            for name, seen in ((group.name, groups), *((name, cores) for name in group.names)):
                if name in seen:
                    raise mistake(f"core name {name!r} is already taken by cores[{seen[name]}]", *place)
                seen[name] = position
        if total > 1 and self.link is None:
            raise mistake("missing, but required if there is more than one core", "link")
        return self

    def device(self) -> Device:
        """The device that the cost model and the engine work with. Equal groups of cores share one kind."""
        kinds: dict[str, str] = {}
        cores: list[Core] = []
        for group in self.cores:
            alike = group.model_copy(update={"name": "", "count": None, "vector_lanes": group.lanes})
            kind = kinds.setdefault(alike.model_dump_json(), group.name)
            first = len(cores)
            cores.extend(group.core(first + offset, name, kind) for offset, name in enumerate(group.names))
        # With one core nothing ever crosses a link; its numbers are then those of the DRAM.
        link = self.link or self.dram
        return Device(
            name=self.name,
            cores=tuple(cores),
            dram_bandwidth_bytes_s=self.dram.bandwidth,
            dram_energy_pj_per_byte=self.dram.energy,
            link=Link(link.bandwidth, link.energy),
            operand_bytes=self.operand_bits / 8,
            dispatch_s=self.dispatch_overhead,
            switch_s=self.switch_overhead,
            source=self.source,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data that loads again to an equal description."""
        return self.model_dump(mode="json", exclude_none=True)


def sort_of(description: object) -> type[Hardware] | type[LaneHardware]:
    """Which schema a description follows, plain data or already checked: one with `lanes`, or else cores."""
    has_lanes = isinstance(description, LaneHardware) or (
        isinstance(description, Mapping) and "lanes" in description
    )
    return LaneHardware if has_lanes else Hardware


AnyHardware = Annotated[
    Annotated[Hardware, Tag("with cores")] | Annotated[LaneHardware, Tag("with lanes")],
    Discriminator(lambda description: "with lanes" if sort_of(description) is LaneHardware else "with cores"),
]
"""A field that holds either description."""


def load_hardware(hardware: str | Path | Mapping[str, Any]) -> Device:
    """The device described by a preset's name, a YAML file, or a mapping of the same form.

    Raises HeadwayError with file, line and field for whatever is wrong with the description.
    """
    return describe_hardware(hardware).device()


def describe_hardware(hardware: str | Path | Mapping[str, Any]) -> Hardware | LaneHardware:
    """The checked description of a preset, a file or a mapping; see `load_hardware`."""
    if isinstance(hardware, Mapping):
        return check_hardware(Document("hardware", dict(hardware)))
    return check_hardware(hardware_document(hardware))


def check_hardware(document: Document) -> Hardware | LaneHardware:
    """A document as the description it is. Raises HeadwayError with one line for each mistake."""
    return validate(sort_of(document.data), document)


def preset_names() -> tuple[str, ...]:
    """The names of the presets, sorted without regard to case."""
    return tuple(sorted(_presets(), key=str.lower))


def hardware_document(name_or_path: str | Path, folder: Path | None = None) -> Document:
    """The description of a preset or of a file, relative to `folder`, not yet checked.

    A file may be another tool's; see `headway.config.importers.reading`.
    """
    if isinstance(name_or_path, str) and not _is_path(name_or_path):
        if name_or_path not in _presets():
            near = difflib.get_close_matches(name_or_path, preset_names(), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise HeadwayError(
                f"no hardware preset named {shown(name_or_path)}{hint};"
                f" accepted: {', '.join(preset_names())}, or a path that ends in .yaml or .cfg"
            )
        return _preset(name_or_path)
    from headway.config.importers.reading import read_hardware

    return read_hardware((folder or Path()) / name_or_path)


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml", ".cfg")) or "/" in text or "\\" in text


@cache
def _presets() -> dict[str, str]:
    """The text of each preset by its name, which is its file's name."""
    folder = resources.files("headway.config") / "presets"
    return {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    }


def _preset(name: str) -> Document:
    return parse_yaml(_presets()[name], f"preset {name}")
