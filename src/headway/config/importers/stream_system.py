"""Stream's systems: cores in files of their own, what connects them, and the core in front of the DRAM.

Three forms are in use: a grid or a bus under `graph` or `bus`; pairs of cores as text, all with one
`bandwidth`; and links and buses with a bandwidth each (stream/parser/accelerator_validator.py). Bandwidths
are bits per cycle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headway.config.importers.zigzag_core import ZigZagCore, read_core, read_memories
from headway.config.importers.zigzag_memory import Fields
from headway.config.validation import shown
from headway.config.yaml_file import Document, read_yaml
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Memory, Move

_FIELDS: Final = (
    "name", "cores", "offchip_core", "offchip_core_id", "core_connectivity", "bandwidth", "unit_energy_cost",
    "graph", "bus", "core_memory_sharing", "core_coordinates",
)  # fmt: skip
_GRID: Final = (
    "type", "nb_rows", "nb_cols", "bandwidth", "unit_energy_cost", "pooling_core_id", "simd_core_id",
    "offchip_core_id",
)  # fmt: skip
_HELPERS: Final = re.compile(r"pool|simd|vec", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StreamSystem:
    """A system as described: computing cores by id, the DRAM, and the link between two cores.

    `dram_bits` pass the interface per cycle: the port's, or the bus's to the off-chip core if that is less.
    """

    name: str
    cores: Mapping[int, ZigZagCore]
    dram: Memory
    dram_bits: float
    link_bits: float
    link_pj_per_bit: float
    notes: tuple[str, ...]


def is_stream_system(data: object) -> bool:
    """Whether plain data looks like a system: cores, and a connection or an off-chip core beside them."""
    return (
        isinstance(data, dict)
        and "cores" in data
        and any(
            key in data for key in ("core_connectivity", "offchip_core", "offchip_core_id", "graph", "bus")
        )
    )


def read_stream_system(document: Document, folder: Path) -> StreamSystem:
    """A system whose core files lie in `folder` or in `cores` below it.

    Raises HeadwayError naming file, line and field for whatever is missing, wrong, or without counterpart.
    """
    fields = Fields(document, (), document.data)
    fields.only(*_FIELDS)
    if fields.data.get("core_memory_sharing"):
        raise fields.error("core_memory_sharing", "memories that cores share have no counterpart")
    grid_key = next((key for key in ("graph", "bus") if key in fields.data), None)
    grid = fields if grid_key is None else Fields(document, (grid_key,), fields.data[grid_key])
    if grid_key is not None:
        grid.only(*_GRID)
    entries = _entries(fields)
    offchip = _offchip(fields, grid, entries, folder)
    cores, left_out = {}, []
    for number, entry in entries.items():
        if number == offchip.number:
            continue
        core = _document(fields, number, entry, folder)
        name = str(entry) if isinstance(entry, str) else str(entry.get("name", ""))
        helper = number in (grid.data.get("pooling_core_id"), grid.data.get("simd_core_id"))
        if helper or _HELPERS.search(Path(name).stem):
            left_out.append(f"{number} ({Path(name).stem})")
        else:
            cores[number] = read_core(core)
    if not cores:
        raise fields.error("cores", "none of them computes")
    notes = ["any two cores are connected directly: routes over several links have no counterpart"]
    if left_out:
        notes.append(
            f"cores {', '.join(left_out)} left out: pooling and elementwise work is done by each core's lanes"
        )
    link_bits, energy, bus_bits = _connections(fields, grid, set(cores), offchip.number, notes)
    port = max((port for port in offchip.memory.ports), key=lambda port: port.bits)
    return StreamSystem(
        name=str(fields.data.get("name", "system")),
        cores=cores,
        dram=offchip.memory,
        dram_bits=min(port.bits, bus_bits or port.bits),
        link_bits=link_bits,
        link_pj_per_bit=energy,
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Offchip:
    memory: Memory
    number: int | None


def _entries(fields: Fields) -> dict[int, Any]:
    """File names or descriptions of the cores by their ids, which are positions where there are none."""
    given = fields.required("cores")
    if isinstance(given, list):
        pairs = {str(position): entry for position, entry in enumerate(given)}
    elif isinstance(given, dict):
        pairs = given
    else:
        raise fields.error("cores", f"found {shown(given)}; accepted: a list, or a mapping of ids to files")
    entries = {}
    for key, entry in pairs.items():
        if not re.fullmatch(r"[0-9]{1,4}", key):
            raise fields.error("cores", f"found the id {key!r}; accepted: a whole number")
        if not isinstance(entry, (str, dict)):
            raise fields.error("cores", f"{key}: found {shown(entry)}; accepted: a file's name or a core")
        entries[int(key)] = entry
    return entries


def _document(fields: Fields, number: int | None, entry: Any, folder: Path) -> Document:
    """The description of a core, from its file or in place."""
    place = "offchip_core" if number is None else "cores"
    if isinstance(entry, dict):
        return Document(f"{fields.document.name}: core {number}", entry)
    name = entry if entry.endswith((".yaml", ".yml")) else f"{entry}.yaml"
    places = [folder / name] if "/" in name else [folder / "cores" / name, folder / name]
    for file in places:
        if file.is_file():
            return read_yaml(file, repeated_keys=True)
    looked = " or ".join(str(file) for file in places)
    raise fields.error(place, f"core file {entry!r} is not there; looked for {looked}")


def _offchip(fields: Fields, grid: Fields, entries: Mapping[int, Any], folder: Path) -> _Offchip:
    number: int | None = None
    if fields.data.get("offchip_core") is not None:
        entry = fields.data["offchip_core"]
        if not isinstance(entry, (str, dict)):
            raise fields.error("offchip_core", f"found {shown(entry)}; accepted: a file's name or a core")
    else:
        holder = grid if "offchip_core_id" in grid.data else fields
        number = int(holder.number("offchip_core_id", whole=True))
        if number not in entries:
            raise holder.error("offchip_core_id", f"found {number}; accepted: the id of one of cores")
        entry = entries[number]
    document = _document(fields, number, entry, folder)
    _, memories, _ = read_memories(document)
    memory = memories[-1]
    moves = {move for port in memory.ports for operand, move in port.serves if operand == "O"}
    if not {Move.FEED, Move.STORE} <= moves:
        raise HeadwayError(f"{document.where(('memories', memory.name, 'ports'))}: O is not read and written")
    return _Offchip(memory, number)


def _connections(
    fields: Fields, grid: Fields, computing: set[int], offchip: int | None, notes: list[str]
) -> tuple[float, float, float | None]:
    """Bits per cycle and energy per bit between two cores, and bits per cycle to the off-chip core."""
    energy = grid.number("unit_energy_cost") if "unit_energy_cost" in grid.data else 0.0
    given = fields.data.get("core_connectivity")
    if given is None:
        return grid.number("bandwidth", least=1), energy, None
    if not isinstance(given, list) or not given:
        raise fields.error("core_connectivity", f"found {shown(given)}; accepted: a list of connections")
    if all(isinstance(entry, str) for entry in given):
        return fields.number("bandwidth", least=1), energy, None
    if "bandwidth" in fields.data:
        raise fields.error(
            "bandwidth", "a bandwidth of ports or cores beside that of links has no counterpart"
        )
    between: list[float] = []
    to_dram: list[float] = []
    energies: list[float] = []
    for position, entry in enumerate(given):
        link = Fields(fields.document, ("core_connectivity", position), entry)
        link.only("type", "cores", "bandwidth", "unit_energy_cost")
        ends = link.required("cores")
        if not isinstance(ends, list) or not all(isinstance(end, int) for end in ends):
            raise link.error("cores", f"found {shown(ends)}; accepted: a list of ids")
        bits = link.number("bandwidth", least=1)
        if offchip in ends:
            to_dram.append(bits)
        elif len(computing & set(ends)) > 1:
            between.append(bits)
            energies.append(link.number("unit_energy_cost") if "unit_energy_cost" in link.data else energy)
            if link.data.get("type") == "bus" and "a bus" not in " ".join(notes):
                notes.append("a bus is read as a link between any two of its cores, each with its bandwidth")
    if not between:
        between, energies = to_dram, [energy]
        notes.append("cores are connected by way of the off-chip core's bus alone")
    if not between:
        raise fields.error("core_connectivity", "nothing connects the cores that compute")
    if len(set(between)) > 1:
        notes.append(f"links of {min(between):g} to {max(between):g} bits: all are read as the slowest")
    return min(between), max(energies), min(to_dram, default=None)
