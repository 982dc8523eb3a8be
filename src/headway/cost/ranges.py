"""What crosses the borders of ranges of layers: which ranges can be fused, and what they read and write.

Arrays are indexed [first, offset] or [first, stage start, stage end], offsets counted from the first
layer; the end of a range is first + offset. All ranges of up to eight layers are computed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headway.cost.layer import touched_share
from headway.cost.operands import held, streamed
from headway.cost.shapes import Bools, Floats, Longs, Shapes
from headway.models.graph import Graph

MAX_LENGTH = 8  # layers in a fused range (Lucas's n <= 8, accelerators.md section 5.2)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Facts about ranges of up to MAX_LENGTH layers.

    `fusable[f, n]`: layers f .. f+n-1 are one connected stack and no internal edge needs a whole tensor.
    `joined[f, n]`: they are connected by any edges, so that they can be fused in one band, which covers the
    axis that a barrier reduces.
    `read[f, a, b]`: bytes of tensors made before f that layers f+a .. f+b-1 read, each tensor once.
    `written[f, n]`: bytes of outputs that somebody after the range reads or that leave the network.
    `inbound[f, a, b]`: bytes of outputs of f .. f+a-1 that layers f+a .. f+b-1 read, each tensor once.
    `waiting[f, q]`: bytes of operands of layer f+q that wait in SRAM while the halo of layers in
    between fills; `side[f, q]`: bytes of all operands of that layer that skip layers of the range.
    `live[f, n]`: the most bytes of maps that lie in SRAM at once when the layers run one after the other and
    every tensor stays from the first of them that makes or reads it to the last that reads it.
    """

    fusable: Bools
    joined: Bools
    read: Floats
    written: Floats
    inbound: Floats
    waiting: Floats
    side: Floats
    live: Floats
    last_use: Longs  # [layer]: the last that reads its output; len(layers) if it leaves the network unread
    barrier: tuple[int, ...]  # for each layer the last producer it needs whole, or -1


def ranges_of(graph: Graph, shapes: Shapes) -> Ranges:
    """Ranges of a graph."""
    size, span = len(graph.layers), MAX_LENGTH + 1
    edges, barrier = _edges(graph)
    reads = _reads(graph, shapes)
    last_use = np.array([size if use == i else use for i, use in enumerate(graph.last_use)], dtype=np.int64)
    return Ranges(
        fusable=_connected(size, edges, barrier),
        joined=_connected(size, _all_edges(graph), (-1,) * size),
        read=_external_reads(size, reads),
        written=_written(last_use, shapes),
        inbound=_inbound(graph, shapes),
        waiting=_per_skip(size, span, reads, shapes, waiting=True),
        side=_per_skip(size, span, reads, shapes, waiting=False),
        live=_live(graph, shapes),
        last_use=last_use,
        barrier=barrier,
    )


@dataclass(frozen=True, slots=True)
class _Reads:
    """One entry per layer and distinct tensor it reads."""

    layer: np.ndarray[tuple[int], np.dtype[np.int64]]
    producer: np.ndarray[tuple[int], np.dtype[np.int64]]  # -1: network input
    earlier: np.ndarray[tuple[int], np.dtype[np.int64]]  # the last layer before that reads it too, or -1
    bytes: Floats  # what it reads of the tensor: where strides leave some out, less than all
    before: Floats  # what that earlier layer reads of it
    main: Bools


def _edges(graph: Graph) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    edges, barrier = [], []
    for layer in graph.layers:
        producers = []
        whole = -1
        for operand in layer.operands:
            if operand.producer is None:
                continue
            same_axis = operand.rows == graph.layers[operand.producer].output_rows
            if operand.row_wise and same_axis:
                producers.append(operand.producer)
            else:
                whole = max(whole, operand.producer)
        edges.append(tuple(producers))
        barrier.append(whole)
    return tuple(edges), tuple(barrier)


def _reads(graph: Graph, shapes: Shapes) -> _Reads:
    layer, producer, earlier, size, before, main = [], [], [], [], [], []
    last_reader: dict[str, tuple[int, float]] = {}
    touched = touched_share(shapes).tolist()
    for index, node in enumerate(graph.layers):
        seen = set()
        through = streamed(node)
        window = (*through, *held(node))
        for position, operand in enumerate(node.operands):
            if operand.tensor in seen:
                continue
            seen.add(operand.tensor)
            layer.append(index)
            producer.append(-1 if operand.producer is None else operand.producer)
            size.append(operand.bytes * (touched[index] if position in through else 1.0))
            main.append(position in window)
            reader, read = last_reader.get(operand.tensor, (-1, 0.0))
            earlier.append(reader)
            before.append(read)
            last_reader[operand.tensor] = (index, max(read, size[-1]))
    whole = np.int64
    return _Reads(
        np.array(layer, dtype=whole),
        np.array(producer, dtype=whole),
        np.array(earlier, dtype=whole),
        np.array(size, dtype=np.float64),
        np.array(before, dtype=np.float64),
        np.array(main, dtype=bool),
    )


def _all_edges(graph: Graph) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(operand.producer for operand in layer.operands if operand.producer is not None)
        for layer in graph.layers
    )


