"""Multiply-accumulates of a zoo graph from its recorded shapes, far quicker than reading it as layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def count_macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of a model from ``build``: of convolutions, matrix products and LSTMs.

    Everything else takes none, and padding counts as work, as in published figures and in ``load_model``.
    """
    graph = model.graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for values in (graph.input, graph.value_info, graph.output)
        for value in values
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    return sum(_node_macs(node, shapes) for node in graph.node)


def _node_macs(node: onnx.NodeProto, shapes: dict[str, list[int]]) -> int:
    if node.op_type == "Conv":
        return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "ConvTranspose":
        return math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
    if node.op_type in {"MatMul", "Gemm"}:
        return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
    if node.op_type == "LSTM":
        # Each step and sequence uses every weight once.
        return math.prod(shapes[node.input[0]][:2]) * sum(math.prod(shapes[name]) for name in node.input[1:3])
    return 0
