"""From a graph's layers to the kernels that a framework launches for them, one operator at a time.

Nothing is fused but what eager PyTorch fuses too: a bias with its product, and the five ONNX nodes of an
exact GELU, which is one kernel there.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph, Layer, LayerKind
from headway.predict.gpu.features import FLOAT_BYTES, KernelClass
from headway.predict.gpu.kernels import Kernel, bmm, elementwise, layer_norm, linear, softmax

_FLOATS: Final = ("float16", "bfloat16", "float64", "float8e4m3fn", "float8e5m2")


def kernels_of(graph: Graph) -> tuple[tuple[Kernel, ...], ...]:
    """For each layer the kernels that it launches; none for views and for what is folded into another.

    Raises:
        HeadwayError: a layer computes in something else than float32, in which all rows were measured, or
            the graph's layers were merged before.
    """
    if graph.merged:
        raise HeadwayError(f"{graph.name}: merged layers; GPU latency needs layers as they are in the file")
    folded = _biases(graph) | _gelus(graph)
    return tuple(() if layer.index in folded else _kernels(layer) for layer in graph.layers)


def _biases(graph: Graph) -> set[int]:
    """Additions of a weight to the result of a product with weights."""
    found = set()
    for layer in graph.layers:
        if layer.op != "Add" or not layer.weight_bytes or len(layer.operands) != 1:
            continue
        producer = layer.operands[0].producer
        if producer is None or graph.last_use[producer] != layer.index:
            continue
        maker = graph.layers[producer]
        if maker.kind in (LayerKind.MATMUL, LayerKind.CONV) and not maker.weight_is_activation:
            found.add(layer.index)
    return found


def _gelus(graph: Graph) -> set[int]:
    """What surrounds the Erf of x * 0.5 * (1 + erf(x / sqrt 2)); the Erf stands for all of it."""
    found: set[int] = set()
    readers: dict[int, list[Layer]] = {}
    for layer in graph.layers:
        for operand in layer.operands:
            if operand.producer is not None:
                readers.setdefault(operand.producer, []).append(layer)
    for layer in graph.layers:
        if layer.op != "Erf" or layer.operands[0].producer is None:
            continue
        scaled = graph.layers[layer.operands[0].producer]
        if scaled.op in ("Div", "Mul") and len(scaled.operands) == 1:
            found.add(scaled.index)
        source = scaled.operands[0].producer if scaled.operands else None
        after, seen = layer, 0
        while len(readers.get(after.index, [])) == 1 and seen < 3:
            after = readers[after.index][0]
            others = {one.producer for one in after.operands} - {source}
            if after.op not in ("Add", "Mul") or len(after.operands) > 2 or len(others) > 2:
                break
            found.add(after.index)
            seen += 1
    return found


def _kernels(layer: Layer) -> tuple[Kernel, ...]:
    if layer.note.startswith("view") or not layer.output_bytes:
        return ()
    if layer.kind in (LayerKind.MATMUL, LayerKind.CONV, LayerKind.RECURRENT):
        _require_float32(layer)
    if layer.kind is LayerKind.MATMUL:
        return (_product(layer),)
    if layer.kind is LayerKind.CONV:
        return (_convolution(layer),)
    if layer.kind is LayerKind.RECURRENT:
        return _recurrent(layer)
    if layer.output_dtype in _FLOATS:
        _require_float32(layer)
    return (_vector(layer),)


def _require_float32(layer: Layer) -> None:
    for what, found in (("weights", layer.weight_dtype), ("output", layer.output_dtype)):
        if found != "float32":
            raise HeadwayError(
                f"{layer.name} ({layer.op}): {what} of {found}; accepted: a float32 model, as GPU "
                f"latencies were measured in float32 alone"
            )


def _product(layer: Layer) -> Kernel:
    dims = layer.dims
    if layer.weight_is_activation or layer.weight_bytes > 2 * FLOAT_BYTES * dims.k * dims.n:
        return bmm(dims.B * dims.groups, dims.m, dims.n, dims.k, layer.name)
    return linear(dims.B * dims.m, dims.n, dims.k, layer.name)


def _convolution(layer: Layer) -> Kernel:
    dims = layer.dims
    rows = dims.B * dims.m
    if dims.groups > 1 and dims.k <= dims.FY * dims.FX:  # depthwise: memory is what it waits for
        tensors = (layer.input_bytes + layer.output_bytes) / layer.output_bytes
        width = layer.output_bytes / FLOAT_BYTES / rows
        return elementwise(rows, width, tensors, layer.name, "no rows of depthwise convolution")
    if dims.groups > 1:
        return bmm(
            dims.groups, rows, dims.n, dims.k, layer.name, "no rows of grouped convolution: a matrix product"
        )
    strides = (dims.stride_y, dims.stride_x)
    if (dims.FY, dims.FX, *strides, dims.dilation_y, dims.dilation_x) == (3, 3, 1, 1, 1, 1):
        sides = (sqrt(dims.OY * dims.OX), sqrt(dims.IY * dims.IX), 3.0)
        square = dims.OY == dims.OX
        why = "" if square else "only square images were measured"
        return Kernel(KernelClass.CONV, (dims.B, dims.C, dims.K, *sides), layer.name, extrapolated=why)
    return linear(
        rows, dims.n, dims.k, layer.name, "only 3x3 convolution of stride 1 was measured: a matrix product"
    )


def _recurrent(layer: Layer) -> tuple[Kernel, ...]:
    steps = max(1, layer.output_rows)
    per_step = max(1.0, layer.macs / steps)
    width = max(1.0, layer.weight_bytes / FLOAT_BYTES / max(1.0, layer.dims.k))
    why = "no rows of recurrent layers: matrix products in sequence"
    rows = max(1.0, per_step / (width * max(1, layer.dims.k)))
    product = linear(rows, width, max(1, layer.dims.k), layer.name, why)
    return (Kernel(product.kernel_class, product.dims, layer.name, steps, why),)


def _vector(layer: Layer) -> Kernel:
    elements = max(1.0, layer.output_bytes / FLOAT_BYTES)
    rows = max(1, layer.output_rows)
    width = max(1.0, elements / rows)
    if layer.op in ("Softmax", "LogSoftmax"):
        return softmax(rows, width, layer.name)
    if layer.op == "LayerNormalization":
        return layer_norm(rows, width, layer.name)
    if layer.kind is LayerKind.NORM:
        return layer_norm(rows, width, layer.name, f"no rows of {layer.op}")
    tensors = (layer.input_bytes + layer.output_bytes) / layer.output_bytes
    if layer.kind is LayerKind.ELEMENTWISE:
        return elementwise(rows, width, min(max(round(tensors), 2), 3), layer.name)
    # Reductions, pooling and moves pass once over what they read and write; a look-up reads what it writes.
    if layer.note.startswith("look-up"):
        tensors = 2.0
    return elementwise(rows, width, max(tensors, 1.0), layer.name, f"no rows of {layer.op}")
