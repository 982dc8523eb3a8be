"""A core as ZigZag and Stream describe it: an array whose dimensions unroll loops, and memories around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headway.config.importers.zigzag_memory import Fields, read_memory, shadowed
from headway.config.validation import shown
from headway.config.yaml_file import Document, refuse_repeated
from headway.core.hierarchy import LOOP_DIMS, OPERANDS, Hierarchy, Memory

_FIELDS: Final = (
    "name", "type", "memories", "operational_array", "multipliers", "dataflows", "operand_precision",
    "operator_types",
)  # fmt: skip
_ARRAY: Final = (
    "dimensions", "sizes", "unit_energy", "unit_area", "input_precision", "systolic_dimensions"
)  # fmt: skip
_MULTIPLIERS: Final = {"multiplier_energy": "unit_energy", "multiplier_area": "unit_area"}
_MEMORY_COMPUTING: Final = ("is_imc", "imc_type", "adc_resolution", "bit_serial_precision", "bit_serial")
_DRAM: Final = re.compile(r"dram|off_?chip|hbm|ddr", re.IGNORECASE)
_WIDTHS: Final = {"int4": 4, "int8": 8, "int16": 16, "int32": 32, "bf16": 16, "fp16": 16, "fp32": 32}


@dataclass(frozen=True, slots=True)
class ZigZagCore:
    """A core as described; `dram` is its topmost memory where that is off the chip.

    `hierarchy` has the memories on the chip. `macs` is the size of the array, which a dataflow that unrolls
    less leaves partly idle. `notes` say what was assumed or not read.
    """

    name: str
    hierarchy: Hierarchy
    dram: Memory | None
    macs: int
    mac_pj: float
    operand_bits: int
    partial_bits: int
    notes: tuple[str, ...]


def is_zigzag_core(data: object) -> bool:
    """Whether plain data looks like a core: memories around an operational array."""
    return (
        isinstance(data, dict)
        and "memories" in data
        and ("operational_array" in data or "multipliers" in data)
    )


def read_memories(document: Document) -> tuple[str, list[Memory], list[str]]:
    """A core's name, its memories, and the array's dimensions, for a core that may not compute at all.

    The last of two equal fields of a memory counts, as for ZigZag, whose own tpu_like.yaml has such; no other
    name may be there twice.
    """
    refuse_repeated(document, lambda place: len(place) == 3 and place[0] == "memories")
    fields = Fields(document, (), document.data)
    fields.only(*_FIELDS)
    kind = str(fields.data.get("type", "zigzag.compute"))
    if "." in kind and not kind.startswith("zigzag."):
        raise fields.error("type", f"found {kind!r}, which has no counterpart; accepted: zigzag.*")
    dimensions = _array(fields).texts("dimensions")
    entries = Fields(document, ("memories",), fields.required("memories"))
    memories = [
        read_memory(document, ("memories", name), data, dimensions) for name, data in entries.data.items()
    ]
    if not memories:
        raise fields.error("memories", "found none; accepted: at least one memory")
    return str(fields.data.get("name", "core")), memories, dimensions


def read_core(document: Document, flows: Fields | None = None) -> ZigZagCore:
    """A core that computes; `flows` has the loops that its array unrolls, where its own file does not say so.

    Raises HeadwayError naming file, line and field for what has no counterpart.
    """
    name, memories, dimensions = read_memories(document)
    fields = Fields(document, (), document.data)
    array = _array(fields)
    for field in _MEMORY_COMPUTING:
        if array.data.get(field):
            raise array.error(field, "computing in memory has no counterpart")
    array.only(*_ARRAY, *_MULTIPLIERS, *_MEMORY_COMPUTING)
    sizes = array.required("sizes")
    if not isinstance(sizes, list) or len(sizes) != len(dimensions):
        raise array.error("sizes", f"found {shown(sizes)}; accepted: as many sizes as dimensions")
    macs = 1
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 65536:
            raise array.error("sizes", f"found {shown(size)}; accepted: whole numbers from 1 to 65536")
        macs *= size
    unrolling = _flows(fields, flows)
    axes = _axes(unrolling, dimensions, sizes)
    energy = next((key for key in ("unit_energy", "multiplier_energy") if key in array.data), "unit_energy")
    dram = memories[-1] if _is_dram(memories[-1]) else None
    on_chip = memories[:-1] if dram is not None else memories
    for operand in OPERANDS:
        if not any(operand in memory.operands for memory in on_chip):
            raise fields.error("memories", f"none on the chip serves {operand}")
    operand_bits, partial_bits = _widths(fields, array)
    described = fields.data["memories"]
    used = 1
    for axis in axes:
        for _, factor in axis:
            used *= factor
    notes = ["area and latency of memories are not read", *_repeated(document)]
    if any(each.get("force_double_buffering") for each in described.values()):
        notes.append("force_double_buffering is not read: every memory keeps room for the next data")
    for memory, each in described.items():
        if twice := shadowed(each):
            notes.append(f"{memory}: {'; '.join(twice)} on two ports, of which the last counts")
    unrolled = {name for name, loops in unrolling.data.items() if loops}
    if left := [
        name for name, size in zip(dimensions, sizes, strict=True) if size > 1 and name not in unrolled
    ]:
        notes.append(
            f"{', '.join(left)}: no loop is given, where ZigZag would choose one; here it unrolls none"
        )
    if used < macs:
        notes.append(f"the dataflow unrolls {used} of {macs} units")
    return ZigZagCore(
        name=name,
        hierarchy=Hierarchy(axes, tuple(on_chip), partial_bits, _systolic(array, dimensions)),
        dram=dram,
        macs=macs,
        mac_pj=array.number(energy),
        operand_bits=operand_bits,
        partial_bits=partial_bits,
        notes=tuple(notes),
    )


def _array(fields: Fields) -> Fields:
    key = "operational_array" if "operational_array" in fields.data else "multipliers"
    return Fields(fields.document, (key,), fields.required(key))


def _repeated(document: Document) -> list[str]:
    """A note for each key that a file has twice."""
    name = Path(document.name).name
    return [f"{name}:{said}, and the last counts" for said in document.repeated.values()]


def _systolic(array: Fields, dimensions: list[str]) -> tuple[int, ...]:
    """The dimensions through which results leave a unit per cycle."""
    if array.data.get("systolic_dimensions") is None:
        return ()
    named = array.texts("systolic_dimensions")
    for name in named:
        if name not in dimensions:
            raise array.error("systolic_dimensions", f"found {name!r}; accepted: {', '.join(dimensions)}")
    return tuple(position for position, name in enumerate(dimensions) if name in named)


def _is_dram(memory: Memory) -> bool:
    """Whether a memory is off the chip: by its name, or as it holds a gigabit and more for all operands."""
    return bool(_DRAM.search(memory.name)) or (set(memory.operands) == set(OPERANDS) and memory.bits >= 2**30)


def _flows(fields: Fields, given: Fields | None) -> Fields:
    """What each array dimension unrolls: as the core's file has it, or a mapping file."""
    if fields.data.get("dataflows") is None:
        if given is not None:
            return given
        raise fields.error(
            "dataflows",
            "missing: the file does not say which loops its array unrolls; accepted: what ZigZag's mapping "
            "file has as spatial_mapping, such as {D1: ['K, 32'], D2: ['C, 32']}, or that file itself as "
            "ACCELERATOR.yaml#MAPPING.yaml",
        )
    if given is not None:
        raise fields.error("dataflows", f"found beside {given.document.name}; accepted: one of them")
    return Fields(fields.document, ("dataflows",), fields.data["dataflows"])


