"""What one layer costs on one core, run by itself: traffic, SRAM, what stays in SRAM, fill."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headway.core.device import Core, Device
from headway.cost.nest import AT, DIMS, touched
from headway.cost.operands import streamed
from headway.cost.rooms import ACCUMULATOR_BYTES, Rooms, streamed_weights
from headway.cost.shapes import Bools, Floats, Shapes
from headway.models.graph import Graph


@dataclass(frozen=True, slots=True)
class Traffic:
    """DRAM bytes of each layer and the SRAM it works in, on one core. Arrays have one entry per layer."""

    dram: Floats
    sram: Floats


def layer_traffic(shapes: Shapes, core: Core, operand_bytes: float) -> Traffic:
    """DRAM bytes W*nW + I*nI + O, with the reload factors of the best of three loop orders.

    - Weights stay: all of them or, if they do not fit, block by block; the input streams past each block.
    - Inputs stay, whole or block by block; the weights stream past each block.
    - A block of outputs stays (4-byte partial sums) while both operands stream along K.

    The factors are those of blocked matrix multiplication (cost-model.md section 3, D_l; Hong and Kung 1981
    for the last). A core that double-buffers gives half of what is left to the next block. Outputs are
    written once. Groups are separate products: a group that fits is enough. Padding is never counted, nor
    what a stride leaves out. Layers without multiply-accumulates stream everything once. A layer for which
    nothing fits is tiled further (columns too): it takes all the SRAM and is never refused. More SRAM never
    means more traffic.

    Where weights have a memory of their own (`Rooms`), or go past the SRAM into registers, each operand has
    to fit where it lies, and what is in the way of one is not in the way of the other.
    """
    rooms = Rooms.of(shapes, core)
    capacity = rooms.maps
    blocks_in_sram = 2.0 if core.double_buffered else 1.0
    memory_products = np.where(shapes.recurrent, 1, shapes.products)
    held, main = shapes.held / memory_products, shapes.main * touched_share(shapes) / memory_products
    gemm = (shapes.macs > 0) & ~shapes.bounded

    window = (
        np.minimum(shapes.main_rows, shapes.kernel + shapes.stride) * shapes.main_row_bytes / memory_products
    )
    band = window + 2 * (shapes.output_row_bytes / memory_products + shapes.side_row_bytes)
    weight_tile = streamed_weights(shapes, core, rooms, held, operand_bytes)
    flight = np.minimum(band, capacity / 4)
    block = ((capacity - flight) if rooms.shared else rooms.weights) / blocks_in_sram

    weights_fit = held + band <= capacity if rooms.shared else (held <= rooms.weights) & (band <= capacity)
    passes_of_input = np.where(weights_fit, 1.0, np.maximum(2.0, np.ceil(held / block)))
    passes_of_input = np.where(shapes.recurrent, 1.0, passes_of_input)
    inputs_stay = main + weight_tile + 2 * (shapes.output_row_bytes / memory_products + shapes.side_row_bytes)
    tile_flight = np.minimum(inputs_stay - main, capacity / 4)
    input_block = (capacity - tile_flight) / blocks_in_sram
    passes_of_weights = np.where(inputs_stay <= capacity, 1.0, np.maximum(2.0, np.ceil(main / input_block)))
    steps = np.where(weights_fit, 1.0, shapes.products)
    passes_of_weights = np.where(shapes.recurrent, steps, passes_of_weights)

    by_weights = np.where(shapes.recurrent, np.inf, held + main * passes_of_input)
    by_inputs = held * passes_of_weights + main
    by_outputs = np.where(
        shapes.recurrent, np.inf, _output_blocks(shapes, held, main, rooms.sums / blocks_in_sram)
    )
    best = np.minimum(np.minimum(by_weights, by_inputs), by_outputs)
    tiled = best * memory_products + shapes.side + shapes.output
    dram = np.where(gemm, tiled, shapes.traffic_once)

    once = held + main
    in_sram = held + band if rooms.pooled else band
    need = np.minimum(
        np.where(by_weights <= once, in_sram, np.inf), np.where(by_inputs <= once, inputs_stay, np.inf)
    )
    need = np.where(gemm, need, shapes.held + band)
    return Traffic(dram, np.minimum(need, float(core.sram_bytes)))


def touched_share(shapes: Shapes) -> Floats:
    """The share of the streamed input that any window touches: less than 1 where strides skip some of it.

    A strided 1 x 1 convolution reads a quarter of its map.
    """
    return _touched_along(shapes, "OY", "FY") * _touched_along(shapes, "OX", "FX")


def _touched_along(shapes: Shapes, out: str, tap: str) -> Floats:
    """The share of the input's rows or columns."""
    axis = ("OY", "OX").index(out)
    outputs, taps = (shapes.nest[:, AT[name]].astype(np.float64) for name in (out, tap))
    stride, dilation = shapes.nest[:, DIMS + axis], shapes.nest[:, DIMS + 2 + axis]
    share: Floats = np.minimum(1.0, touched(outputs, taps, stride, dilation) / (outputs * stride))
    return share


