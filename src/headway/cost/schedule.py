"""Fused runs tile by tile: an exact list schedule of compute, memory and link events.

It is the yardstick of the closed forms in `fused` and `pipeline`, and what is compared with Stream (Symons et
al., ISPASS 2023): with `convention="stream"` it reproduces Stream's fused runs to the cycle and the bit, given
the cycles per tile. Units: cycles of one common clock, and bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from headway.cost.dataflow import ceil_div

Convention = Literal["own", "stream"]
OUTSIDE = -1  # as an input: the network input, from DRAM


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """A layer of a chain of tiles: a convolution, or a matrix product with height M, width 1 and kernel 1.

    `height` and `width` are those of the input without padding. `inputs` are the layers it reads
    (`OUTSIDE` for the network input); None means the layer before, or the network input for the first. The
    first of several inputs is read through the window, the others row by row (a residual). Elements of
    maps and weights have `bits` bits. `weights=False` is an addition or pooling.
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
        """Bits of the input window of that many output rows, the zeros of the padding included."""
        high = (rows - 1) * self.stride + self.kernel
        wide = 1 if self.width == 1 else (self.columns - 1) * self.stride + self.kernel
        return self.channels_in * high * wide * self.bits


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
    """What a run of a chain took. Bits per tensor: T0 is the network input, T1 the first layer's output, W0
    its weights."""

    latency_cycles: int
    read_bits: dict[str, int]
    write_bits: dict[str, int]
    link_bits: int
    tiles: tuple[Tile, ...] = ()

    @property
    def dram_bits(self) -> int:
        """All bits that cross the memory interface."""
        return sum(self.read_bits.values()) + sum(self.write_bits.values())


def serial_chain(layers: Sequence[ChainLayer], layer_cycles: int | Sequence[int]) -> ChainRun:
    """Layer by layer: every layer reads its inputs and weights from DRAM once and writes its output.

    The latency is the sum of the given cycles, transfers included in them, as Stream has it.
    """
    cycles = _per_layer(layer_cycles, len(layers), "layer_cycles")
    read: dict[str, int] = {}
    write: dict[str, int] = {}
    for index, layer in enumerate(layers):
        for source in _sources(layers, index):
            size = layer.input_bits if source == OUTSIDE else layers[source].output_bits
            _add(read, f"T{source + 1}", size)
        if layer.weight_bits:
            _add(read, f"W{index}", layer.weight_bits)
        _add(write, f"T{index + 1}", layer.output_bits)
    return ChainRun(sum(cycles), read, write, 0)


