"""Merging followers into layers: what folds, what stays, and that nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from headway.models import Graph, LayerKind, load_model, merge, zoo


def conserved(graph: Graph) -> tuple[int, ...]:
    return (
        graph.macs,
        sum(layer.vector_ops for layer in graph.layers),
        sum(layer.params for layer in graph.layers),
        sum(layer.weight_bytes for layer in graph.layers),
    )


def check(graph: Graph) -> Graph:
    """The merged graph, after the checks that hold for every graph."""
    merged = merge(graph)
    assert conserved(merged) == conserved(graph)
    names = [name for layer in merged.layers for name in (layer.name, *layer.folded)]
    assert sorted(names) == sorted(layer.name for layer in graph.layers)
    for place, layer in enumerate(merged.layers):
        assert layer.index == place
        assert all(operand.producer is None or operand.producer < place for operand in layer.operands)
    read = {operand.producer for layer in merged.layers for operand in layer.operands}
    assert all(layer.is_output or layer.index in read for layer in merged.layers)
    assert merge(merged) is merged
    return merged


def ops(graph: Graph) -> list[str]:
    return [layer.op for layer in graph.layers]


@pytest.mark.parametrize(
    ("name", "layers", "kinds"),
    [
        ("resnet50", 56, {"conv": 53, "pool": 1, "reduce": 1, "matmul": 1}),
        ("resnet18", 23, {"conv": 20, "pool": 1, "reduce": 1, "matmul": 1}),
        ("vgg16", 22, {"conv": 13, "pool": 6, "matmul": 3}),
        ("squeezenet", 30, {"conv": 26, "pool": 3, "reduce": 1}),
    ],
)
def test_convolutional_networks_merge_to_convolutions_and_pools(
    name: str, layers: int, kinds: dict[str, int]
) -> None:
    merged = check(load_model(zoo.build(name, weights=False)))
    assert len(merged.layers) == layers
    assert Counter(layer.kind.value for layer in merged.layers) == kinds


def test_transformer_keeps_products_norms_and_softmax() -> None:
    merged = check(load_model(zoo.build("bert_base", weights=False)))
    kinds = Counter(layer.kind for layer in merged.layers)
    # 12 blocks of query, key, value, scores, context, output and two feed-forward products, and the pooler
    assert kinds[LayerKind.MATMUL] == 12 * 8 + 1
    assert kinds[LayerKind.NORM] == 12 * 3 + 1
    assert len(merged.layers) < 150


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_of_the_zoo_keeps_its_totals(name: str) -> None:
    check(load_model(zoo.build(name, weights=False)))


def test_residual_sum_folds_and_its_other_summand_becomes_an_operand(models: Any) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        models.node("Relu", ["a"], ["b"]),
        models.node("Conv", ["b", "w"], ["c"], pads=[1] * 4),
        models.node("Add", ["c", "b"], ["d"]),
        models.node("Relu", ["d"], ["y"]),
    ]
    merged = check(
        load_model(models(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, {"w": models.zeros(3, 3, 3, 3)}))
    )
    assert ops(merged) == ["Conv", "Conv"]
    (operand,) = merged.layers[1].operands  # read once, although by the convolution and by the sum
    assert operand.producer == 0
    assert merged.layers[1].folded == ("Add_3", "Relu_4")


def test_summand_of_a_projection_is_marked_as_read_at_the_output(models: Any) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"], pads=[1] * 4, strides=[2, 2]),
        models.node("Conv", ["x", "w"], ["b"], pads=[1] * 4, strides=[2, 2]),
        models.node("Add", ["a", "b"], ["y"]),
    ]
    merged = check(
        load_model(models(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, {"w": models.zeros(3, 3, 3, 3)}))
    )
    assert [(operand.producer, operand.at_output) for operand in merged.layers[1].operands] == [
        (None, False),
        (0, True),
    ]


def test_gelu_folds_as_a_whole(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "w"], ["m"]),
        models.node("Div", ["m", "root"], ["d"]),
        models.node("Erf", ["d"], ["e"]),
        models.node("Add", ["e", "one"], ["p"]),
        models.node("Mul", ["m", "p"], ["q"]),
        models.node("Mul", ["q", "half"], ["r"]),
        models.node("MatMul", ["r", "w"], ["y"]),
    ]
    weights = {
        "w": models.zeros(8, 8),
        "root": np.float32(1.4),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    merged = check(load_model(models(nodes, {"x": [4, 8]}, {"y": None}, weights)))
    assert ops(merged) == ["MatMul", "MatMul"]
    assert len(merged.layers[0].folded) == 5


def test_tensor_that_leaves_the_network_is_not_hidden(models: Any) -> None:
    nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("Relu", ["a"], ["y"])]
    merged = check(
        load_model(models(nodes, {"x": [1, 4]}, {"a": None, "y": None}, {"w": models.zeros(4, 4)}))
    )
    assert [(layer.op, layer.is_output) for layer in merged.layers] == [("MatMul", True), ("Relu", True)]


def test_tensor_with_a_second_reader_is_not_hidden(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "w"], ["a"]),
        models.node("Relu", ["a"], ["b"]),
        models.node("MatMul", ["a", "w"], ["c"]),
        models.node("MatMul", ["b", "c"], ["y"]),
    ]
    merged = check(load_model(models(nodes, {"x": [4, 4]}, {"y": None}, {"w": models.zeros(4, 4)})))
    assert ops(merged) == ["MatMul", "Relu", "MatMul", "MatMul"]


def test_readers_of_a_concatenation_read_its_parts(models: Any) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"]),
        models.node("Conv", ["x", "w"], ["b"]),
        models.node("Concat", ["a", "b"], ["c"], axis=1),
        models.node("Conv", ["c", "w2"], ["y"]),
    ]
    weights = {"w": models.zeros(3, 3, 1, 1), "w2": models.zeros(3, 6, 1, 1)}
    merged = check(load_model(models(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, weights)))
    assert ops(merged) == ["Conv", "Conv", "Conv"]
    assert [(operand.producer, operand.bytes) for operand in merged.layers[2].operands] == [
        (0, 768),
        (1, 768),
    ]
    assert all(operand.row_wise for operand in merged.layers[2].operands)


def test_readers_of_parts_read_no_more_than_their_part(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "w"], ["a"]),
        models.node("Split", ["a"], ["p", "q"], axis=1),
        models.node("MatMul", ["p", "w2"], ["b"]),
        models.node("MatMul", ["q", "w2"], ["y"]),
        models.node("Neg", ["b"], ["z"]),
    ]
    weights = {"w": models.zeros(4, 8), "w2": models.zeros(4, 4)}
    merged = check(load_model(models(nodes, {"x": [4, 4]}, {"y": None, "z": None}, weights, opset=11)))
    assert ops(merged) == ["MatMul", "MatMul", "MatMul"]
    assert [layer.input_bytes for layer in merged.layers] == [64, 64, 64]


def test_view_that_is_the_output_makes_its_producer_the_output(models: Any) -> None:
    nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("Flatten", ["a"], ["y"])]
    merged = check(load_model(models(nodes, {"x": [2, 3, 4]}, {"y": None}, {"w": models.zeros(4, 4)})))
    assert [(layer.op, layer.is_output, layer.folded) for layer in merged.layers] == [
        ("MatMul", True, ("Flatten_1",))
    ]


def test_model_of_views_alone_keeps_a_layer(models: Any) -> None:
    nodes = [models.node("Flatten", ["x"], ["a"]), models.node("Identity", ["a"], ["y"])]
    merged = check(load_model(models(nodes, {"x": [2, 3, 4]}, {"y": None})))
    assert len(merged.layers) == 1
    assert merged.layers[0].input_bytes == 96


def test_conversion_of_an_input_joins_its_reader(models: Any) -> None:
    nodes = [
        models.node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        models.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        models.node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "z": np.uint8(0), "w": models.zeros(4, 4)}
    merged = check(load_model(models(nodes, {"x": [2, 4]}, {"y": None}, weights)))
    assert ops(merged) == ["MatMul"]
    assert [(operand.tensor, operand.bytes) for operand in merged.layers[0].operands] == [("x", 32)]


def test_requantisation_narrows_what_leaves_the_layer(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "w"], ["a"]),
        models.node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        models.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        models.node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "z": np.uint8(0), "w": models.zeros(4, 4)}
    merged = check(load_model(models(nodes, {"x": [2, 4]}, {"y": None}, weights)))
    assert [(layer.output_bytes, layer.output_dtype) for layer in merged.layers] == [
        (8, "uint8"),
        (32, "float32"),
    ]
    assert merged.layers[1].input_bytes == 8


def test_gate_is_applied_by_a_layer_of_its_own(models: Any) -> None:
    nodes = [
        models.node("Conv", ["x", "w"], ["a"]),
        models.node("GlobalAveragePool", ["a"], ["p"]),
        models.node("Conv", ["p", "w"], ["g"]),
        models.node("Sigmoid", ["g"], ["s"]),
        models.node("Mul", ["a", "s"], ["y"]),
    ]
    merged = check(
        load_model(models(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, {"w": models.zeros(3, 3, 1, 1)}))
    )
    assert ops(merged) == ["Conv", "GlobalAveragePool", "Conv", "Mul"]
    assert [operand.row_wise for operand in merged.layers[3].operands] == [True, False]


ELEMENTWISE = ["Relu", "Neg", "Sigmoid", "Flatten", "Identity"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_graphs_keep_their_totals_and_order(data: st.DataObject, models: Any) -> None:
    draw = data.draw
    tensors, nodes = ["x"], []
    for number in range(draw(st.integers(1, 14))):
        name = f"t{number}"
        op = draw(st.sampled_from([*ELEMENTWISE, "Add", "Mul", "MatMul", "Softmax", "Transpose", "Cast"]))
        reads = [draw(st.sampled_from(tensors[-4:]))]
        if op in ("Add", "Mul"):
            reads.append(draw(st.sampled_from(tensors)))
        if op == "MatMul":
            reads.append("w")
        attributes = (
            {"perm": [1, 0]} if op == "Transpose" else {"to": TensorProto.FLOAT} if op == "Cast" else {}
        )
        nodes.append(models.node(op, reads, [name], **attributes))
        tensors.append(name)
    outputs = {
        tensors[-1]: None,
        **dict.fromkeys(draw(st.lists(st.sampled_from(tensors[1:]), max_size=2))),
    }
    graph = load_model(models(nodes, {"x": [4, 4]}, outputs, {"w": models.zeros(4, 4)}))
    check(graph)
