"""What `headway cost` found, as plain data: the JSON contract of docs/cost-command.md, and its CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headway.record.cost_page import first_of_kinds

if TYPE_CHECKING:
    from headway.core.block import Option
    from headway.core.device import Core, Device
    from headway.cost.breakdown import LayerTerms
    from headway.cost.stacks import PricedStack
    from headway.models.graph import Graph

TERMS = ("compute_cycles", "stall_cycles", "onload_cycles", "offload_cycles")
SUMMED = ("latency_cycles", *TERMS, "dram_bytes", "energy_pj", "schedule_cycles")


def document(
    graph: Graph,
    device: Device,
    terms: Sequence[Sequence[LayerTerms]],
    stacks: Iterable[tuple[PricedStack, Sequence[str]]],
    overlap: str,
) -> dict[str, Any]:
    """Everything, by layer and core. `stacks` come with the names of their cores."""
    layers: list[dict[str, Any]] = [
        {
            "index": layer.index,
            "name": layer.name,
            "op": layer.op,
            "kind": layer.kind.value,
            "folded": list(layer.folded),
            "macs": layer.macs,
            "vector_ops": layer.vector_ops,
            "cores": {
                core.name: _terms(row[kind], core)
                for core, kind in zip(device.cores, device.kind_of, strict=True)
            },
        }
        for layer, row in zip(graph.layers, terms, strict=True)
    ]
    return {
        "model": graph.name,
        "source": graph.source,
        "content_hash": graph.content_hash,
        "hardware": device.name,
        "operand_bits": round(device.operand_bytes * 8),
        "overlap": overlap,
        "dram_bandwidth_bytes_s": device.dram_bandwidth_bytes_s,
        "cores": {core.name: _core(core, device) for core in device.cores},
        "layers": layers,
        "totals": {
            "macs": graph.macs,
            "cores": {
                core.name: _total([layer["cores"][core.name] for layer in layers]) for core in device.cores
            },
        },
        "stacks": [_stack(graph, device, stack, cores) for stack, cores in stacks],
        "warnings": list(graph.warnings),
    }


def _core(core: Core, device: Device) -> dict[str, Any]:
    from headway.cost.breakdown import memory_names

    return {
        "kind": core.kind,
        "clock_hz": core.clock_hz,
        "macs_per_cycle": core.rows * core.columns,
        "dram_bytes_per_cycle": device.dram_bandwidth_bytes_s / core.clock_hz,
        "sram_bytes": core.sram_bytes,
        "memories": list(memory_names(core)),
    }


def _terms(terms: LayerTerms, core: Core) -> dict[str, Any]:
    return {
        **{name: getattr(terms, name) for name in SUMMED},
        "memory_bytes": dict(terms.memory_bytes),
        "energy_pj_by": dict(terms.energy_pj_by),
        "mapping": _mapping(terms, core),
    }


def _mapping(terms: LayerTerms, core: Core) -> dict[str, Any] | None:
    """Loops side by side, and for each operand those in time that lie in each of its memories."""
    if terms.mapping is None or core.hierarchy is None:
        return None
    names = [memory.name for memory in core.hierarchy.memories]
    return {
        "unrolled": terms.mapping.unrolled,
        "loops": {
            operand: {
                "dram" if at >= len(names) else names[at]: [list(loop) for loop in level]
                for at, level in zip(_levels(core, operand, len(loops)), loops, strict=True)
            }
            for operand, loops in terms.mapping.loops.items()
        },
    }


def _levels(core: Core, operand: str, count: int) -> tuple[int, ...]:
    """Positions of the memories of an operand; what lies above the core's is one more."""
    assert core.hierarchy is not None
    own = core.hierarchy.levels[operand]
    return (*own, len(core.hierarchy.memories))[:count]


def _total(entries: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {name: sum(entry[name] for entry in entries) for name in SUMMED}
    for part in ("memory_bytes", "energy_pj_by"):
        total[part] = {name: sum(entry[part][name] for entry in entries) for name in entries[0][part]}
    return total


def _stack(graph: Graph, device: Device, stack: PricedStack, cores: Sequence[str]) -> dict[str, Any]:
    option, serial = stack.option, stack.serial
    clock_hz = next(core.clock_hz for core in device.cores if core.name == cores[0])
    alone = next(core for core in device.cores if core.kind == device.kinds[serial.kinds[0]])
    return {
        "layers": [layer.name for layer in graph.layers[option.first : option.end]],
        "first": option.first,
        "last": option.end - 1,
        "mode": option.mode.value,
        "cores": list(cores),
        "stage_starts": [option.first, *option.cuts] if option.mode.value == "pipeline" else [option.first],
        "band_rows": option.band_rows,
        "axis": option.axis,
        "bands": _bands(graph, option),
        "clock_hz": clock_hz,
        "latency_cycles": stack.seconds * clock_hz,
        "dram_bytes": option.dram_bytes,
        "link_bytes": option.link_bytes,
        "sram_bytes": option.sram_bytes,
        "energy_pj": option.energy_pj,
        "serial": {
            "core": alone.name,
            "latency_cycles": stack.serial_seconds * clock_hz,
            "dram_bytes": serial.dram_bytes,
            "energy_pj": serial.energy_pj,
        },
    }


def _bands(graph: Graph, option: Option) -> int | None:
    if option.band_rows is None:
        return None
    last = graph.layers[option.end - 1]
    across = last.output_rows if option.axis == "rows" else last.dims.OX
    return option.steps if option.band_rows < across else 1


def cores_of(device: Device, kinds: Sequence[int]) -> tuple[str, ...]:
    """Names of different cores of these types, the first free one of each."""
    free = {kind: [core.name for core in device.cores if core.kind == device.kinds[kind]] for kind in kinds}
    return tuple(free[kind].pop(0) for kind in kinds)


def csv_text(described: dict[str, Any]) -> str:
    """A line per layer and type of core; cells of memories that a core lacks are empty."""
    firsts = first_of_kinds(described)
    memories = list(
        dict.fromkeys(memory for name in firsts for memory in described["cores"][name]["memories"])
    )
    parts = ["mac", *memories]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("index", "layer", "op", "core", "kind", "macs", "vector_ops", *SUMMED),
            *(f"{memory}_bytes" for memory in memories if memory != "dram"),
            *(f"{part}_pj" for part in parts),
        ]
    )
    for layer in described["layers"]:
        for name in firsts:
            entry = layer["cores"][name]
            writer.writerow(
                [
                    *(layer["index"], layer["name"], layer["op"], name, described["cores"][name]["kind"]),
                    *(layer["macs"], layer["vector_ops"], *(entry[term] for term in SUMMED)),
                    *(entry["memory_bytes"].get(memory, "") for memory in memories if memory != "dram"),
                    *(entry["energy_pj_by"].get(part, "") for part in parts),
                ]
            )
    return out.getvalue()
