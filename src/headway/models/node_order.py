"""The order of a graph's nodes: names that bodies capture, topological order, and nodes that lead nowhere."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def node_label(node: NodeProto, index: int) -> str:
    """How messages name a node: by its name, else by its place in the file."""
    domain = f"{node.domain}:" if node.domain else ""
    shown = f"{node.name!r}" if node.name else f"#{index}"
    return f"node {shown} ({domain}{node.op_type})"


def bodies_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(graph: GraphProto) -> set[str]:
    """Names that a body, or a body inside it, reads from the graphs around it."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in names_read(node)}
    read |= {value.name for value in graph.output}
    return {name for name in read if name} - own


def names_read(node: NodeProto) -> set[str]:
    """Names that a node needs: its inputs and what its bodies capture."""
    names = {name for name in node.input if name}
    for body in bodies_of(node):
        names |= captured_names(body)
    return names


def sorted_nodes(
    nodes: Sequence[NodeProto], available: Collection[str], where: str, outer: Collection[str] = ()
) -> list[tuple[int, NodeProto]]:
    """Nodes in topological order, each with its place in the file; the file's order is kept where it can be.

    `available` are the graph's inputs and initialisers, `outer` what a body can read around it and shadow.

    Raises:
        HeadwayError: a tensor is made twice, is read but made nowhere, or depends on itself.
    """
    maker: dict[str, int] = {}
    known = {*available, *outer}
    for index, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in maker or name in available:
                raise HeadwayError(
                    f"{where}: {node_label(node, index)} makes tensor {name!r}, which exists already; "
                    "each tensor may be made once"
                )
            maker[name] = index
    waiting: list[int] = []
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        makers: set[int] = set()
        for name in names_read(node):
            if name in maker:
                makers.add(maker[name])
            elif name not in known:
                raise HeadwayError(
                    f"{where}: {node_label(node, index)} reads tensor {name!r}, which no node makes and "
                    "which is neither an input nor an initialiser"
                )
        waiting.append(len(makers))
        for origin in makers:
            readers.setdefault(origin, []).append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list[tuple[int, NodeProto]] = []
    while ready:
        index = heapq.heappop(ready)
        order.append((index, nodes[index]))
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        stuck = next(index for index, count in enumerate(waiting) if count > 0)
        tensor = next(name for name in sorted(names_read(nodes[stuck])) if maker.get(name) is not None)
        raise HeadwayError(
            f"{where}: {node_label(nodes[stuck], stuck)} is on, or behind, a cycle: "
            f"tensor {tensor!r} depends on itself"
        )
    return order


def live_nodes(order: Sequence[tuple[int, NodeProto]], outputs: Iterable[str]) -> list[tuple[int, NodeProto]]:
    """Those nodes of a topological order that some output depends on."""
    needed = set(outputs)
    live: list[tuple[int, NodeProto]] = []
    for index, node in reversed(order):
        if any(name in needed for name in node.output if name):
            needed |= names_read(node)
            live.append((index, node))
    live.reverse()
    return live


def duplicate_name(nodes: Iterable[NodeProto]) -> str | None:
    """A name that more than one node of the graph has, or None."""
    counts = Counter(node.name for node in nodes if node.name)
    return next((name for name, count in counts.items() if count > 1), None)
