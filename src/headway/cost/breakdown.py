"""What each layer costs by itself on each core, every number split into the terms it consists of.

A table (`build_table`) has one latency per layer and core, made for scheduling. Here are the parts, for
whoever designs the core: which cycles compute, wait, load and store, what passes each memory, what takes
the energy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from headway.core.device import Core, Device
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Hierarchy, main_memory
from headway.cost.fastest import Goal
from headway.cost.mapped import MappedLayer
from headway.cost.mapping import Overlap
from headway.cost.model import Model
from headway.cost.nest import AT, DIMS, Nest
from headway.cost.oncore import unbounded
from headway.cost.search import map_layer
from headway.cost.serial import serial_runs
from headway.cost.shapes import Floats
from headway.models.graph import Graph

DRAM = "dram"
SRAM = "sram"
L2 = "l2"
MAC = "mac"


@dataclass(frozen=True, slots=True)
class LayerTerms:
    """One layer on one core with nothing before or after it: cycles of that core's clock, bytes, pJ.

    `compute_cycles` has the array or the vector unit at work, `onload_cycles` come before its first and
    `offload_cycles` after its last operation, `stall_cycles` are those in between in which it waits.
    `memory_bytes` are read and written by memory, from the array upwards, ending with DRAM; `energy_pj_by`
    has the same names and the arithmetic. `schedule_cycles` is what a cost table counts for the layer.
    `mapping` is what the terms follow from, None where they have the closed form.
    """

    compute_cycles: float
    stall_cycles: float
    onload_cycles: float
    offload_cycles: float
    memory_bytes: Mapping[str, float]
    energy_pj_by: Mapping[str, float]
    schedule_cycles: float
    mapping: MappedLayer | None = None

    @property
    def latency_cycles(self) -> float:
        """The sum of the four terms."""
        return self.compute_cycles + self.stall_cycles + self.onload_cycles + self.offload_cycles

    @property
    def dram_bytes(self) -> float:
        """Bytes that cross the memory interface."""
        return self.memory_bytes[DRAM]

    @property
    def energy_pj(self) -> float:
        """The sum of all parts."""
        return sum(self.energy_pj_by.values())


def layer_terms(
    graph: Graph, device: Device, overlap: Overlap = "physical"
) -> tuple[tuple[LayerTerms, ...], ...]:
    """[layer][kind]: the terms of every layer on one core of every type.

    On a core that is described by its memories, a layer with a loop nest has the best mapping found on those
    memories with DRAM above them; `overlap` says how its loads are counted (see `mapping.evaluate`). All
    other layers, and all layers on systolic arrays, have the closed form of tables: cycles on the core, the
    first tile before them, and whatever the transfers take longer. The graph is as `build_table` takes it.

    Raises HeadwayError for a device with lanes, and for a core that a layer does not fit on.
    """
    if device.has_lanes:
        raise HeadwayError(
            f"{device.name} has lanes: what {graph.name} costs there is measured, not computed from layers"
        )
    if not graph.layers:
        raise HeadwayError(f"{graph.name} has no layers, so nothing costs anything")
    model = Model.of(graph, device)
    cold_s = serial_runs(model).cold_s
    columns = [_Column(model, kind, cold_s[:, kind], overlap).terms() for kind in range(len(model.cores))]
    return tuple(zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class _OnCore:
    """Cycles on the core, and bytes and pJ of its memories by name; DRAM is among them if it was mapped."""

    compute: float
    stall: float
    onload: float
    offload: float
    bytes: dict[str, float]
    pj: dict[str, float]
    mapping: MappedLayer | None = None

    @property
    def cycles(self) -> float:
        return self.compute + self.stall + self.onload + self.offload


class _Column:
    """All layers of a model on one core type."""

    def __init__(self, model: Model, kind: int, cold_s: Floats, overlap: Overlap) -> None:
        self.model, self.kind, self.cold_s, self.overlap = model, kind, cold_s, overlap
        self.core: Core = model.cores[kind]
        self.bytes_per_cycle = model.device.dram_bandwidth_bytes_s / self.core.clock_hz
        shapes, operand_bytes = model.shapes, model.device.operand_bytes
        self.nested = (shapes.macs > 0) & ~shapes.bounded
        self.cycles = shapes.band_cycles(self.core, np.ones(len(shapes), dtype=np.int64))
        hierarchy = self.core.hierarchy
        if taken := {DRAM, MAC} & set(memory_names(self.core)[:-1]):
            raise HeadwayError(
                f"core {self.core.name}: found a memory named {taken.pop()!r}, which is something else "
                "here; accepted: another name"
            )
        if hierarchy is None:
            self.top = SRAM
            self.array_bytes = shapes.array_pj(replace(self.core, sram_energy_pj_per_byte=1.0), operand_bytes)
        else:
            self.top = hierarchy.memories[hierarchy.levels["I"][-1]].name
            self.array_bytes = np.where(self.nested, shapes.side, shapes.traffic_once)

    def terms(self) -> tuple[LayerTerms, ...]:
        return tuple(self._terms(layer) for layer in range(len(self.model)))

    def _terms(self, layer: int) -> LayerTerms:
        shapes, core = self.model.shapes, self.core
        if core.hierarchy is None or not self.nested[layer]:
            return self._around(layer, self._behind_shared(layer, float(self.cycles[layer])))
        if shapes.recurrent[layer] or not core.double_buffered:
            return self._around(layer, self._mapped(layer, unbounded(core.hierarchy)))
        device = self.model.device
        main = main_memory(
            self.bytes_per_cycle * 8,
            device.dram_read_pj_per_byte / 8,
            device.dram_write_pj_per_byte / 8,
            len(core.hierarchy.axes),
        )
        side = float(shapes.side[layer]) + self._weights_beyond_nest(layer)
        more = self._outputs_beyond_nest(layer)
        inside = self._mapped(layer, core.hierarchy.under(main), side + more)
        mapped_cycles = inside.bytes[DRAM] / self.bytes_per_cycle
        # What passes beside the nest's data takes cycles of the DRAM port that may not be there.
        dram = inside.bytes[DRAM] + side + more
        late = dram / self.bytes_per_cycle - max(inside.cycles, mapped_cycles)
        dram_pj = inside.pj[DRAM] + side * device.dram_read_pj_per_byte + more * device.dram_write_pj_per_byte
        stalled = replace(inside, stall=inside.stall + max(0.0, late))
        return self._counted(layer, stalled, dram, dram_pj, side + more)

    def _weights_beyond_nest(self, layer: int) -> float:
        """Bytes of biases, and of what folded followers hold."""
        nest = self.model.shapes.nest[layer]
        own = prod(int(nest[AT[name]]) for name in ("G", "K", "C", "FY", "FX")) * int(nest[-1]) / 8
        return max(0.0, float(self.model.shapes.held[layer]) - own)

    def _outputs_beyond_nest(self, layer: int) -> float:
        """Bytes of output that the nest lacks: that of a transposed convolution runs over input pixels."""
        nest = self.model.shapes.nest[layer]
        own = prod(int(nest[AT[name]]) for name in ("B", "G", "K", "OY", "OX")) * int(nest[-1]) / 8
        return max(0.0, float(self.model.shapes.output[layer]) - own * float(self.model.shapes.scale[layer]))

    def _behind_shared(self, layer: int, cycles: float) -> _OnCore:
        """Cycles of the array, what it waits for the level that cores share, and what passes that."""
        shared = self.core.shared
        if shared is None:
            return _OnCore(cycles, 0.0, 0.0, 0.0, {}, {})
        size = float(self.model.serial.shared[layer, self.kind])
        late = size / shared.bandwidth_bytes_s * self.core.clock_hz - cycles
        return _OnCore(cycles, max(0.0, late), 0.0, 0.0, {L2: size}, {L2: size * shared.energy_pj_per_byte})

    def _around(self, layer: int, inside: _OnCore) -> LayerTerms:
        """The closed form of tables: the transfers beside, or around, what happens on the core."""
        costs, dram = self.model.serial, float(self.model.serial.dram[layer, self.kind])
        stored, device = float(self.model.shapes.output[layer]), self.model.device
        dram_pj = (dram - stored) * device.dram_read_pj_per_byte + stored * device.dram_write_pj_per_byte
        if self.core.double_buffered:
            fill = float(costs.fill_bytes[layer, self.kind]) / self.bytes_per_cycle
            late = dram / self.bytes_per_cycle - fill - inside.cycles
            timed = replace(inside, onload=inside.onload + fill, stall=inside.stall + max(0.0, late))
        else:
            timed = replace(
                inside,
                onload=inside.onload + (dram - stored) / self.bytes_per_cycle,
                offload=inside.offload + stored / self.bytes_per_cycle,
            )
        return self._counted(layer, timed, dram, dram_pj, dram)

    def _counted(
        self, layer: int, inside: _OnCore, dram: float, dram_pj: float, through_top: float
    ) -> LayerTerms:
        """With DRAM, what of it passes the topmost memory uncounted, and the arithmetic."""
        model, core = self.model, self.core
        shapes, crossing = model.shapes, float(self.array_bytes[layer]) + through_top
        sizes, pj = dict(inside.bytes), dict(inside.pj)
        sizes[self.top] = sizes.get(self.top, 0.0) + crossing
        pj[self.top] = pj.get(self.top, 0.0) + crossing * core.sram_energy_pj_per_byte
        sizes[DRAM] = dram
        pj[DRAM] = dram_pj
        work = float(shapes.macs[layer] + shapes.vector_ops[layer])
        return LayerTerms(
            inside.compute,
            inside.stall,
            inside.onload,
            inside.offload,
            {name: sizes.get(name, 0.0) for name in memory_names(core)},
            {MAC: work * core.mac_energy_pj} | {name: pj.get(name, 0.0) for name in memory_names(core)},
            float(self.cold_s[layer]) * core.clock_hz,
            inside.mapping,
        )

    def _mapped(self, layer: int, hierarchy: Hierarchy, beside_bytes: float = 0.0) -> _OnCore:
        """A layer with a loop nest under the mapping with which it is fastest on these memories.

        `beside_bytes` pass the topmost memory beside the nest's own data.
        """
        shapes = self.model.shapes
        stride_y, stride_x, dilation_y, dilation_x, rows, columns, bits = shapes.nest[layer, DIMS:].tolist()
        nest = Nest(
            tuple(shapes.nest[layer, :DIMS].tolist()),
            stride_y,
            stride_x,
            dilation_y,
            dilation_x,
            input_rows=rows,
            input_columns=columns,
            bits=(bits, bits, bits),
        )
        times = float(shapes.scale[layer]) * int(shapes.repeats[layer])
        vector = float(np.ceil(shapes.vector_ops[layer] / self.core.vector_lanes))
        goal = Goal(vector / times, beside_bytes * 8 / times)
        try:
            mapped = map_layer(nest, hierarchy, overlap=self.overlap, goal=goal)
        except HeadwayError as error:
            name = self.model.graph.layers[layer].name
            raise HeadwayError(f"{name} on core {self.core.name}: {error}") from None
        passed = _bytes_by_memory(mapped, hierarchy)
        spent: dict[str, float] = {}
        for (memory, _), energy in mapped.energy_pj.items():
            spent[memory] = spent.get(memory, 0.0) + energy * times
        # Elementary operations run on the way out of the array, also while that waits.
        array, waits = mapped.compute_cycles * times, mapped.stall_cycles * times
        return _OnCore(
            max(vector, array),
            max(0.0, array + waits - max(vector, array)),
            mapped.onload_cycles * times,
            mapped.offload_cycles * times,
            {memory: size * times for memory, size in passed.items()},
            spent,
            mapped,
        )


def memory_names(core: Core) -> tuple[str, ...]:
    """The memories of a core from the array upwards, then DRAM."""
    if core.hierarchy is None:
        return (SRAM, L2, DRAM) if core.shared else (SRAM, DRAM)
    return (*(memory.name for memory in core.hierarchy.memories), DRAM)


def _bytes_by_memory(mapped: MappedLayer, hierarchy: Hierarchy) -> dict[str, float]:
    memories = {memory.name: memory for memory in hierarchy.memories}
    passed: dict[str, float] = {}
    for (name, operand, move), words in mapped.words.items():
        passed[name] = passed.get(name, 0.0) + words * memories[name].port_of(operand, move).bits / 8
    return passed
