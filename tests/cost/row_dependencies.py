"""Which rows of what a layer reads its output rows depend on, found by changing a row and running the layer.

Independent of the reader's formulas: ONNX Runtime computes each merged layer from its inputs, one row of one
input is changed, and the rows of the output that change are those that need it. What the reader decides is
only which axes of a tensor are its rows, of which it tells the number; any order of axes that fits is
accepted, as long as it is one for all readers of a tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
import onnxruntime

from headway.models.graph import Graph, Layer, Operand

Axes = tuple[int, ...]
MOST_ROWS = 64  # of an input whose rows are all tried; of others five


@dataclass(frozen=True)
class Dependence:
    """Of one layer on one operand: `needed[axes of input, axes of output]` is [output row, input row]."""

    layer: Layer
    operand: Operand
    needed: Mapping[tuple[Axes, Axes], np.ndarray]


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def row_axes(shape: Sequence[int], rows: int) -> list[Axes]:
    """Orders of axes that could be the rows."""
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    return [
        chosen
        for count in range(len(axes) + 1)
        for chosen in itertools.permutations(axes, count)
        if prod(shape[axis] for axis in chosen) == rows
    ]


def tensor_values(model: onnx.ModelProto, graph: Graph) -> dict[str, np.ndarray]:
    """Every merged layer's output, and the inputs, for inputs drawn with a fixed seed."""
    full = onnx.ModelProto()
    full.CopyFrom(model)
    del full.graph.output[:]
    names = list(dict.fromkeys(layer.output for layer in graph.layers))
    full.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    run = session(full)
    rng = np.random.default_rng(0)
    feed = {}
    for given in run.get_inputs():
        if "int" in given.type:
            top = 2 if "mask" in given.name else 50
            dtype = np.int64 if "64" in given.type else np.int32
            feed[given.name] = rng.integers(0, top, given.shape).astype(dtype)
        else:
            feed[given.name] = rng.standard_normal(given.shape).astype(np.float32)
    return feed | dict(zip(names, run.run(names, feed), strict=True))


def layer_model(model: onnx.ModelProto, layer: Layer, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The nodes of one merged layer, reading what other layers made."""
    makers = {name: node for node in model.graph.node for name in node.output if name}
    weights = {weight.name: weight for weight in model.graph.initializer}
    nodes: dict[int, onnx.NodeProto] = {}
    read: set[str] = set()
    waiting, seen = [layer.output], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in makers or (name in values and name != layer.output):
            read.add(name)
            continue
        nodes[id(makers[name])] = makers[name]
        waiting += [other for other in makers[name].input if other]
    ordered = [node for node in model.graph.node if id(node) in nodes]
    kinds = onnx.helper.np_dtype_to_tensor_dtype
    inputs = [
        onnx.helper.make_tensor_value_info(name, kinds(values[name].dtype), values[name].shape)
        for name in sorted(read)
        if name in values
    ]
    made = onnx.helper.make_graph(
        ordered,
        "layer",
        inputs,
        [onnx.helper.make_empty_tensor_value_info(layer.output)],
        [weights[name] for name in sorted(read) if name in weights],
    )
    return onnx.helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)


def dependences(model: onnx.ModelProto, graph: Graph) -> list[Dependence]:
    """Of every layer on every tensor of floats that another layer makes."""
    values = tensor_values(model, graph)
    found = []
    for layer in graph.layers:
        operands = [
            operand
            for operand in layer.operands
            if operand.producer is not None
            and values[graph.layers[operand.producer].output].dtype.kind == "f"
        ]
        if not operands:
            continue
        run = session(layer_model(model, layer, values))
        feed = {given.name: values[given.name] for given in run.get_inputs()}
        before = run.run(None, feed)[0]
        for operand in operands:
            producer = graph.layers[operand.producer]
            found.append(Dependence(layer, operand, _needed(run, feed, before, layer, producer)))
    return found


def _needed(run, feed, before, layer, producer):
    value = feed[producer.output]
    rng = np.random.default_rng(1)
    rows, outputs = producer.output_rows, row_axes(before.shape, layer.output_rows)
    windowed = layer.row_kernel > 1 or layer.row_stride != 1
    tried = range(rows) if windowed and rows <= MOST_ROWS else {0, 1 % rows, rows // 3, rows // 2, rows - 1}
    needed = {}
    for axes in row_axes(value.shape, rows):
        for other in outputs:
            needed[axes, other] = np.zeros((layer.output_rows, rows), dtype=bool)
        for row in tried:
            changed = value.copy()
            index: list[slice | int] = [slice(None)] * value.ndim
            for axis, place in zip(axes, np.unravel_index(row, [value.shape[a] for a in axes]), strict=True):
                index[axis] = int(place)
            part = changed[tuple(index)]
            changed[tuple(index)] = part * 1.7 + 3 + 2 * rng.random(part.shape).astype(value.dtype)
            after = run.run(None, feed | {producer.output: changed})[0]
            mask = (after != before) & ~(np.isnan(after) & np.isnan(before))
            for other in outputs:
                rest = tuple(axis for axis in range(mask.ndim) if axis not in other)
                kept = [axis for axis in range(mask.ndim) if axis not in rest]
                touched = mask.any(axis=rest).transpose([kept.index(axis) for axis in other])
                needed[axes, other][:, row] = touched.reshape(-1)
    return needed


def within_window(dependence: Dependence) -> list[tuple[Axes, Axes]]:
    """The choices of rows for which no output row needs more than the layer's row window."""
    layer = dependence.layer
    kernel, stride, pad = layer.row_kernel, layer.row_stride, layer.row_pad
    if dependence.operand.at_output:
        kernel, stride, pad = 1, 1.0, 0
    return [
        axes
        for axes, needed in dependence.needed.items()
        if all(
            np.floor(row * stride - pad + 1e-9) <= read < np.ceil(row * stride - pad + kernel - 1e-9)
            for row, read in zip(*np.nonzero(needed), strict=True)
        )
    ]