def _connected(size: int, edges: tuple[tuple[int, ...], ...], barrier: tuple[int, ...]) -> Bools:
    connected = np.zeros((size, MAX_LENGTH + 1), dtype=bool)
    for first in range(size):
        islands = [1]  # sets of connected layers, as bit masks relative to first
        for offset in range(1, min(MAX_LENGTH, size - first)):
            layer = first + offset
            if barrier[layer] >= first:
                break
            touched = sum({1 << (p - first) for p in edges[layer] if p >= first})
            island = 1 << offset
            apart = []
            for other in islands:
                if other & touched:
                    island |= other
                else:
                    apart.append(other)
            islands = [*apart, island]
            connected[first, offset + 1] = len(islands) == 1
    return connected


def _external_reads(size: int, reads: _Reads) -> Floats:
    span = MAX_LENGTH + 1
    added = np.zeros((size, span, span))  # [first, stage start, layer]
    for offset in range(MAX_LENGTH):
        first = reads.layer - offset
        outside = (first >= 0) & (reads.producer < first)
        for start in range(offset + 1):
            again = reads.earlier >= first + start
            more = np.where(again, np.maximum(0.0, reads.bytes - reads.before), reads.bytes)
            added[:, start, offset] = np.bincount(first[outside], more[outside], minlength=size)
    total = np.zeros((size, span, span))
    np.cumsum(added[:, :, :-1], axis=2, out=total[:, :, 1:])
    return total


def _written(last_use: Longs, shapes: Shapes) -> Floats:
    size = len(last_use)
    written = np.zeros((size, MAX_LENGTH + 1))
    for offset in range(MAX_LENGTH):
        here = np.arange(size - offset)
        for length in range(offset + 1, MAX_LENGTH + 1):
            leaves = last_use[here + offset] >= here + length
            written[here, length] += np.where(leaves, shapes.output[here + offset], 0.0)
    return written


def _inbound(graph: Graph, shapes: Shapes) -> Floats:
    size, span = len(graph.layers), MAX_LENGTH + 1
    readers = np.zeros((size, 2 * span), dtype=np.int64)  # [producer, distance]
    for layer in graph.layers:
        for operand in layer.operands:
            if operand.producer is not None and layer.index - operand.producer < span:
                readers[operand.producer, layer.index - operand.producer] = 1
    before = np.concatenate((np.zeros((size, 1), dtype=np.int64), np.cumsum(readers, axis=1)), axis=1)
    inbound = np.zeros((size, span, span))
    for offset in range(MAX_LENGTH):
        here = np.arange(size - offset)
        producer = here + offset
        for start in range(offset + 1, MAX_LENGTH):
            ends = np.arange(start + 1, span)
            read = before[producer[:, None], ends - offset] > before[producer, start - offset][:, None]
            inbound[here[:, None], start, ends] += shapes.output[producer][:, None] * read
    return inbound


def _per_skip(size: int, span: int, reads: _Reads, shapes: Shapes, waiting: bool) -> Floats:
    """Operands that skip layers inside a range, summed per [first, layer offset].

    A skipping operand waits until the layers in between have filled their halo: as a share of the map, the
    sum of (kernel - stride) / rows of those layers: exact on a chain of equal maps, too much otherwise.
    """
    share = np.concatenate(([0.0], np.cumsum(shapes.line_rows / shapes.main_rows)))
    total = np.zeros((size, span))
    for offset in range(MAX_LENGTH):
        first = reads.layer - offset
        source = np.maximum(reads.producer, first - 1)
        skips = (first >= 0) & (offset > 0) & (~reads.main | (reads.producer < reads.layer - 1))
        # The halo of the reader's own window lies in its input buffer.
        until = np.where(reads.main, reads.layer, reads.layer + 1)
        lag = np.clip(share[until] - share[np.maximum(source, -1) + 1], 0.0, 1.0)
        amount = reads.bytes * lag if waiting else reads.bytes
        total[:, offset] = np.bincount(first[skips], amount[skips], minlength=size)
    return total


def _live(graph: Graph, shapes: Shapes) -> Floats:
    """[first, length]: the largest working set of maps over the layers of a range, each tensor once."""
    size = len(graph.layers)
    readers: dict[str, list[int]] = {}
    made: dict[str, tuple[int, float]] = {}
    for layer in graph.layers:
        made[layer.output] = (layer.index, float(layer.output_bytes))
        for operand in layer.operands:
            made.setdefault(operand.tensor, (-1, 0.0))
            maker, most = made[operand.tensor]
            made[operand.tensor] = (maker, max(most, float(operand.bytes)))
            readers.setdefault(operand.tensor, []).append(layer.index)
    # Bytes that wait at a layer because a tensor's last use before it and its next use lie that far apart.
    waits = np.zeros((size, MAX_LENGTH + 1, MAX_LENGTH + 1))  # [layer, since, until]
    for tensor, (maker, bytes_) in made.items():
        uses = sorted({*readers.get(tensor, ()), *((maker,) if maker >= 0 else ())})
        for earlier, later in pairwise(uses):
            if later - earlier < MAX_LENGTH:
                for between in range(earlier + 1, later):
                    waits[between, between - earlier, later - between] += bytes_
    reach = np.cumsum(np.cumsum(waits, axis=1), axis=2)  # since at most, until at most
    own = shapes.main + shapes.kept_maps + shapes.side + shapes.output
    live = np.zeros((size, MAX_LENGTH + 1))
    for length in range(1, min(MAX_LENGTH, size) + 1):
        first = np.arange(size - length + 1)
        for offset in range(length):
            held_here = own[first + offset] + reach[first + offset, offset, length - 1 - offset]
            live[first, length] = np.maximum(live[first, length], held_here)
    return live
