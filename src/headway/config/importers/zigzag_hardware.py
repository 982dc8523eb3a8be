"""ZigZag's accelerators and Stream's systems as hardware descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.config.importers.names import plain_name
from headway.config.importers.stream_system import read_stream_system
from headway.config.importers.zigzag_core import ZigZagCore, read_core
from headway.config.importers.zigzag_mapping import read_spatial_mapping
from headway.config.yaml_file import Document
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Memory, Move

_NOTES = (
    "a clock of 1 GHz, which the file does not say",
    "no overhead for starting a run or a band",
    "elementwise work on as many lanes as the array has columns",
)


def zigzag_hardware(document: Document, path: Path, mapping: Path | None = None) -> Document:
    """The description of one core and its DRAM; a mapping file says what the array unrolls.

    Raises HeadwayError naming file, line and field for what has no counterpart, and for a file without DRAM.
    """
    flows, unread = (None, ()) if mapping is None else read_spatial_mapping(mapping)
    core = read_core(document, flows)
    if core.dram is None:
        raise HeadwayError(
            f"{document.where(('memories',))}: the last is not a DRAM; accepted: one named dram, or of 2^30 "
            "bits and more for all operands (a core of Stream belongs into a system)"
        )
    bits = max(port.bits for port in core.dram.ports)
    source = f"{path.name}, an accelerator of ZigZag"
    notes = list(core.notes)
    if mapping is not None:
        source += f", with {mapping.name}"
        notes += [f"not read: {each}" for each in unread]
    data = _hardware(core.name, source, [core], core.dram, bits, notes)
    return Document(document.name, data)


def stream_hardware(document: Document, path: Path) -> Document:
    """The description of a system's computing cores, the link between them, and the DRAM.

    Raises HeadwayError naming file, line and field for what has no counterpart.
    """
    system = read_stream_system(document, path.parent)
    widths = sorted({core.operand_bits for core in system.cores.values()})
    if len(widths) > 1:
        raise HeadwayError(
            f"{document.where(('cores',))}: cores compute on operands of {', '.join(map(str, widths))} bits; "
            "accepted: all on the same"
        )
    for number, core in system.cores.items():
        if core.dram is not None:
            raise HeadwayError(
                f"{document.where(('cores',))}: core {number} has a DRAM of its own ({core.dram.name}), "
                "which has no counterpart in a system"
            )
    cores = list(system.cores.values())
    notes = list(dict.fromkeys((*(note for core in cores for note in core.notes), *system.notes)))
    data = _hardware(
        system.name, f"{path.name}, a system of Stream", cores, system.dram, system.dram_bits, notes
    )
    for entry, number in zip(data["cores"], system.cores, strict=True):
        entry["name"] = f"{entry['name']}-{number}"
    if len(cores) > 1:
        data["link"] = {
            "bandwidth": _bandwidth(system.link_bits),
            "energy": f"{system.link_pj_per_bit!r} pJ/bit",
        }
    return Document(document.name, data)


def _hardware(
    name: str, source: str, cores: Sequence[ZigZagCore], dram: Memory, dram_bits: float, notes: Sequence[str]
) -> dict[str, Any]:
    width = max(port.bits for port in dram.ports)
    return {
        "name": plain_name(name),
        "source": source,
        "assumptions": "; ".join((*_NOTES, *notes)) + ".",
        "operand_bits": cores[0].operand_bits,
        "cores": [_core(core) for core in cores],
        "dram": {
            "bandwidth": _bandwidth(dram_bits),
            "energy": f"{dram.read_pj / width!r} pJ/bit",
            "write_energy": f"{dram.write_pj / width!r} pJ/bit",
        },
        "dispatch_overhead": "0 s",
        "switch_overhead": "0 s",
    }


def _bandwidth(bits_per_cycle: float) -> str:
    return f"{bits_per_cycle / 8!r} GB/s"


def _core(core: ZigZagCore) -> dict[str, Any]:
    unrolling = []
    for axis in core.hierarchy.axes:
        loops: dict[str, int] = {}
        for loop, factor in axis:
            if factor > 1:
                loops[loop] = loops.get(loop, 1) * factor
        unrolling.append(loops)
    described: dict[str, Any] = {
        "name": plain_name(core.name),
        "unrolling": [loops for loops in unrolling if loops] or [{"K": 1}],
        "clock": "1 GHz",
        "partial_sum_bits": core.partial_bits,
        "memories": [_memory(core, memory, unrolling) for memory in core.hierarchy.memories],
        "energy": {"mac": f"{core.mac_pj!r} pJ"},
    }
    if systolic := _loops(core, core.hierarchy.systolic, unrolling, "systolic_dimensions"):
        described["systolic"] = systolic
    return described


def _loops(
    core: ZigZagCore, positions: Sequence[int], unrolling: Sequence[dict[str, int]], field: str
) -> list[str]:
    """The loops unrolled on these dimensions and on no other."""
    named = {loop for position in positions for loop in unrolling[position]}
    other = {loop for position, loops in enumerate(unrolling) if position not in positions for loop in loops}
    if both := sorted(named & other):
        raise HeadwayError(
            f"core {core.name!r}, {field}: loop {both[0]} is unrolled on several dimensions, of which it has "
            "some, which has no counterpart"
        )
    return sorted(named)


def _memory(core: ZigZagCore, memory: Memory, unrolling: Sequence[dict[str, int]]) -> dict[str, Any]:
    shared = _loops(core, memory.axes, unrolling, f"memory {memory.name!r}: served_dimensions")
    entry: dict[str, Any] = {
        "name": plain_name(memory.name),
        "size": f"{memory.bits / 8!r} B",
        "operands": list(memory.operands),
        "shared_over": shared,
        "read_energy": f"{memory.read_pj!r} pJ",
        "write_energy": f"{memory.write_pj!r} pJ",
        "ports": [
            {"bits": port.bits, "serves": [_served(pair) for pair in port.serves]} for port in memory.ports
        ],
    }
    grain = min(port.grain_bits for port in memory.ports)
    if grain < min(port.bits for port in memory.ports):
        entry["grain_bits"] = grain
    return entry


def _served(pair: tuple[str, Move]) -> str:
    operand, move = pair
    return f"{operand} {move}"