def fused_chain(
    layers: Sequence[ChainLayer],
    tile_cycles: int | Sequence[int],
    tiles: int | Sequence[int],
    cores: Sequence[int],
    dram_bits_per_cycle: int,
    link_bits_per_cycle: int,
    connections: Sequence[tuple[int, int]] | None = None,
    convention: Convention = "own",
) -> ChainRun:
    """Run a chain (or a graph with residuals) of layers fused, cut into tiles of whole output rows.

    Parameters
    ----------
    tile_cycles: cycles of one tile, for all layers or one number per layer.
    tiles: into how many tiles each layer's output is cut (ceil(rows / tiles) rows each), for all or per
    layer. cores: the core that each layer runs on; all equal is single-core fusion.
    dram_bits_per_cycle: bandwidth of the memory, one serial bus for reads and writes of all cores.
    link_bits_per_cycle: bandwidth of a link between cores, in each direction.
    connections: pairs of cores with a link; a transfer takes the first shortest way and occupies all its
        links for its whole duration. Without it any two cores are linked directly.
    convention: "own" fetches each row of the network input once (its halo stays), counts no padding, and writes
        the outputs that nobody reads. "stream" copies Stream: every tile of the network input is fetched
        with its halo and padding again, and the final output is not written.

    A tile is scheduled when all tiles that its window touches are; among those that can be, the one with
    the lowest tile number, then the lowest layer. Weights are fetched when their layer's first tile is
    scheduled. A transfer takes the first gap on its bus or route, and may start as long before the core is
    free as all of the tile's operands take over the DRAM bus. Memory capacity is not checked here.

    Raises ValueError for inconsistent lengths, unknown inputs, or cores without a connection.
    """
    if convention not in ("own", "stream"):
        raise ValueError(f'convention is "own" or "stream", not {convention!r}')
    if not layers:
        raise ValueError("a chain has at least one layer")
    if len(cores) != len(layers):
        raise ValueError(f"{len(layers)} layers need as many cores (one may be named several times), not {len(cores)}")
    if dram_bits_per_cycle <= 0 or link_bits_per_cycle <= 0:
        raise ValueError("bandwidths are above 0 bits per cycle")
    schedule = _Schedule(
        layers=tuple(layers),
        cycles=_per_layer(tile_cycles, len(layers), "tile_cycles"),
        counts=_per_layer(tiles, len(layers), "tiles"),
        cores=tuple(cores),
        dram=dram_bits_per_cycle,
        link=link_bits_per_cycle,
        routes=_Routes(connections),
        stream=convention == "stream",
    )
    return schedule.run()


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
    less than the traffic takes. Equal to
    `fused_chain` on a chain with a core per layer, or one core for all, while DRAM is not the limit.
    """
    cycles = _per_layer(tile_cycles, len(layers), "tile_cycles")
    stream = convention == "stream"
    stages: list[list[int]] = []
    for index, core in enumerate(cores):
        if stages and cores[stages[-1][0]] == core:
            stages[-1].append(index)
        else:
            stages.append([index])
    taus = [sum(cycles[index] for index in stage) for stage in stages]
    lags = [sum(_lag(layers[index], tiles) for index in stage) for stage in stages]
    links = [0] + [
        ceil_div(layers[stage[0] - 1].output_row_bits * ceil_div(layers[stage[0] - 1].rows, tiles),
        link_bits_per_cycle) for stage in stages[1:]
    ]
    first = layers[0]
    window = _tile_read_bits(first, 0, ceil_div(first.rows, tiles), stream)
    load = ceil_div(first.weight_bits, dram_bits_per_cycle) + ceil_div(window, dram_bits_per_cycle)
    resources = [value for pair in zip(links, taus, strict=True) for value in pair][1:]
    flow = longest_way(resources, lags[1:], tiles)
    last = layers[-1]
    height = ceil_div(last.rows, tiles)
    bottom_tile = last.rows - (ceil_div(last.rows, height) - 1) * height
    store = 0 if stream else ceil_div(bottom_tile * last.output_row_bits, dram_bits_per_cycle)
    traffic = sum(layer.weight_bits for layer in layers)
    traffic += tiles * window if stream else first.input_bits + last.output_bits
    return int(max(load + flow + store, ceil_div(traffic, dram_bits_per_cycle)))


def longest_way(resources: Sequence[int], lags: Sequence[int], tiles: int) -> int:
    """Cycles until all tiles have passed stage, link, stage, link, ..., stage in order.

    `lags[j]` is how many more tiles stage j + 1 needs before its first. Every resource is passed once, the
    slowest for the other tiles - 1 too; a lag is waited for at the pace of what lies before a stage, or made
    up at its own pace once the slowest resource has seen all tiles.
    """
    longest = 0
    for slowest, pace in enumerate(resources):
        total = sum(resources) + (tiles - 1) * pace
        for entry, lag in enumerate(lags):
            stage = 2 * (entry + 1)
            before = max(resources[stage - 1], resources[stage - 2])
            total += min(lag, tiles - 1) * (before if stage <= slowest else resources[stage])
        longest = max(longest, total)
    return longest


def _lag(layer: ChainLayer, tiles: int) -> int:
    height = ceil_div(layer.rows, tiles)
    ahead = max(0, layer.kernel - layer.stride - layer.pad)
    return int(ceil_div(ahead, height * layer.stride))


def _tile_read_bits(layer: ChainLayer, top: int, bottom: int, stream: bool) -> int:
    """Bits of the network input fetched for output rows top .. bottom - 1."""
    if stream:
        return layer.padded_input_bits(bottom - top)
    begin, end = _window(layer, top, bottom)
    if top > 0:
        begin = max(begin, _window(layer, top - 1, top)[1])
    if bottom == layer.rows:
        end = layer.height
    return layer.channels_in * max(0, end - begin) * layer.width * layer.bits


def _window(layer: ChainLayer, top: int, bottom: int) -> tuple[int, int]:
    """Input rows that output rows top .. bottom - 1 need, clipped to the map."""
    begin = max(0, top * layer.stride - layer.pad)
    end = min(layer.height, (bottom - 1) * layer.stride - layer.pad + layer.kernel)
    return begin, max(begin, end)


def _sources(layers: Sequence[ChainLayer], index: int) -> tuple[int, ...]:
    inputs = layers[index].inputs
    if inputs is None:
        return (index - 1,)
    for source in inputs:
        if not OUTSIDE <= source < index:
            raise ValueError(f"layer {index} reads {source}, but may read {OUTSIDE} (the input) to {index - 1}")
    return inputs


def _per_layer(value: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise ValueError(f"{name} is one number or one per layer: {count}, not {len(values)}")
    if min(values) < 1:
        raise ValueError(f"{name} are at least 1, not {min(values)}")
    return values


def _add(bits: dict[str, int], tensor: str, size: int) -> None:
    bits[tensor] = bits.get(tensor, 0) + size


class _Bus:
    """A resource that does one transfer at a time: reserved stretches, in order."""

    def __init__(self) -> None:
        self.busy: list[tuple[int, int]] = []


def _first_gap(buses: Sequence[_Bus], earliest: int, duration: int) -> int:
    """The earliest start, not before `earliest`, at which all the buses are free for so long; reserves it."""
    taken = sorted(stretch for bus in buses for stretch in bus.busy)
    start = earliest
    for begin, end in taken:
        if begin >= start + duration:
            break
        start = max(start, end)
    for bus in buses:
        bus.busy.append((start, start + duration))
    return start


class _Routes:
    """The links between cores, one per direction, and shortest ways over them."""

    def __init__(self, connections: Sequence[tuple[int, int]] | None) -> None:
        self._links: dict[tuple[int, int], _Bus] = {}
        self._neighbours: dict[int, list[int]] | None = None
        if connections is not None:
            self._neighbours = {}
            for a, b in connections:
                self._neighbours.setdefault(a, []).append(b)
                self._neighbours.setdefault(b, []).append(a)

    def between(self, sender: int, receiver: int) -> list[_Bus]:
        """The links of the first shortest way."""
        way = [sender, receiver] if self._neighbours is None else self._shortest(sender, receiver)
        return [self._links.setdefault(hop, _Bus()) for hop in zip(way, way[1:], strict=False)]

    def _shortest(self, sender: int, receiver: int) -> list[int]:
        assert self._neighbours is not None
        ways = deque([[sender]])
        seen = {sender}
        while ways:
            way = ways.popleft()
            if way[-1] == receiver:
                return way
            for core in self._neighbours.get(way[-1], []):
                if core not in seen:
                    seen.add(core)
                    ways.append([*way, core])
        raise ValueError(f"no connection leads from core {sender} to core {receiver}")


@dataclass(slots=True)
class _Schedule:
    """State of one run of `fused_chain`."""

    layers: tuple[ChainLayer, ...]
    cycles: tuple[int, ...]
    counts: tuple[int, ...]
    cores: tuple[int, ...]
    dram: int
    link: int
    routes: _Routes
    stream: bool
    bus: _Bus = field(default_factory=_Bus)
    free: dict[int, int] = field(default_factory=dict)  # core -> when it is idle
    done: dict[tuple[int, int], Tile] = field(default_factory=dict)
    there: dict[tuple[str, int, int], int] = field(default_factory=dict)  # tensor, tile, core -> when it is there
    read: dict[str, int] = field(default_factory=dict)
    write: dict[str, int] = field(default_factory=dict)
    link_bits: int = 0
    last_transfer: int = 0

    def run(self) -> ChainRun:
        slots = max(self._tile_count(index) for index in range(len(self.layers)))
        waiting = sorted(
            (tile * slots // self._tile_count(index), index, tile)
            for index in range(len(self.layers))
            for tile in range(self._tile_count(index))
        )
        readers = {source for index in range(len(self.layers)) for source in _sources(self.layers, index)}
        while waiting:
            for place, (_, index, tile) in enumerate(waiting):
                needed = self._needed(index, tile)
                if all(key in self.done for key in needed):
                    break
            else:
                raise AssertionError("tiles that wait for each other")
            del waiting[place]
            self._place(index, tile, needed)
            if index not in readers and not self.stream:
                self._write_back(index, tile)
        return ChainRun(
            latency_cycles=max(self.last_transfer, max(tile.end for tile in self.done.values())),
            read_bits=self.read,
            write_bits=self.write,
            link_bits=self.link_bits,
            tiles=tuple(self.done.values()),
        )

    def _height(self, index: int) -> int:
        return int(ceil_div(self.layers[index].rows, self.counts[index]))

    def _tile_count(self, index: int) -> int:
        return int(ceil_div(self.layers[index].rows, self._height(index)))

    def _rows(self, index: int, tile: int) -> tuple[int, int]:
        height = self._height(index)
        return tile * height, min(self.layers[index].rows, (tile + 1) * height)

    def _needed(self, index: int, tile: int) -> list[tuple[int, int]]:
        """The tiles of other layers that a tile reads, and the tile above it."""
        layer = self.layers[index]
        top, bottom = self._rows(index, tile)
        needed = [(index, tile - 1)] if tile else []
        for position, source in enumerate(_sources(self.layers, index)):
            if source == OUTSIDE:
                continue
            begin, end = _window(layer, top, bottom) if position == 0 else (top, bottom)
            height = self._height(source)
            end = min(end, self.layers[source].rows)
            needed += [(source, part) for part in range(begin // height, ceil_div(end, height))]
        return needed

    def _place(self, index: int, tile: int, needed: list[tuple[int, int]]) -> None:
        """Schedule a tile: its transfers first, in the order of their makers, then itself."""
        layer, core = self.layers[index], self.cores[index]
        top, bottom = self._rows(index, tile)
        parts = sorted({key for key in needed if key[0] != index})
        outside = [
            (f"T0 of {index}", tile, self._outside_bits(index, position, top, bottom))
            for position, source in enumerate(_sources(self.layers, index))
            if source == OUTSIDE
        ]
        sizes = [self._tile_bits(*key) for key in parts] + [bits for _, _, bits in outside] +
        [layer.weight_bits] idle = self.free.get(core, 0)
        earliest = idle - sum(ceil_div(bits, self.dram) for bits in sizes)
        start = max(idle, max((self.done[key].end for key in needed), default=0))
        for key in parts:
            start = max(start, self._forward(key, core, earliest))
        if layer.weight_bits:
            start = max(start, self._fetch(f"W{index}", 0, core, layer.weight_bits, earliest))
        for name, part, bits in outside:
            start = max(start, self._fetch(name, part, core, bits, earliest))
        end = start + self.cycles[index]
        self.free[core] = end
        self.done[index, tile] = Tile(index, tile, core, start, end)

    def _tile_bits(self, index: int, tile: int) -> int:
        top, bottom = self._rows(index, tile)
        return (bottom - top) * self.layers[index].output_row_bits

    def _outside_bits(self, index: int, position: int, top: int, bottom: int) -> int:
        layer = self.layers[index]
        if position == 0:
            return _tile_read_bits(layer, top, bottom, self.stream)
        return (bottom - top) * layer.output_row_bits

    def _fetch(self, name: str, part: int, core: int, bits: int, earliest: int) -> int:
        """Read from DRAM unless the core has it; when it is there."""
        key = (name, part, core)
        if key not in self.there:
            duration = ceil_div(bits, self.dram)
            self.there[key] = _first_gap([self.bus], max(0, earliest), duration) + duration
            _add(self.read, name.split(" ")[0], bits)
        return self.there[key]

    def _forward(self, key: tuple[int, int], core: int, earliest: int) -> int:
        """Send a tile to a core unless it has it; when it is there."""
        made = self.done[key]
        if made.core == core:
            return made.end
        place = (f"T{key[0] + 1}", key[1], core)
        if place not in self.there:
            bits = self._tile_bits(*key)
            duration = ceil_div(bits, self.link)
            route = self.routes.between(made.core, core)
            self.there[place] = _first_gap(route, max(made.end, earliest), duration) + duration
            self.link_bits += bits
        return self.there[place]

    def _write_back(self, index: int, tile: int) -> None:
        bits = self._tile_bits(index, tile)
        duration = ceil_div(bits, self.dram)
        end = _first_gap([self.bus], self.done[index, tile].end, duration) + duration
        self.last_transfer = max(self.last_transfer, end)
        _add(self.write, f"T{index + 1}", bits)
