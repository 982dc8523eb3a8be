"""Rows, the axis of fusion: where a band needs a band, and where it needs everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from headway.models import Layer, load_model, merge


def last_layer(
    models: Any, nodes: list[Any], shape: list[int], weights: dict[str, Any] | None = None
) -> Layer:
    return load_model(models(nodes, {"x": shape}, {"y": None}, weights)).layers[-1]


def test_convolution_has_a_window_over_rows_of_the_map(models: Any) -> None:
    node = models.node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2], dilations=[2, 1])
    layer = last_layer(models, [node], [1, 3, 16, 16], {"w": models.zeros(4, 3, 3, 3)})
    assert (layer.row_kernel, layer.row_stride, layer.row_pad, layer.output_rows) == (5, 2.0, 1, 7)
    assert [(operand.rows, operand.row_wise) for operand in layer.operands] == [(16, True)]


def test_rows_of_a_batch_follow_each_other(models: Any) -> None:
    node = models.node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    layer = last_layer(models, [node], [3, 4, 8, 8])
    assert (layer.operands[0].rows, layer.output_rows) == (24, 12)


def test_transposed_convolution_and_resize_take_fractions_of_a_row(models: Any) -> None:
    node = models.node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    layer = last_layer(models, [node], [1, 3, 4, 4], {"w": models.zeros(3, 2, 4, 4)})
    assert (layer.row_kernel, layer.row_stride) == (2, 0.5)
    node = models.node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    layer = last_layer(models, [node], [1, 3, 4, 4], {"scales": np.array([1, 1, 2, 2], dtype=np.float32)})
    assert (layer.row_stride, layer.output_rows, layer.operands[0].row_wise) == (0.5, 8, True)


def test_product_has_rows_of_all_leading_axes(models: Any) -> None:
    layer = last_layer(
        models, [models.node("MatMul", ["x", "w"], ["y"])], [2, 3, 4], {"w": models.zeros(4, 5)}
    )
    assert (layer.output_rows, layer.operands[0].rows, layer.operands[0].row_wise) == (6, 6, True)


def test_second_activation_of_a_product_is_a_barrier(models: Any) -> None:
    graph = load_model(
        models([models.node("MatMul", ["a", "b"], ["y"])], {"a": [2, 3, 4], "b": [2, 4, 5]}, {"y": None})
    )
    assert [operand.row_wise for operand in graph.layers[0].operands] == [True, False]


@pytest.mark.parametrize(("axis", "row_wise"), [(3, True), (1, True), (2, False)])
def test_softmax_is_a_barrier_only_along_rows(models: Any, axis: int, row_wise: bool) -> None:
    nodes = [models.node("Conv", ["x", "w"], ["a"]), models.node("Softmax", ["a"], ["y"], axis=axis)]
    layer = last_layer(models, nodes, [1, 3, 8, 8], {"w": models.zeros(3, 3, 1, 1)})
    assert layer.operands[0].row_wise is row_wise


def test_scores_softmax_and_context_share_rows(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "x2"], ["s"]),
        models.node("Softmax", ["s"], ["p"]),
        models.node("MatMul", ["p", "x"], ["y"]),
    ]
    graph = load_model(models(nodes, {"x": [1, 4, 6, 8], "x2": [1, 4, 8, 6]}, {"y": None}))
    assert [layer.output_rows for layer in graph.layers] == [24, 24, 24]
    assert graph.layers[1].operands[0].row_wise
    assert [operand.row_wise for operand in graph.layers[2].operands] == [True, False]


@pytest.mark.parametrize(
    ("op", "attributes"), [("GlobalAveragePool", {}), ("InstanceNormalization", {}), ("Flatten", {})]
)
def test_whatever_mixes_rows_is_a_barrier(models: Any, op: str, attributes: dict[str, Any]) -> None:
    reads = ["a", "g", "g"] if op == "InstanceNormalization" else ["a"]
    nodes = [models.node("Conv", ["x", "w"], ["a"]), models.node(op, reads, ["y"], **attributes)]
    weights = {"w": models.zeros(3, 3, 1, 1), "g": models.zeros(3)}
    if op != "InstanceNormalization":
        del weights["g"]
    assert not last_layer(models, nodes, [1, 3, 8, 8], weights).operands[0].row_wise


@pytest.mark.parametrize(
    ("perm", "row_wise"),
    [([0, 2, 3, 1], True), ([0, 1, 2, 3], True), ([0, 3, 2, 1], True), ([2, 0, 1, 3], False)],
)
def test_transposition_keeps_rows_that_stay_in_order(models: Any, perm: list[int], row_wise: bool) -> None:
    nodes = [
        models.node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
        models.node("Transpose", ["a"], ["y"], perm=perm),
    ]
    assert last_layer(models, nodes, [2, 3, 8, 8]).operands[0].row_wise is row_wise


@pytest.mark.parametrize(
    ("shape", "row_wise"), [([2, 3, 2, 2], True), ([6, 4], True), ([2, 12], False), ([3, 2, 4], True)]
)
def test_view_keeps_rows_that_stay_whole(models: Any, shape: list[int], row_wise: bool) -> None:
    nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("Reshape", ["a", "shape"], ["y"])]
    weights = {"w": models.zeros(4, 4), "shape": np.array(shape)}
    assert last_layer(models, nodes, [2, 3, 4], weights).operands[0].row_wise is row_wise


def test_barrier_of_a_folded_view_moves_to_its_readers(models: Any) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"]),
        models.node("Flatten", ["a"], ["f"]),
        models.node("MatMul", ["f", "m"], ["y"]),
    ]
    weights = {"w": models.zeros(3, 3, 1, 1), "m": models.zeros(192, 5)}
    merged = merge(load_model(models(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, weights)))
    convolution, product = merged.layers
    assert convolution.output_rows == 8
    assert not product.operands[0].row_wise


@pytest.mark.parametrize(("axis", "row_wise"), [(1, True), (2, False)])
def test_concatenation_is_a_barrier_only_along_rows(models: Any, axis: int, row_wise: bool) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"]),
        models.node("Relu", ["a"], ["b"]),
        models.node("Concat", ["a", "b"], ["y"], axis=axis),
    ]
    layer = last_layer(models, nodes, [1, 3, 8, 8], {"w": models.zeros(3, 3, 1, 1)})
    assert [operand.row_wise for operand in layer.operands] == [row_wise, row_wise]


def test_what_is_applied_to_a_result_goes_with_its_rows(models: Any) -> None:
    fused = models.node("FusedConv", ["x", "w", "", "z"], ["c"], domain="com.microsoft", pads=[1, 1, 1, 1])
    product = models.node("Gemm", ["a", "m", "b"], ["g"])
    inputs = {"x": [1, 4, 8, 8], "z": [1, 4, 8, 8], "a": [6, 4], "b": [6, 4]}
    weights = {"w": models.zeros(4, 4, 3, 3), "m": models.zeros(4, 4)}
    graph = load_model(
        models([fused, product], inputs, {"c": None, "g": None}, weights, domains=["com.microsoft"])
    )
    assert [[(o.tensor, o.at_output) for o in layer.operands] for layer in graph.layers] == [
        [("x", False), ("z", True)],
        [("a", False), ("b", True)],
    ]


def test_channels_last_changes_neither_counts_nor_rows(models: Any) -> None:
    # As ONNX Runtime's optimiser leaves quantised networks: maps [N, H, W, C], weights as they were.
    scales = {"s": np.float32(0.1), "z": np.uint8(0)}
    attributes = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    read = ["x", "s", "z", "w", "s", "z", "s", "z"]
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    types = dict.fromkeys(("x", "y", "g"), onnx.TensorProto.UINT8)
    weights = {**scales, "w": models.zeros(8, 3, 3, 3, dtype=np.uint8)}
    layers = []
    for last in (0, 1):
        common = {"domain": "com.microsoft", "channels_last": last}
        if last:
            max_pool = models.node("MaxPool", ["c"], ["p"], domain="com.ms.internal.nhwc", **pool)
        else:
            max_pool = models.node("MaxPool", ["c"], ["p"], **pool)
        nodes = [
            models.node("QLinearConv", read, ["c"], **common, **attributes),
            max_pool,
            models.node("QLinearAveragePool", ["p", "s", "z", "s", "z"], ["y"], **common, **pool),
            models.node("QLinearGlobalAveragePool", ["y", "s", "z", "s", "z"], ["g"], **common),
        ]
        shape = [1, 30, 34, 3] if last else [1, 3, 30, 34]
        domains = ["com.microsoft", "com.ms.internal.nhwc"]
        graph = load_model(
            models(nodes, {"x": shape}, {"g": None}, weights, domains=domains, types=types, opset=18)
        )
        assert graph.outputs["g"] == ((1, 1, 1, 8) if last else (1, 8, 1, 1))
        assert graph.warnings == ()
        layers.append(graph.layers)
    for first, second in zip(*layers, strict=True):
        assert (first.dims, first.macs, first.vector_ops) == (second.dims, second.macs, second.vector_ops)
        assert (first.output_rows, first.row_kernel, first.row_stride) == (
            second.output_rows,
            second.row_kernel,
            second.row_stride,
        )
        assert [(o.rows, o.row_wise) for o in first.operands] == [
            (o.rows, o.row_wise) for o in second.operands
        ]
    assert layers[0][0].macs == 15 * 17 * 8 * 27
    assert [layer.output_rows for layer in layers[1]] == [15, 7, 3, 1]


def test_quantised_softmax_goes_row_by_row(models: Any) -> None:
    nodes = [
        models.node("QLinearSoftmax", ["x", "s", "z", "s", "z"], ["y"], domain="com.microsoft", opset=13)
    ]
    scales = {"s": np.float32(0.1), "z": np.uint8(0)}
    types = dict.fromkeys(("x", "y"), onnx.TensorProto.UINT8)
    model = models(nodes, {"x": [4, 6]}, {"y": None}, scales, domains=["com.microsoft"], types=types)
    graph = load_model(model)
    assert not graph.unknown_ops
    assert (graph.layers[0].vector_ops, graph.layers[0].params) == (8 * 24, 0)
    assert (graph.layers[0].output_rows, graph.layers[0].operands[0].row_wise) == (4, True)
