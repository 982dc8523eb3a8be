"""Chains of layers described by their dimensions, layer by layer and fused, in closed form.

What `schedule.fused_chain` runs tile by tile; units are cycles of one common clock, and bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from headway.cost.dataflow import ceil_div

Convention = Literal["own", "stream"]
OUTSIDE = -1  # as an input: the network input, from DRAM


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """A layer of a chain of tiles: a convolution, or a matrix product with height M, width 1 and kernel 1.

    `height` and `width` are those of the input without padding. `inputs` are the layers it reads
    (`OUTSIDE` for the network input); None means the layer before, or the network input for the first. The
    first of several inputs is read through the window, the others row by row (a residual); those at the
    positions `whole` are needed whole for any row, as keys and values are. Elements of maps and weights have
    `bits` bits. `weights=False` is an addition, pooling, or a product of two activations.
    """

    channels_in: int
    channels_out: int
    height: int
    width: int = 1
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    groups: int = 1
    bits: int = 8
    inputs: tuple[int, ...] | None = None
    weights: bool = True
    whole: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Output rows."""
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def columns(self) -> int:
        """Output columns. A width of 1 is a matrix product's: it has one column whatever the kernel."""
        if self.width == 1:
            return 1
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def input_bits(self) -> int:
        """Bits of the whole input, without padding."""
        return self.channels_in * self.height * self.width * self.bits

    @property
    def output_bits(self) -> int:
        """Bits of the whole output."""
        return self.rows * self.output_row_bits

    @property
    def output_row_bits(self) -> int:
        return self.channels_out * self.columns * self.bits

    @property
    def weight_bits(self) -> int:
        """Bits of all weights."""
        if not self.weights:
            return 0
        return self.channels_out * self.channels_in // self.groups * self.kernel * self.kernel * self.bits

    def padded_input_bits(self, rows: int) -> int:
        """Bits of the input window of that many output rows, the zeros of the padding included.

        As ZigZag counts them: where the stride exceeds the kernel, only rows and columns that are touched.
        """
        wide = 1 if self.width == 1 else self._touched(self.columns)
        return self.channels_in * self._touched(rows) * wide * self.bits

    def _touched(self, count: int) -> int:
        return count * self.kernel if self.kernel < self.stride else (count - 1) * self.stride + self.kernel


@dataclass(frozen=True, slots=True)
class Tile:
    """When a tile was computed: layer, position from the top, core, and cycles."""

    layer: int
    tile: int
    core: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ChainRun:
    """What a run of a chain took.

    Bits are per tensor: T0 is the network input, T1 the first layer's output, W0 its weights.
    `peak_feature_bits` are the most bits of maps that exist at once (`fused_chain` only), the network input
    aside.
    """

    latency_cycles: int
    read_bits: dict[str, int]
    write_bits: dict[str, int]
    link_bits: int
    tiles: tuple[Tile, ...] = ()
    peak_feature_bits: int = 0

    @property
    def dram_bits(self) -> int:
        """All bits that cross the memory interface."""
        return sum(self.read_bits.values()) + sum(self.write_bits.values())


def serial_chain(layers: Sequence[ChainLayer], layer_cycles: int | Sequence[int]) -> ChainRun:
    """Layer by layer: every layer reads its inputs and weights from DRAM once and writes its output.

    The latency is the sum of the given cycles, transfers included in them, as Stream has it.
    """
    cycles = per_layer(layer_cycles, len(layers), "layer_cycles")
    read: dict[str, int] = {}
    write: dict[str, int] = {}
    for index, layer in enumerate(layers):
        for source in sources_of(layers, index):
            size = layer.input_bits if source == OUTSIDE else layers[source].output_bits
            add_bits(read, f"T{source + 1}", size)
        if layer.weight_bits:
            add_bits(read, f"W{index}", layer.weight_bits)
        add_bits(write, f"T{index + 1}", layer.output_bits)
    return ChainRun(sum(cycles), read, write, 0)