def _axes(flows: Fields, dimensions: list[str], sizes: list[int]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """For each array dimension the loops it unrolls."""
    flows.only(*dimensions)
    axes = []
    for name, size in zip(dimensions, sizes, strict=True):
        entries: Any = flows.data.get(name, [])
        if not isinstance(entries, list):
            raise flows.error(name, f"found {shown(entries)}; accepted: a list such as ['K, 32']")
        axis, product = [], 1
        for entry in entries:
            match = re.fullmatch(r"\s*([A-Z]+)\s*,\s*([0-9]{1,5})\s*", str(entry))
            if match is None or match[1] not in LOOP_DIMS or int(match[2]) < 1:
                raise flows.error(
                    name,
                    f"found {shown(entry)}; accepted: a loop and a factor such as 'K, 32', the loop "
                    f"one of {', '.join(LOOP_DIMS)}",
                )
            axis.append((match[1], int(match[2])))
            product *= int(match[2])
        if product > size:
            raise flows.error(name, f"unrolls {product} times; accepted: at most {size}, the size of {name}")
        axes.append(tuple(axis))
    return tuple(axes)


def _widths(fields: Fields, array: Fields) -> tuple[int, int]:
    """Bits of operands and of partial sums."""
    partial, operand = 16, 8  # what ZigZag's own workloads have
    if (given := array.data.get("input_precision")) is not None:
        if not isinstance(given, list) or len(set(map(str, given))) != 1 or given[0] not in (4, 8, 16, 32):
            raise array.error(
                "input_precision", f"found {shown(given)}; accepted: twice the same of 4, 8, 16, 32"
            )
        operand = given[0]
    if fields.data.get("operand_precision") is not None:
        widths = Fields(fields.document, ("operand_precision",), fields.data["operand_precision"])
        widths.only("input", "accumulator", "output", "weight")
        named = {}
        for key, value in widths.data.items():
            if value not in _WIDTHS:
                raise widths.error(key, f"found {shown(value)}; accepted: {', '.join(_WIDTHS)}")
            named[key] = _WIDTHS[value]
        operand, partial = named.get("input", operand), named.get("accumulator", partial)
        if named.get("weight", operand) != operand:
            raise widths.error("weight", "weights and inputs of different width have no counterpart")
    return operand, partial