def _output_blocks(shapes: Shapes, held: Floats, main: Floats, room: float) -> Floats:
    """Bytes read per product when Mt x Nt partial sums stay: inputs N/Nt times, weights M/Mt times."""
    sums = max(1.0, room / ACCUMULATOR_BYTES)
    balance = (main * shapes.N) / np.maximum(held * shapes.M, 1.0)
    columns = np.clip(np.floor(np.sqrt(sums * balance)), 1.0, shapes.N)
    rows = np.clip(np.floor(sums / columns), 1.0, shapes.M)
    read: Floats = main * np.ceil(shapes.N / columns) + held * np.ceil(shapes.M / rows)
    return read


@dataclass(frozen=True, slots=True)
class SerialCosts:
    """Layer-by-layer costs on every core type: arrays [layer, kind].

    `cycles_s` is compute alone. `kept` is what a layer's traffic shrinks by if its predecessor's output lies
    in the core's SRAM, `unwritten` what a layer saves if only its successor reads its output and finds it
    there. `sram` is the working set alone, `sram_kept` with the predecessor's output whole. `shared` are
    bytes that pass a level that cores share (`shared_bytes`): `cycles_s` is never below what they take, and
    their energy is in `array_pj`.
    """

    cycles_s: Floats
    dram: Floats
    sram: Floats
    sram_kept: Floats
    fill_bytes: Floats
    fill_weight_bytes: Floats
    kept: Floats
    unwritten: Floats
    array_pj: Floats
    shared: Floats


def shared_bytes(shapes: Shapes, core: Core, operand_bytes: float) -> Floats:
    """Bytes read and written at the level that cores share.

    On the core's side what would be DRAM traffic without it, on the other side the DRAM traffic. The core
    has an equal part of that level and of its port for itself, so that nothing depends on what other cores
    do. 0 without such a level, or if it is a memory of the core's hierarchy.
    """
    if core.shared is None:
        return np.zeros(len(shapes))
    own = replace(core, sram_bytes=core.sram_bytes - core.shared.bytes, shared=None)
    near, far = (layer_traffic(shapes, each, operand_bytes).dram for each in (own, core))
    return np.asarray(near + far)


def shared_s(shapes: Shapes, core: Core, operand_bytes: float) -> Floats:
    """Seconds that the port of the level that cores share takes for each layer; 0 without such a level."""
    if core.shared is None:
        return np.zeros(len(shapes))
    return shared_bytes(shapes, core, operand_bytes) / core.shared.bandwidth_bytes_s


def shared_pj(shapes: Shapes, core: Core, operand_bytes: float) -> Floats:
    """Energy of what passes that level; 0 without one."""
    if core.shared is None:
        return np.zeros(len(shapes))
    return shared_bytes(shapes, core, operand_bytes) * core.shared.energy_pj_per_byte


