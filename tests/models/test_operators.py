"""Counts and bytes of single operators, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from headway.models import Layer, LayerKind, load_model

Single = Callable[..., onnx.ModelProto]
MICROSOFT = "com.microsoft"


def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype=dtype)


def only_layer(model: onnx.ModelProto) -> Layer:
    graph = load_model(model)
    assert len(graph.layers) == 1
    assert graph.unknown_ops == {}
    return graph.layers[0]


PRODUCTS = {
    # 8 output channels, 6x6 outputs, 3 input channels, 3x3 filter
    "conv": ("Conv", {"x": [1, 3, 6, 6]}, {"w": zeros(8, 3, 3, 3)}, {"pads": [1, 1, 1, 1]}, 8 * 36 * 27),
    "conv strided": (
        "Conv",
        {"x": [2, 3, 7, 7]},
        {"w": zeros(8, 3, 3, 3)},
        {"strides": [2, 2]},
        2 * 8 * 9 * 27,
    ),
    "conv dilated": (
        "Conv",
        {"x": [1, 3, 8, 8]},
        {"w": zeros(4, 3, 3, 3)},
        {"dilations": [2, 2]},
        4 * 16 * 27,
    ),
    "conv same": (
        "Conv",
        {"x": [1, 3, 7, 7]},
        {"w": zeros(4, 3, 3, 3)},
        {"auto_pad": "SAME_UPPER"},
        4 * 49 * 27,
    ),
    "conv grouped": ("Conv", {"x": [1, 4, 5, 5]}, {"w": zeros(6, 2, 1, 1)}, {"group": 2}, 6 * 25 * 2),
    "conv depthwise": ("Conv", {"x": [1, 4, 5, 5]}, {"w": zeros(4, 1, 3, 3)}, {"group": 4}, 4 * 9 * 9),
    "conv 1-D": ("Conv", {"x": [1, 4, 10]}, {"w": zeros(6, 4, 3)}, {}, 6 * 8 * 12),
    "conv 3-D": ("Conv", {"x": [1, 2, 4, 5, 6]}, {"w": zeros(3, 2, 2, 2, 2)}, {}, 3 * 3 * 4 * 5 * 16),
    # every input pixel meets every filter element
    "conv transposed": (
        "ConvTranspose",
        {"x": [1, 4, 5, 5]},
        {"w": zeros(4, 3, 2, 2)},
        {"strides": [2, 2]},
        4 * 25 * 3 * 4,
    ),
    "gemm": ("Gemm", {"x": [5, 7]}, {"w": zeros(9, 7), "b": zeros(9)}, {"transB": 1}, 5 * 7 * 9),
    "matmul weight": ("MatMul", {"x": [2, 3, 7]}, {"w": zeros(7, 9)}, {}, 6 * 7 * 9),
    "matmul vector": ("MatMul", {"x": [2, 3, 7]}, {"w": zeros(7)}, {}, 6 * 7),
    "matmul of activations": ("MatMul", {"a": [2, 3, 4, 5], "b": [2, 3, 5, 6]}, {}, {}, 6 * 4 * 5 * 6),
    "matmul broadcast": ("MatMul", {"a": [2, 3, 4, 5], "b": [5, 6]}, {}, {}, 6 * 4 * 5 * 6),
    "einsum": (
        "Einsum",
        {"a": [2, 3, 4, 5], "b": [2, 3, 6, 5]},
        {},
        {"equation": "bhid,bhjd->bhij"},
        6 * 4 * 6 * 5,
    ),
    "einsum ellipsis": (
        "Einsum",
        {"a": [2, 3, 5]},
        {"w": zeros(5, 6)},
        {"equation": "...d, de -> ...e"},
        6 * 5 * 6,
    ),
    "lstm": (
        "LSTM",
        {"x": [7, 2, 3]},
        {"w": zeros(1, 20, 3), "r": zeros(1, 20, 5)},
        {"hidden_size": 5},
        14 * 20 * 8,
    ),
    "gru": (
        "GRU",
        {"x": [7, 2, 3]},
        {"w": zeros(1, 15, 3), "r": zeros(1, 15, 5)},
        {"hidden_size": 5},
        14 * 15 * 8,
    ),
    "rnn": (
        "RNN",
        {"x": [7, 2, 3]},
        {"w": zeros(1, 5, 3), "r": zeros(1, 5, 5)},
        {"hidden_size": 5},
        14 * 5 * 8,
    ),
}


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_product_counts_macs_and_parameters(case: str, single: Single) -> None:
    op, inputs, weights, attributes, macs = PRODUCTS[case]
    layer = only_layer(single(op, inputs, weights, **attributes))
    assert layer.macs == macs
    assert layer.dims.macs == macs
    assert layer.params == sum(weight.size for weight in weights.values())
    assert layer.weight_bytes == 4 * layer.params
    assert layer.weight_is_activation == (not weights)


FUSED = {
    "FusedConv": (
        {"x": [1, 3, 6, 6]},
        {"w": zeros(8, 3, 3, 3), "b": zeros(8)},
        {"activation": "Relu"},
        8 * 16 * 27,
    ),
    "FusedMatMul": ({"a": [2, 4, 5], "b": [2, 6, 5]}, {}, {"transB": 1}, 2 * 4 * 5 * 6),
    "FusedGemm": ({"x": [5, 7]}, {"w": zeros(7, 9), "b": zeros(9)}, {"activation": "Relu"}, 5 * 7 * 9),
    "MatMulNBits": (
        {"x": [1, 6, 16]},
        {"q": zeros(32, 1, 8, dtype=np.uint8), "s": zeros(32)},
        {"K": 16, "N": 32, "bits": 4, "block_size": 16},
        6 * 16 * 32,
    ),
    # projection to q, k and v; scores and context over 6 positions and 16 channels
    "Attention": (
        {"x": [1, 6, 16]},
        {"w": zeros(16, 48), "b": zeros(48)},
        {"num_heads": 2},
        6 * 16 * 48 + 36 * 32,
    ),
    "MultiHeadAttention": (
        {"q": [1, 6, 16], "k": [1, 9, 16], "v": [1, 9, 16]},
        {},
        {"num_heads": 2},
        6 * 9 * 32,
    ),
    "Gelu": ({"x": [2, 3]}, {}, {}, 0),
    "BiasGelu": ({"x": [2, 3]}, {"b": zeros(3)}, {}, 0),
    "SkipLayerNormalization": ({"x": [1, 2, 3], "r": [1, 2, 3]}, {"g": zeros(3), "b": zeros(3)}, {}, 0),
}


@pytest.mark.parametrize("op", FUSED)
def test_contributed_operator_is_known_without_a_run(op: str, single: Single) -> None:
    inputs, weights, attributes, macs = FUSED[op]
    layer = only_layer(single(op, inputs, weights, domain=MICROSOFT, **attributes))
    assert layer.macs == macs
    assert layer.vector_ops > 0 or macs > 0
    assert layer.output_bytes > 0
    assert not layer.bounded


def test_attention_of_opset_23_counts_scores_and_context(single: Single) -> None:
    inputs = {"q": [2, 4, 6, 8], "k": [2, 4, 9, 8], "v": [2, 4, 9, 5]}
    layer = only_layer(single("Attention", inputs, opset=23))
    assert layer.macs == 8 * 6 * 9 * (8 + 5)
    assert layer.weight_is_activation
    assert layer.output_bytes == 4 * 2 * 4 * 6 * 5


def test_quantised_convolution_reads_and_makes_bytes(single: Single) -> None:
    scale, zero = np.float32(0.1), np.uint8(0)
    weights = {"s": scale, "z": zero, "w": zeros(4, 3, 3, 3, dtype=np.int8), "wz": np.int8(0)}
    order = ["x", "s", "z", "w", "s", "wz", "s", "z"]
    model = single("QLinearConv", {"x": [1, 3, 6, 6]}, weights, order=order, types={"x": TensorProto.UINT8})
    layer = only_layer(model)
    assert layer.macs == 4 * 16 * 27
    assert (layer.params, layer.weight_bytes, layer.weight_dtype) == (108, 108, "int8")
    assert (layer.input_bytes, layer.output_bytes, layer.output_dtype) == (108, 64, "uint8")


def test_integer_product_makes_int32(single: Single) -> None:
    weights = {"w": zeros(7, 9, dtype=np.int8)}
    layer = only_layer(single("MatMulInteger", {"x": [5, 7]}, weights, types={"x": TensorProto.UINT8}))
    assert (layer.macs, layer.weight_bytes, layer.output_bytes) == (315, 63, 4 * 45)


@pytest.mark.parametrize(
    ("dtype", "weight_bytes"),
    [
        (TensorProto.FLOAT, 4 * 64),
        (TensorProto.FLOAT16, 2 * 64),
        (TensorProto.BFLOAT16, 2 * 64),
        (TensorProto.DOUBLE, 8 * 64),
    ],
)
def test_bytes_follow_the_element_type(dtype: int, weight_bytes: int, single: Single) -> None:
    weight = helper.make_tensor("w", dtype, [8, 8], [0.0] * 64)
    layer = only_layer(single("MatMul", {"x": [2, 8]}, {"w": weight}, types={"x": dtype, "y0": dtype}))
    assert layer.weight_bytes == weight_bytes
    assert layer.output_bytes == weight_bytes // 4


MAPS = {
    "Relu": ({"x": [2, 3, 4]}, {}, {}, LayerKind.ELEMENTWISE, 24),
    "Add": ({"a": [2, 3, 4], "b": [4]}, {}, {}, LayerKind.ELEMENTWISE, 24),
    "Sigmoid": ({"x": [2, 3, 4]}, {}, {}, LayerKind.ELEMENTWISE, 4 * 24),
    "Softmax": ({"x": [2, 3, 4]}, {}, {}, LayerKind.NORM, 5 * 24),
    "LayerNormalization": ({"x": [2, 3, 4]}, {"g": zeros(4)}, {}, LayerKind.NORM, 8 * 24),
    "InstanceNormalization": (
        {"x": [1, 3, 4, 4]},
        {"g": zeros(3), "b": zeros(3)},
        {},
        LayerKind.NORM,
        8 * 48,
    ),
    "BatchNormalization": (
        {"x": [1, 3, 4, 4]},
        {"g": zeros(3), "b": zeros(3), "m": zeros(3), "v": zeros(3)},
        {},
        LayerKind.ELEMENTWISE,
        2 * 48,
    ),
    "MaxPool": ({"x": [1, 3, 4, 4]}, {}, {"kernel_shape": [2, 2], "strides": [2, 2]}, LayerKind.POOL, 12 * 4),
    "GlobalAveragePool": ({"x": [1, 3, 4, 4]}, {}, {}, LayerKind.REDUCE, 48),
    "ReduceMean": ({"x": [1, 3, 4, 4]}, {}, {"axes": [2, 3]}, LayerKind.REDUCE, 48),
    "Transpose": ({"x": [2, 3, 4]}, {}, {"perm": [0, 2, 1]}, LayerKind.MOVE, 24),
    "DepthToSpace": ({"x": [1, 8, 4, 4]}, {}, {"blocksize": 2}, LayerKind.MOVE, 128),
    "GridSample": ({"x": [1, 3, 4, 4], "g": [1, 2, 2, 2]}, {}, {}, LayerKind.MOVE, 8 * 12),
}


@pytest.mark.parametrize("op", MAPS)
def test_map_counts_operations_and_no_macs(op: str, single: Single) -> None:
    inputs, weights, attributes, kind, operations = MAPS[op]
    layer = only_layer(single(op, inputs, weights, **attributes))
    assert (layer.kind, layer.macs, layer.vector_ops) == (kind, 0, operations)
    assert layer.params == sum(weight.size for weight in weights.values())


@pytest.mark.parametrize("perm", [[0, 2, 1, 3], [0, 1, 3, 2]])
def test_transpose_of_axes_of_size_one_is_a_view(perm: list[int], single: Single) -> None:
    layer = only_layer(single("Transpose", {"x": [1, 5, 1, 1]}, perm=perm))
    assert layer.vector_ops == 0
    assert "view" in layer.note


def test_embedding_reads_the_rows_asked_for_but_owns_the_table(single: Single) -> None:
    model = single(
        "Gather",
        {"ids": [1, 6]},
        {"table": zeros(100, 8)},
        order=["table", "ids"],
        types={"ids": TensorProto.INT64},
    )
    layer = only_layer(model)
    assert layer.params == 800
    assert layer.weight_bytes == layer.output_bytes == 4 * 6 * 8


def test_settings_are_no_parameters(models: Any) -> None:
    nodes = [
        models.node("Reshape", ["x", "shape"], ["a"]),
        models.node("Slice", ["a", "start", "end"], ["b"]),
        models.node("Clip", ["b", "low", "high"], ["y"]),
    ]
    weights = {
        "shape": np.array([6, 2]),
        "start": np.array([0, 0]),
        "end": np.array([3, 2]),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    graph = load_model(models(nodes, {"x": [3, 4]}, {"y": None}, weights))
    assert graph.params == 0
    assert graph.outputs["y"] == (3, 2)


def test_operator_without_formula_is_bounded_named_and_counted(models: Any) -> None:
    nodes = [
        models.node("Normalizer", ["x"], ["a"], domain="ai.onnx.ml", name="first"),
        models.node("Normalizer", ["a"], ["y"], domain="ai.onnx.ml", name="second"),
    ]
    graph = load_model(models(nodes, {"x": [2, 4]}, {"y": [2, 4]}, domains=["ai.onnx.ml"]))
    assert graph.unknown_ops == {"ai.onnx.ml:Normalizer": 2}
    assert [name.split("'")[1] for name in graph.unknown_nodes["ai.onnx.ml:Normalizer"]] == [
        "first",
        "second",
    ]
    for layer in graph.layers:
        assert layer.bounded
        assert (layer.vector_ops, layer.output_bytes) == (8, 32)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_convolutions_match_the_closed_form(data: st.DataObject, single: Single) -> None:
    draw = data.draw
    batch, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3]))
    c, k = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    fy, fx = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    height, width = draw(st.integers(6, 12)), draw(st.integers(6, 12))
    model = single(
        "Conv",
        {"x": [batch, c, height, width]},
        {"w": zeros(k, c // groups, fy, fx)},
        group=groups,
        strides=[stride, stride],
        dilations=[dilation, dilation],
        pads=pads,
    )
    layer = only_layer(model)
    oy = (height + pads[0] + pads[2] - dilation * (fy - 1) - 1) // stride + 1
    ox = (width + pads[1] + pads[3] - dilation * (fx - 1) - 1) // stride + 1
    assert layer.macs == batch * k * oy * ox * (c // groups) * fy * fx
    assert layer.output_bytes == 4 * batch * k * oy * ox
    assert (layer.output_rows, layer.row_stride, layer.row_pad) == (batch * oy, stride, pads[0])
    assert layer.row_kernel == dilation * (fy - 1) + 1


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.lists(st.integers(1, 3), max_size=2),
    m=st.integers(1, 5),
    k=st.integers(1, 5),
    n=st.integers(1, 5),
    shared=st.booleans(),
)
def test_random_products_match_the_closed_form(
    batch: list[int], m: int, k: int, n: int, shared: bool, single: Single
) -> None:
    b = [k, n] if shared else [*batch, k, n]
    layer = only_layer(single("MatMul", {"a": [*batch, m, k], "b": b}))
    assert layer.macs == int(np.prod(batch)) * m * k * n
    assert layer.dims.macs == layer.macs


def test_packed_four_bit_weight_takes_half_bytes(models: Any) -> None:
    weight = helper.make_tensor("q", TensorProto.INT4, [8, 8], [1] * 64)
    nodes = [models.node("DequantizeLinear", ["q", "s"], ["w"]), models.node("MatMul", ["x", "w"], ["y"])]
    model = models(
        nodes, {"x": [2, 8]}, {"y": None}, {"q": weight, "s": np.float32(1)}, opset=21, ir_version=10
    )
    (layer,) = load_model(model).layers
    assert (layer.params, layer.weight_bytes, layer.weight_dtype) == (64, 32, "int4")


def test_values_of_constant_nodes_count_as_weights_unless_single(models: Any) -> None:
    nodes = [
        models.node("Constant", [], ["w"], value=numpy_helper.from_array(zeros(4, 4), "w")),
        models.node("Constant", [], ["half"], value_float=0.5),
        models.node("MatMul", ["x", "w"], ["a"]),
        models.node("Mul", ["a", "half"], ["y"]),
    ]
    assert load_model(models(nodes, {"x": [1, 4]}, {"y": None})).params == 16


@pytest.mark.parametrize(
    ("op", "order", "shape"),
    [
        ("QLinearGlobalAveragePool", ["x", "s", "z", "s", "z"], [1, 3, 1, 1]),
        ("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"], [1, 3, 4, 4]),
        ("QLinearLeakyRelu", ["x", "s", "z", "s", "z"], [1, 3, 4, 4]),
    ],
)
def test_contributed_operators_on_bytes_need_no_run(
    op: str, order: list[str], shape: list[int], single: Single
) -> None:
    weights = {"s": np.float32(0.1), "z": np.int8(0)}
    model = single(
        op, {"x": [1, 3, 4, 4]}, weights, order=order, domain=MICROSOFT, types={"x": TensorProto.INT8}
    )
    graph = load_model(model)
    assert graph.warnings == ()
    assert graph.outputs["y0"] == tuple(shape)
    assert (graph.layers[0].output_bytes, graph.layers[0].output_dtype) == (int(np.prod(shape)), "int8")
