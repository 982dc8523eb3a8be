"""The columns of maps as the axis of fusion, for maps that are wider than high.

A band of columns needs lines as long as the map is high, so that wide, short maps (spectrograms, lines of
text, lidar scans) take less SRAM than in bands of rows.
"""

from __future__ import annotations

from dataclasses import replace

from headway.models.graph import Graph, Layer, LayerKind, Operand


def has_wide_maps(graph: Graph) -> bool:
    """Whether the map of some layer is wider than high."""
    return any(layer.dims.OX > layer.output_rows > 1 for layer in graph.layers)


def along_columns(graph: Graph) -> Graph:
    """The graph with its columns where rows were: `output_rows`, windows and `rows` of operands.

    Layers of which columns are not known to go through (all but convolutions, pooling, and maps over elements
    of the same shape, of one item of a batch) have one, and barriers on both sides.
    """
    widths: list[int] = []
    layers: list[Layer] = []
    for layer in graph.layers:
        width = _width(layer, widths, graph)
        widths.append(width)
        dims = layer.dims
        windowed = width and layer.kind in (LayerKind.CONV, LayerKind.POOL)
        layers.append(
            replace(
                layer,
                operands=tuple(_along(operand, layer, width, widths, graph) for operand in layer.operands),
                output_rows=max(1, width),
                row_kernel=dims.dilation_x * (dims.FX - 1) + 1 if windowed else 1,
                row_stride=float(dims.stride_x) if windowed else 1.0,
                row_pad=dims.pad_left if windowed else 0,
            )
        )
    return replace(graph, layers=tuple(layers))


def _width(layer: Layer, widths: list[int], graph: Graph) -> int:
    """Columns of a layer's output; 0 where it is not known that bands of them go through."""
    dims = layer.dims
    if layer.kind in (LayerKind.CONV, LayerKind.POOL):
        span = dims.dilation_x * (dims.FX - 1) + 1
        columns = (dims.IX + dims.pad_left + dims.pad_right - span) // dims.stride_x + 1
        ordinary = layer.row_stride == dims.stride_y and dims.B == 1
        # Pooling may round up; of three spatial axes two are folded into one, and the window is none there.
        return dims.OX if ordinary and dims.OX - columns in (0, 1) else 0
    if layer.kind is LayerKind.ELEMENTWISE:
        same = {
            widths[operand.producer]
            for operand in layer.operands
            if operand.producer is not None and _same_shape(operand, layer, graph)
        }
        return same.pop() if len(same) == 1 else 0
    return 0


def _same_shape(operand: Operand, layer: Layer, graph: Graph) -> bool:
    """Whether an operand has as many elements and rows as the output, so that the one goes with the other."""
    assert operand.producer is not None
    producer = graph.layers[operand.producer]
    return (
        operand.row_wise
        and operand.rows == producer.output_rows == layer.output_rows
        and operand.dtype == producer.output_dtype == layer.output_dtype
        and operand.bytes == producer.output_bytes == layer.output_bytes
    )


def _along(operand: Operand, layer: Layer, width: int, widths: list[int], graph: Graph) -> Operand:
    dims = layer.dims
    windowed = layer.kind in (LayerKind.CONV, LayerKind.POOL) and not operand.at_output
    needed, high = (dims.IX, dims.IY) if windowed else (width, layer.output_rows)
    if operand.producer is None:
        return replace(operand, rows=max(1, needed), row_wise=operand.row_wise and width > 0)
    producer = graph.layers[operand.producer]
    goes = (
        width > 0
        and operand.row_wise
        and operand.rows == producer.output_rows == high
        and widths[operand.producer] == needed
        and (windowed or _same_shape(operand, layer, graph))
    )
    return replace(operand, rows=max(1, needed if goes else widths[operand.producer]), row_wise=goes)