def serial_costs(graph: Graph, shapes: Shapes, device: Device) -> SerialCosts:
    """Costs of every layer on every core type of the device.

    What must be there before the array starts is the first window of input rows, and the weights that fill a
    systolic array once; or those of one output on an array that is described by its memories, where what a
    pass of it waits for is among the cycles.
    """
    columns: dict[str, list[Floats]] = {name: [] for name in SerialCosts.__slots__}
    previous = _previous_operand(graph)
    window_rows = np.minimum(shapes.main_rows, shapes.kernel)
    first_window = window_rows * shapes.main_row_bytes * _touched_along(shapes, "OX", "FX")
    for core in device.exemplars:
        traffic = layer_traffic(shapes, core, device.operand_bytes)
        kept, sram_kept = _kept(shapes, core, traffic, previous, device.operand_bytes)
        unwritten, kept = _retained(shapes, core, traffic, previous, kept, sram_kept)
        tile = _first_weights(shapes, core, device.operand_bytes)
        one = np.ones(len(shapes), dtype=np.int64)
        port_s = shared_s(shapes, core, device.operand_bytes)
        array_pj = shapes.array_pj(core, device.operand_bytes)
        columns["cycles_s"].append(np.maximum(shapes.band_cycles(core, one) / core.clock_hz, port_s))
        columns["dram"].append(traffic.dram)
        columns["sram"].append(traffic.sram)
        columns["sram_kept"].append(sram_kept)
        columns["fill_bytes"].append(tile + first_window)
        columns["fill_weight_bytes"].append(np.where(previous.is_main, tile, tile + first_window))
        columns["kept"].append(kept)
        columns["unwritten"].append(unwritten)
        columns["array_pj"].append(array_pj + shared_pj(shapes, core, device.operand_bytes))
        columns["shared"].append(shared_bytes(shapes, core, device.operand_bytes))
    return SerialCosts(**{name: np.stack(values, axis=1) for name, values in columns.items()})


def _first_weights(shapes: Shapes, core: Core, operand_bytes: float) -> Floats:
    """Bytes of weights that must be there before the array starts; more units never need more."""
    if core.hierarchy is None:
        return shapes.array_tile_bytes(core, operand_bytes)
    first: Floats = np.minimum(shapes.held, shapes.K * operand_bytes)
    return first


@dataclass(frozen=True, slots=True)
class _Previous:
    """How each layer uses the output of the layer before it; bytes are 0 if it does not."""

    bytes: Floats
    is_main: Bools  # all that streams through the layer, not just a part of it
    only_reader: Bools  # the predecessor's output is read by nobody else and does not leave the network


def _previous_operand(graph: Graph) -> _Previous:
    size = np.zeros(len(graph.layers))
    main = np.zeros(len(graph.layers), dtype=bool)
    only = np.zeros(len(graph.layers), dtype=bool)
    for layer in graph.layers[1:]:
        for position, operand in enumerate(layer.operands):
            if operand.producer == layer.index - 1:
                size[layer.index] = operand.bytes
                main[layer.index] |= streamed(layer) == (position,)
                only[layer.index] = graph.last_use[layer.index - 1] == layer.index
    return _Previous(size, main, only)


def _kept(
    shapes: Shapes, core: Core, traffic: Traffic, previous: _Previous, operand_bytes: float
) -> tuple[Floats, Floats]:
    """DRAM bytes saved if the previous output is in SRAM, and the SRAM need then. Infeasible: 0 saved."""
    rooms = Rooms.of(shapes, core)
    weight_tile = streamed_weights(shapes, core, rooms, shapes.held, operand_bytes)
    weights = np.where(shapes.recurrent | (shapes.macs == 0), shapes.held, weight_tile)
    need_main = previous.bytes + weights + 2 * (shapes.output_row_bytes + shapes.side_row_bytes)
    need = np.where(previous.is_main, need_main, previous.bytes + traffic.sram)
    fits = (previous.bytes > 0) & (need <= rooms.maps)
    everything_else = shapes.held + shapes.side + shapes.output
    saved = np.where(previous.is_main, traffic.dram - everything_else, previous.bytes)
    return np.where(fits, saved, 0.0), np.where(fits, need, traffic.sram)


def _retained(
    shapes: Shapes, core: Core, traffic: Traffic, previous: _Previous, kept: Floats, sram_kept: Floats
) -> tuple[Floats, Floats]:
    """Bytes not written per layer, and `kept` where the layer before can indeed hold its output in SRAM."""
    can_hold = shapes.output + np.maximum(traffic.sram, sram_kept) <= core.sram_bytes
    held_before = np.concatenate(([False], can_hold[:-1]))
    kept = np.where(held_before, kept, 0.0)
    read_next = np.concatenate(((kept > 0) & previous.only_reader, [False]))[1:]
    return np.where(read_next, shapes.output, 0.0), kept