def closed_form_cycles(
    layers: Sequence[ChainLayer],
    tile_cycles: int | Sequence[int],
    tiles: int,
    cores: Sequence[int],
    dram_bits_per_cycle: int,
    link_bits_per_cycle: int,
    convention: Convention = "own",
) -> int:
    """Latency of a fused chain by the closed form: no events (arguments as for `fused_chain`).

    load + n * tau + sum((1 + lag) * tau + link) for equal stages (cost-model.md sections 2b and 3), the
    longest way through the grid of stages and tiles for unequal ones, then the last tile's write, and never
    less than the traffic takes. Equal to `fused_chain` on a chain with a core per layer, or one core for
    all, while DRAM is not the limit. Where later stages' weights hold up the network input, that is
    added for each stage by itself, which stays within 5 % while the bus is at most half busy; a nearly full
    bus has gaps in which nothing fits, which no closed form sees.
    """
    cycles = per_layer(tile_cycles, len(layers), "tile_cycles")
    stream = convention == "stream"
    stages = _stages(cores)
    resources: list[int] = []  # stage, link, stage, ...
    lags: list[int] = []  # of a stage's layers; of the first stage without its first layer
    weights: list[int] = []
    for stage in stages:
        if stage[0]:
            before = layers[stage[0] - 1]
            resources.append(
                ceil_div(before.output_row_bits * ceil_div(before.rows, tiles), link_bits_per_cycle)
            )
        resources.append(sum(cycles[index] for index in stage))
        lags.append(sum(_lag(layers[index], tiles) for index in stage if index))
        weights.append(sum(layers[index].weight_bits for index in stage))
    first, last = layers[0], layers[-1]
    bus = dram_bits_per_cycle
    load = ceil_div(first.weight_bits, bus) + ceil_div(_first_tiles_bits(first, tiles, 1, stream), bus)
    longest = load + longest_way(resources, lags[1:], tiles)
    for number in range(1, len(stages)):
        # Weights are asked for when a stage's first tile can be scheduled, and hold up the input tiles after.
        ahead = min(tiles, sum(lags[: number + 1]) + 1)
        loaded = sum(weights[: number + 1])
        there = ceil_div(loaded + _first_tiles_bits(first, tiles, ahead, stream), bus)
        longest = max(longest, there + longest_way(resources[2 * number :], lags[number + 1 :], tiles))
        if ahead < tiles:
            resumed = ceil_div(loaded + _first_tiles_bits(first, tiles, ahead + 1, stream), bus)
            longest = max(longest, resumed + longest_way(resources, lags[1:], tiles - ahead))
    height = ceil_div(last.rows, tiles)
    left = last.rows - (ceil_div(last.rows, height) - 1) * height
    store = 0 if stream else ceil_div(left * last.output_row_bits, bus)
    traffic = (
        sum(weights) + _first_tiles_bits(first, tiles, tiles, stream) + (0 if stream else last.output_bits)
    )
    return int(max(longest + store, ceil_div(traffic, bus)))


def longest_way(resources: Sequence[Any], lags: Sequence[Any], tiles: Any) -> Any:
    """Time until all tiles have passed stage, link, stage, link, ..., stage in order. Numbers or arrays.

    `lags[j]` is how many more tiles stage j + 1 needs before its first. Every resource is passed once, the
    slowest for the other tiles - 1 too. A lag is waited for at the slowest pace before the stage; after the
    slowest resource has seen all tiles, it is made up at the slowest pace from the stage on. With equal
    stages this is n * tau + sum((1 + lag) * tau + link).
    """
    once = sum(resources[1:], resources[0])
    paces_before = list(accumulate(resources, np.maximum))
    paces_after = list(accumulate(reversed(resources), np.maximum))[::-1]
    longest = once
    for slowest, pace in enumerate(resources):
        total = once + (tiles - 1) * pace
        for entry, lag in enumerate(lags):
            stage = 2 * (entry + 1)
            lag_pace = paces_before[stage - 1] if stage <= slowest else paces_after[stage]
            total = total + np.minimum(lag, tiles - 1) * lag_pace
        longest = np.maximum(longest, total)
    return longest


def _first_tiles_bits(layer: ChainLayer, tiles: int, number: int, stream: bool) -> int:
    """Bits of the network input that the first `number` of `tiles` tiles take."""
    height = ceil_div(layer.rows, tiles)
    if stream:
        return number * tile_read_bits(layer, 0, height, stream)
    return tile_read_bits(layer, 0, min(layer.rows, number * height), stream)


def _stages(cores: Sequence[int]) -> list[list[int]]:
    """Layers that follow each other on one core."""
    stages: list[list[int]] = []
    for index, core in enumerate(cores):
        if stages and cores[stages[-1][0]] == core:
            stages[-1].append(index)
        else:
            stages.append([index])
    return stages


def _lag(layer: ChainLayer, tiles: int) -> int:
    height = ceil_div(layer.rows, tiles)
    ahead = max(0, layer.kernel - layer.stride - layer.pad)
    return int(ceil_div(ahead, height * layer.stride))


def tile_read_bits(layer: ChainLayer, top: int, bottom: int, stream: bool) -> int:
    """Bits of the network input fetched for output rows top .. bottom - 1."""
    if stream:
        return layer.padded_input_bits(bottom - top)
    begin, end = window_rows(layer, top, bottom)
    if top > 0:
        begin = window_rows(layer, top - 1, top)[1]
    if bottom == layer.rows:
        end = layer.height
    return layer.channels_in * max(0, end - begin) * layer.width * layer.bits


def window_rows(layer: ChainLayer, top: int, bottom: int) -> tuple[int, int]:
    """Input rows that output rows top .. bottom - 1 need, clipped to the map."""
    begin = max(0, top * layer.stride - layer.pad)
    end = min(layer.height, (bottom - 1) * layer.stride - layer.pad + layer.kernel)
    return begin, max(begin, end)


def sources_of(layers: Sequence[ChainLayer], index: int) -> tuple[int, ...]:
    inputs = layers[index].inputs
    if inputs is None:
        inputs = (index - 1,)
    for position in layers[index].whole:
        if not 0 <= position < len(inputs) or inputs[position] == OUTSIDE:
            raise ValueError(
                f"layer {index} reads input {position} whole, which is not one that a layer makes"
            )
    for source in inputs:
        if not OUTSIDE <= source < index:
            raise ValueError(
                f"layer {index} reads {source}; {OUTSIDE} (the input) to {index - 1} can be read"
            )
    return inputs


def per_layer(value: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise ValueError(f"{name} is one number or one per layer: {count}, not {len(values)}")
    if min(values) < 1:
        raise ValueError(f"{name} are at least 1, not {min(values)}")
    return values


def add_bits(bits: dict[str, int], tensor: str, size: int) -> None:
    bits[tensor] = bits.get(tensor, 0) + size
