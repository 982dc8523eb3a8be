"""Hardware descriptions: the schema of their YAML, and the device that a description stands for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from math import fsum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from headway.config.cores import L2, MOST_CORES, CoreGroup
from headway.config.lanes import LaneHardware, StreamHardware
from headway.config.quantities import (
    Bandwidth,
    EnergyPerByte,
    Overhead,
    Size,
)
from headway.config.validation import Name, Strict, mistake, shown, validate
from headway.config.yaml_file import Document, Place, parse_yaml
from headway.core.device import Core, Device, Link, SharedMemory
from headway.core.errors import HeadwayError

_WITH_MAPPING = re.compile(r"(.*\.(?:ya?ml|cfg))#(.+)")


class LinkDescription(Strict):
    """The connection between any two cores. The default energy is a hop of 0.7 pJ/bit (Gemini, HPCA 2024)."""

    bandwidth: Bandwidth
    energy: EnergyPerByte = 5.6


class Dram(Strict):
    """The memory that all cores share. The default energy is 7.5 pJ/bit (SET, ISCA 2023)."""

    bandwidth: Bandwidth
    energy: EnergyPerByte = 60.0
    write_energy: Annotated[
        EnergyPerByte | None, Field(description="Of writes, if not that of reads, which is then `energy`.")
    ] = None


class SharedL2(Strict):
    """A second level of memory that all cores share, each an equal part of its room and of its port."""

    size: Size
    bandwidth: Annotated[Bandwidth, Field(description="Read and written, by all cores together.")]
    energy: Annotated[
        EnergyPerByte, Field(description="Of a byte read or written; by default that of a core's SRAM.")
    ] = 1.625


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
    l2: Annotated[SharedL2 | None, Field(description="A second level of memory that all cores share.")] = None
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
        if self.l2 is not None:
            self._check_l2(self.l2.size / total)
        if total > 1 and self.link is None:
            raise mistake("missing, but required if there is more than one core", "link")
        return self

    def _check_l2(self, part: float) -> None:
        """Cores' parts hold a byte, and nothing of the array has that name already."""
        if part < 1:
            raise mistake("less than a byte for each core; accepted: at least one", "l2", "size")
        for position, group in enumerate(self.cores):
            for index, memory in enumerate(group.memories or ()):
                if memory.name == L2:
                    raise mistake(
                        f"found a memory named {L2!r} beside {L2}; accepted: one or the other",
                        *("cores", position, "memories", index, "name"),
                    )

    def device(self) -> Device:
        """The device that the cost model and the engine work with. Equal groups of cores share one kind."""
        kinds: dict[str, str] = {}
        cores: list[Core] = []
        count = sum(group.count or 1 for group in self.cores)
        part = None
        if self.l2 is not None:
            part = SharedMemory(int(self.l2.size / count), self.l2.bandwidth / count, self.l2.energy)
        for group in self.cores:
            alike = group.model_copy(update={"name": "", "count": None, "vector_lanes": group.lanes})
            kind = kinds.setdefault(alike.model_dump_json(), group.name)
            first = len(cores)
            cores.extend(
                group.core(first + offset, name, kind, part) for offset, name in enumerate(group.names)
            )
        # With one core nothing ever crosses a link; its numbers are then those of the DRAM.
        link = self.link or self.dram
        write_energy = self.dram.write_energy
        energies = (self.dram.energy, self.dram.energy if write_energy is None else write_energy)
        return Device(
            name=self.name,
            cores=tuple(cores),
            dram_bandwidth_bytes_s=self.dram.bandwidth,
            dram_energy_pj_per_byte=fsum(energies) / 2,
            dram_read_write_pj_per_byte=energies,
            link=Link(link.bandwidth, link.energy),
            operand_bytes=self.operand_bits / 8,
            dispatch_s=self.dispatch_overhead,
            switch_s=self.switch_overhead,
            source=self.source,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data that loads again to an equal description."""
        return self.model_dump(mode="json", exclude_none=True)


def sort_of(description: object) -> type[Hardware] | type[LaneHardware] | type[StreamHardware]:
    """Which schema a description follows, plain data or already checked: one with `lanes`, one with `streams`
    or `gpu`, or else cores."""
    for sort, keys in ((LaneHardware, ("lanes",)), (StreamHardware, ("streams", "gpu"))):
        if isinstance(description, sort):
            return sort
        if isinstance(description, Mapping) and any(key in description for key in keys):
            return sort
    return Hardware


_TAGS = {Hardware: "with cores", LaneHardware: "with lanes", StreamHardware: "with streams"}

AnyHardware = Annotated[
    Annotated[Hardware, Tag(_TAGS[Hardware])]
    | Annotated[LaneHardware, Tag(_TAGS[LaneHardware])]
    | Annotated[StreamHardware, Tag(_TAGS[StreamHardware])],
    Discriminator(lambda description: _TAGS[sort_of(description)]),
]
"""A field that holds any of the descriptions."""


def load_hardware(hardware: str | Path | Mapping[str, Any]) -> Device:
    """The device described by a preset's name, a YAML file, or a mapping of the same form.

    Raises HeadwayError with file, line and field for whatever is wrong with the description.
    """
    return describe_hardware(hardware).device()


def describe_hardware(hardware: str | Path | Mapping[str, Any]) -> Hardware | LaneHardware | StreamHardware:
    """The checked description of a preset, a file or a mapping; see `load_hardware`."""
    if isinstance(hardware, Mapping):
        return check_hardware(Document("hardware", dict(hardware)))
    return check_hardware(hardware_document(hardware))


def check_hardware(document: Document) -> Hardware | LaneHardware | StreamHardware:
    """A document as the description it is. Raises HeadwayError with one line for each mistake."""
    return validate(sort_of(document.data), document)


def preset_names() -> tuple[str, ...]:
    """The names of the presets, sorted without regard to case."""
    return tuple(sorted(_presets(), key=str.lower))


def hardware_document(name_or_path: str | Path, folder: Path | None = None) -> Document:
    """The description of a preset or of a file, relative to `folder`, not yet checked.

    A file may be another tool's; see `headway.config.importers.reading`. An accelerator of ZigZag may be
    followed by the file of its mapping, as in `tpu_like.yaml#mapping.yaml`.
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

    within = folder or Path()
    if with_mapping := _WITH_MAPPING.fullmatch(str(name_or_path)):
        return read_hardware(within / with_mapping[1], within / with_mapping[2])
    return read_hardware(within / name_or_path)


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
