"""Fused runs tile by tile: an exact list schedule of compute, memory and link events.

It is the yardstick of the closed forms in `chain` and `pipeline`, and what is compared with Stream (Symons
et al., ISPASS 2023): with `convention="stream"` it reproduces Stream's fused runs to the cycle and the bit,
given the cycles per tile. Units: cycles of one common clock, and bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headway.cost.chain import (
    OUTSIDE,
    ChainLayer,
    ChainRun,
    Convention,
    Tile,
    add_bits,
    per_layer,
    sources_of,
    tile_read_bits,
    window_rows,
)
from headway.cost.dataflow import ceil_div
from headway.cost.routes import Bus, Routes, first_gap


def fused_chain(
    layers: Sequence[ChainLayer],
    tile_cycles: int | Sequence[int],
    tiles: int | Sequence[int],
    cores: Sequence[int],
    dram_bits_per_cycle: int,
    link_bits_per_cycle: int,
    connections: Sequence[tuple[int, int]] | None = None,
    convention: Convention = "own",
    stacks: Sequence[int] | None = None,
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
    convention: "own" fetches each row of the network input once (its halo stays), counts no padding, and
        writes the outputs that nobody reads. "stream" copies Stream: every tile of the network input is
        fetched with its halo and padding again, and the final output is not written.
    stacks: the number of the stack of each layer, ascending: a stack is scheduled when the one before it is,
        and what lies between them stays in the cores. Without it all layers are one stack; a stack per layer
        goes layer by layer.

    A tile is scheduled when all tiles that its window touches are; among those that can be, the one with
    the lowest tile number, then the lowest layer. Weights are fetched when their layer's first tile is
    scheduled. A transfer takes the first gap on its bus or route. It may start when its layer's tile before
    does (a second buffer), or, with "stream", as long before the core is free as all of the tile's operands
    take over the DRAM bus. Memory capacity is not checked here.

    Raises ValueError for inconsistent lengths, unknown inputs, stacks that do not ascend, or cores without a
    connection.
    """
    if convention not in ("own", "stream"):
        raise ValueError(f'convention is "own" or "stream", not {convention!r}')
    if not layers:
        raise ValueError("a chain has at least one layer")
    if len(cores) != len(layers):
        raise ValueError(f"{len(layers)} layers need as many cores (repeats allowed), not {len(cores)}")
    if dram_bits_per_cycle <= 0 or link_bits_per_cycle <= 0:
        raise ValueError("bandwidths are above 0 bits per cycle")
    order = (0,) * len(layers) if stacks is None else tuple(stacks)
    if len(order) != len(layers) or list(order) != sorted(order):
        raise ValueError(f"stacks are one number per layer, ascending: {len(layers)}, not {order}")
    schedule = _Schedule(
        stacks=order,
        layers=tuple(layers),
        cycles=per_layer(tile_cycles, len(layers), "tile_cycles"),
        counts=per_layer(tiles, len(layers), "tiles"),
        cores=tuple(cores),
        dram=dram_bits_per_cycle,
        link=link_bits_per_cycle,
        routes=Routes(connections),
        stream=convention == "stream",
    )
    return schedule.run()


@dataclass(slots=True)
class _Schedule:
    """State of one run of `fused_chain`."""

    stacks: tuple[int, ...]
    layers: tuple[ChainLayer, ...]
    cycles: tuple[int, ...]
    counts: tuple[int, ...]
    cores: tuple[int, ...]
    dram: int
    link: int
    routes: Routes
    stream: bool
    bus: Bus = field(default_factory=Bus)
    free: dict[int, int] = field(default_factory=dict)  # core -> when it is idle
    done: dict[tuple[int, int], Tile] = field(default_factory=dict)
    there: dict[tuple[str, int, int], int] = field(default_factory=dict)  # tensor, tile, core: since when
    read: dict[str, int] = field(default_factory=dict)
    write: dict[str, int] = field(default_factory=dict)
    link_bits: int = 0
    last_transfer: int = 0

    def run(self) -> ChainRun:
        slots = max(self._tile_count(index) for index in range(len(self.layers)))
        waiting = sorted(
            (self.stacks[index], tile * slots // self._tile_count(index), index, tile)
            for index in range(len(self.layers))
            for tile in range(self._tile_count(index))
        )
        readers = {source for index in range(len(self.layers)) for source in sources_of(self.layers, index)}
        while waiting:
            ready = next(tile for tile in waiting if all(key in self.done for key in self._needed(*tile[2:])))
            waiting.remove(ready)
            _, _, index, tile = ready
            needed = self._needed(index, tile)
            self._place(index, tile, needed)
            if index not in readers and not self.stream:
                self._write_back(index, tile)
        return ChainRun(
            latency_cycles=max(self.last_transfer, max(tile.end for tile in self.done.values())),
            read_bits=self.read,
            write_bits=self.write,
            link_bits=self.link_bits,
            tiles=tuple(self.done.values()),
            peak_feature_bits=self._peak_feature_bits(),
        )

    def _peak_feature_bits(self) -> int:
        """The most bits of maps that exist at once, from a tile's start to the end of the last that reads it.

        The network input does not count; what nobody reads stays to the end.
        """
        last = {key: tile.start for key, tile in self.done.items()}
        for key, tile in self.done.items():
            for read in self._needed(*key):
                if read[0] != key[0]:
                    last[read] = max(last[read], tile.end)
        read_ever = {source for index in range(len(self.layers)) for source in sources_of(self.layers, index)}
        changes = []
        for key, tile in self.done.items():
            bits = self._tile_bits(*key)
            changes.append((tile.start, 1, bits))
            if key[0] in read_ever:
                changes.append((max(last[key], tile.end), 0, -bits))
        return max(accumulate(bits for _, _, bits in sorted(changes)))

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
        for position, source in enumerate(sources_of(self.layers, index)):
            if source == OUTSIDE:
                continue
            begin, end = window_rows(layer, top, bottom) if position == 0 else (top, bottom)
            if position in layer.whole:
                begin, end = 0, self.layers[source].rows
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
            for position, source in enumerate(sources_of(self.layers, index))
            if source == OUTSIDE
        ]
        sizes = [self._tile_bits(*key) for key in parts] + [bits for _, _, bits in outside]
        sizes.append(layer.weight_bits)
        idle = self.free.get(core, 0)
        start = max(idle, max((self.done[key].end for key in needed), default=0))
        if self.stream:
            earliest = idle - sum(ceil_div(bits, self.dram) for bits in sizes)
        else:
            earliest = self.done[index, tile - 1].start if tile else 0
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
            return tile_read_bits(layer, top, bottom, self.stream)
        return (bottom - top) * layer.output_row_bits

    def _fetch(self, name: str, part: int, core: int, bits: int, earliest: int) -> int:
        """Read from DRAM unless the core has it; when it is there."""
        key = (name, part, core)
        if key not in self.there:
            duration = ceil_div(bits, self.dram)
            self.there[key] = first_gap([self.bus], max(0, earliest), duration) + duration
            add_bits(self.read, name.split(" ")[0], bits)
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
            self.there[place] = first_gap(route, max(made.end, earliest), duration) + duration
            self.link_bits += bits
        return self.there[place]

    def _write_back(self, index: int, tile: int) -> None:
        bits = self._tile_bits(index, tile)
        duration = ceil_div(bits, self.dram)
        end = first_gap([self.bus], self.done[index, tile].end, duration) + duration
        self.last_transfer = max(self.last_transfer, end)
        add_bits(self.write, f"T{index + 1}", bits)
