"""A graph as if its floating-point tensors were stored at another width."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from headway.core.errors import HeadwayError
from headway.models.dtypes import bits_of, is_float
from headway.models.graph import Graph, Layer, Operand

_NAME_OF_BYTES = {0.5: "4-bit", 1: "8-bit", 2: "16-bit", 4: "32-bit", 8: "64-bit"}


def at_width(graph: Graph, operand_bytes: float) -> Graph:
    """The same graph with float weights and activations stored at `operand_bytes` bytes an element.

    Simulated accelerators compute on narrow operands whatever type the file holds. Integer tensors (ids,
    indices, quantised values) keep their width, as does whatever is narrower already. Element types keep
    their names: it is the storage that changes. A graph that has that width already comes back as it is.

    Raises:
        HeadwayError: a width that is not 0.5, 1, 2, 4 or 8, or a graph that was brought to another width.
    """
    if operand_bytes not in _NAME_OF_BYTES:
        raise HeadwayError(f"operand width is {operand_bytes!r} bytes; accepted are 0.5, 1, 2, 4 and 8")
    wanted = _NAME_OF_BYTES[operand_bytes]
    if graph.precision == wanted:
        return graph
    if graph.precision in _NAME_OF_BYTES.values():
        raise HeadwayError(
            f"{graph.name} was brought to {graph.precision} operands;"
            f" for {wanted} start from the model as stored"
        )

    def narrowed(size: int, dtype: str) -> int:
        bits = bits_of(dtype)
        width = int(operand_bytes * 8)
        return ceil(size * width / bits) if is_float(dtype) and bits > width else size

    def operand(given: Operand) -> Operand:
        return replace(given, bytes=narrowed(given.bytes, given.dtype))

    def layer(given: Layer) -> Layer:
        return replace(
            given,
            operands=tuple(operand(item) for item in given.operands),
            output_bytes=narrowed(given.output_bytes, given.output_dtype),
            weight_bytes=narrowed(given.weight_bytes, given.weight_dtype),
        )

    layers = tuple(layer(item) for item in graph.layers)
    before = sum(item.weight_bytes for item in graph.layers)
    after = sum(item.weight_bytes for item in layers)
    # Shared weights are in several layers but once in the total: it shrinks as the layers' sum does.
    total = graph.weight_bytes if before == 0 else -(-graph.weight_bytes * after // before)
    return replace(graph, layers=layers, weight_bytes=total, precision=wanted)
