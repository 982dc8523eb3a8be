"""Structures that tools break on: each loads, is priced, and says what had to be assumed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headway.core.errors import HeadwayError
from headway.models import Graph, load_model

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def names_and_macs(graph: Graph) -> list[tuple[str, int]]:
    return [(layer.op, layer.macs) for layer in graph.layers]


def test_sizes_computed_inside_the_model_are_followed(models: Any) -> None:
    nodes = [
        models.node("Shape", ["x"], ["s"]),
        models.node("Gather", ["s", "i0"], ["n"]),
        models.node("Gather", ["s", "i1"], ["t"]),
        models.node("Mul", ["n", "t"], ["p"]),
        models.node("Unsqueeze", ["p", "axis"], ["pu"]),
        models.node("Concat", ["pu", "eight"], ["target"], axis=0),
        models.node("Reshape", ["x", "target"], ["f"]),
        models.node("MatMul", ["f", "w"], ["y"]),
    ]
    weights = {
        "i0": np.int64(0),
        "i1": np.int64(1),
        "axis": np.array([0]),
        "eight": np.array([8]),
        "w": models.zeros(8, 8),
    }
    model = models(nodes, {"x": ["N", "S", 8]}, {"y": ["M", 8]}, weights)
    graph = load_model(model, dims={"N": 3, "S": 5})
    assert graph.outputs["y"] == (15, 8)
    assert names_and_macs(graph) == [("Reshape", 0), ("MatMul", 15 * 64)]
    assert graph.params == 64
    assert any("6 nodes" in warning and "folded" in warning for warning in graph.warnings)


def test_stale_annotation_is_not_believed(models: Any) -> None:
    nodes = [models.node("Relu", ["x"], ["a"]), models.node("MatMul", ["a", "w"], ["y"])]
    model = models(nodes, {"x": [1, 4]}, {"y": [1, 4]}, {"w": models.zeros(4, 4)})
    model.graph.value_info.append(models.value("a", [7, 99]))
    assert [layer.output_bytes for layer in load_model(model).layers] == [16, 16]


def test_a_window_larger_than_its_input_is_refused_and_the_assumed_sizes_are_said(models: Any) -> None:
    # ONNX's inference gives 1 here (its division rounds towards zero), and a negative size for less input.
    nodes = [models.node("Conv", ["x", "w"], ["y"], strides=[128], pads=[32, 32])]
    model = models(nodes, {"x": ["batch", 1, "seq"]}, {"y": None}, {"w": models.zeros(8, 1, 256)})
    with pytest.raises(HeadwayError, match=r"window of 256 does not fit into the 192 .*seq=128.*--dim"):
        load_model(model)
    with pytest.raises(HeadwayError, match="window of 256 does not fit into the 65 "):
        load_model(model, dims={"seq": 1})
    assert load_model(model, dims={"seq": 192}).macs == 8 * 256


def test_a_pool_whose_last_window_may_reach_beyond_its_input_is_none_that_does_not_fit(models: Any) -> None:
    nodes = [models.node("MaxPool", ["x"], ["y"], kernel_shape=[5], strides=[2], ceil_mode=1)]
    assert load_model(models(nodes, {"x": [1, 3, 4]}, {"y": None})).outputs["y"] == (1, 3, 1)


@pytest.mark.parametrize(
    ("op", "data", "weights", "attributes", "message"),
    [
        ("Conv", [1, 3, 8, 8], [(4, 4, 3, 3)], {}, "3 channels, and its weight is for 4"),
        ("Conv", [1, 4, 8, 8], [(4, 2, 3, 3)], {"group": 3}, "4 channels, and its weight is for 6"),
        ("Conv", [1, 6, 8, 8], [(4, 2, 3, 3)], {"group": 3}, "4 output channels .* 3 groups"),
        ("ConvTranspose", [1, 3, 8, 8], [(4, 4, 3, 3)], {}, "3 channels, and its weight is for 4"),
        ("GRU", [5, 1, 8], [(1, 12, 7), (1, 12, 4)], {"hidden_size": 4}, "8 channels, .* for 7"),
    ],
)
def test_channels_that_do_not_fit_the_weight_are_refused(
    models: Any, op: str, data: Any, weights: Any, attributes: Any, message: str
) -> None:
    names = ["w", "r"][: len(weights)]
    nodes = [models.node(op, ["x", *names], ["y"], **attributes)]
    held = {name: models.zeros(*shape) for name, shape in zip(names, weights, strict=True)}
    with pytest.raises(HeadwayError, match=message):
        load_model(models(nodes, {"x": data}, {"y": None}, held))


def test_padding_that_removes_more_than_there_is_is_refused(models: Any) -> None:
    nodes = [models.node("Pad", ["x", "pads"], ["y"])]
    model = models(nodes, {"x": [1, 4]}, {"y": None}, {"pads": np.array([0, -3, 0, -3])})
    with pytest.raises(HeadwayError, match=r"shape \[1, -2\]"):
        load_model(model)


def test_size_that_depends_on_data_is_measured_and_said(models: Any) -> None:
    nodes = [models.node("Greater", ["x", "zero"], ["b"]), models.node("NonZero", ["b"], ["y"])]
    model = models(nodes, {"x": [1, 16]}, {"y": [2, "count"]}, {"zero": np.float32(0)}, types={"y": INT64})
    graph = load_model(model)
    assert graph.outputs["y"][0] == 2
    assert 0 < graph.outputs["y"][1] < 16
    assert any("depend on data: y" in warning for warning in graph.warnings)
    assert load_model(model).outputs == graph.outputs  # the run is seeded


def test_initialisers_listed_as_inputs_are_no_inputs(models: Any) -> None:
    nodes = [models.node("MatMul", ["x", "w"], ["y"])]
    model = models(nodes, {"x": [1, 4], "w": [4, 4]}, {"y": None}, {"w": models.zeros(4, 4)}, ir_version=3)
    graph = load_model(model)
    assert list(graph.inputs) == ["x"]
    assert graph.params == 16


def test_tied_weight_is_counted_once_and_read_twice(models: Any) -> None:
    nodes = [
        models.node("MatMul", ["x", "w"], ["a"]),
        models.node("Transpose", ["w"], ["wt"]),
        models.node("MatMul", ["a", "wt"], ["y"]),
    ]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, {"w": models.zeros(4, 6)}))
    assert (graph.params, graph.weight_bytes) == (24, 96)
    assert [(layer.params, layer.weight_bytes) for layer in graph.layers] == [(24, 96), (0, 96)]


def test_duplicate_node_names_are_refused_by_name_and_priced(models: Any) -> None:
    nodes = [models.node("Relu", ["x"], ["a"], name="n"), models.node("Neg", ["a"], ["y"], name="n")]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}))
    assert graph.runnable is False
    assert "'n'" in graph.refusal
    assert "#0 (Relu) and #1 (Neg)" in graph.refusal
    assert len({layer.name for layer in graph.layers}) == 2


def test_unsorted_nodes_are_sorted(models: Any) -> None:
    nodes = [
        models.node("Neg", ["b"], ["y"]),
        models.node("Relu", ["a"], ["b"]),
        models.node("MatMul", ["x", "w"], ["a"]),
    ]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, {"w": models.zeros(4, 4)}))
    assert [layer.name for layer in graph.layers] == ["MatMul_2", "Relu_1", "Neg_0"]
    assert [operand.producer for layer in graph.layers for operand in layer.operands] == [None, 0, 1]


def test_output_that_is_read_inside_is_marked(models: Any) -> None:
    nodes = [models.node("Relu", ["x"], ["a"]), models.node("Neg", ["a"], ["y"])]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"a": None, "y": None}))
    assert [layer.is_output for layer in graph.layers] == [True, True]
    assert graph.last_use == (2, 2)


def test_model_without_inputs_still_has_work(models: Any) -> None:
    nodes = [
        models.node("Constant", [], ["a"], value_floats=[1.0, -2.0, 3.0]),
        models.node("Relu", ["a"], ["b"]),
        models.node("Add", ["b", "w"], ["y"]),
    ]
    graph = load_model(models(nodes, {}, {"y": [3]}, {"w": models.zeros(3)}))
    assert [(layer.op, layer.vector_ops) for layer in graph.layers] == [("Relu", 3), ("Add", 3)]
    assert graph.inputs == {}


def test_optional_inputs_left_out_are_no_tensors(models: Any) -> None:
    nodes = [
        models.node("Clip", ["x", "", "high"], ["a"]),
        models.node("Resize", ["a", "", "", "sizes"], ["y"], mode="nearest"),
    ]
    weights = {"high": np.float32(6), "sizes": np.array([1, 1, 6, 6])}
    graph = load_model(models(nodes, {"x": [1, 1, 4, 4]}, {"y": None}, weights))
    assert graph.outputs["y"] == (1, 1, 6, 6)
    assert [operand.tensor for layer in graph.layers for operand in layer.operands] == ["x", "a"]


def branches(models: Any) -> dict[str, onnx.GraphProto]:
    out = models.value("t", [1, 4])
    return {
        "then_branch": models.body([models.node("Add", ["a", "b"], ["t"])], [], [out]),
        "else_branch": models.body(
            [models.node("MatMul", ["b", "w1"], ["u"]), models.node("Neg", ["u"], ["t"])], [], [out]
        ),
    }


def test_if_is_priced_for_its_dearer_branch_and_reads_what_both_capture(models: Any) -> None:
    nodes = [
        models.node("Relu", ["x"], ["a"]),
        models.node("MatMul", ["a", "w"], ["b"]),
        models.node("If", ["c"], ["y"], **branches(models)),
    ]
    weights = {"w": models.zeros(4, 4), "w1": models.zeros(4, 4)}
    graph = load_model(models(nodes, {"x": [1, 4], "c": []}, {"y": None}, weights, types={"c": BOOL}))
    layer = graph.layers[-1]
    assert (layer.macs, layer.vector_ops, layer.params, layer.weight_bytes) == (16, 4, 16, 64)
    assert {operand.tensor: operand.producer for operand in layer.operands} == {"c": None, "a": 0, "b": 1}
    assert "else branch" in layer.note
    assert graph.params == 32


def test_if_with_a_constant_condition_takes_that_branch(models: Any) -> None:
    nodes = [
        models.node("Relu", ["x"], ["a"]),
        models.node("Neg", ["a"], ["b"]),
        models.node("If", ["c"], ["y"], **branches(models)),
    ]
    weights = {"w1": models.zeros(4, 4), "c": np.array(True)}
    layer = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, weights)).layers[-1]
    assert (layer.macs, layer.vector_ops) == (0, 4)


def test_a_branch_for_other_sizes_is_not_taken(models: Any) -> None:
    # One file for two input lengths (silero-vad holds its 8 and 16 kHz networks so): 4 or 6 columns.
    out = models.value("t", [1, 2])
    four, six = (
        models.body([models.node("MatMul", ["x", weight], ["t"])], [], [out]) for weight in ("w4", "w6")
    )
    nodes = [models.node("If", ["c"], ["y"], then_branch=four, else_branch=six)]
    weights = {"w4": models.zeros(4, 2), "w6": models.zeros(6, 2)}
    model = models(nodes, {"x": [1, "n"], "c": []}, {"y": None}, weights, types={"c": BOOL})
    for size, taken in ((4, "then"), (6, "else")):
        graph = load_model(model, dims={"n": size})
        assert (graph.macs, graph.outputs["y"]) == (2 * size, (1, 2))
        assert any(f"only the {taken} branch can run at these sizes" in text for text in graph.warnings)
    with pytest.raises(HeadwayError, match=r"node #0 \(MatMul\) in the body of"):
        load_model(model, dims={"n": 5})


def test_a_body_that_does_not_fit_is_refused(models: Any) -> None:
    node = models.node("Loop", ["count", "go", "x"], ["y"], body=loop_body(models))
    weights = {"count": np.int64(3), "go": np.array(True), "w": models.zeros(5, 4)}
    with pytest.raises(HeadwayError, match="in the body of"):
        load_model(models([node], {"x": [1, 4]}, {"y": None}, weights))


def loop_body(models: Any) -> onnx.GraphProto:
    return models.body(
        [models.node("Identity", ["go"], ["go2"]), models.node("MatMul", ["v", "w"], ["v2"])],
        [models.value("i", [], INT64), models.value("go", [], BOOL), models.value("v", [1, 4])],
        [models.value("go2", [], BOOL), models.value("v2", [1, 4])],
    )


def test_loop_with_a_known_count_multiplies_its_body(models: Any) -> None:
    nodes = [models.node("Loop", ["count", "", "x"], ["y"], body=loop_body(models))]
    weights = {"w": models.zeros(4, 4), "count": np.int64(5)}
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, weights))
    (layer,) = graph.layers
    assert (layer.macs, layer.params) == (5 * 16, 16)
    assert graph.outputs["y"] == (1, 4)


def test_loop_with_an_unknown_count_is_priced_once_and_says_so(models: Any) -> None:
    nodes = [models.node("Loop", ["count", "", "x"], ["y"], body=loop_body(models), name="l")]
    model = models(
        nodes, {"x": [1, 4], "count": []}, {"y": None}, {"w": models.zeros(4, 4)}, types={"count": INT64}
    )
    graph = load_model(model)
    assert graph.layers[0].macs == 16
    assert any("'l'" in warning and "trip" in warning for warning in graph.warnings)


def test_scan_multiplies_its_body_by_the_length(models: Any) -> None:
    body = models.body(
        [
            models.node("MatMul", ["h", "w"], ["m"]),
            models.node("Add", ["m", "xi"], ["h2"]),
            models.node("Identity", ["h2"], ["o"]),
        ],
        [models.value("h", [1, 4]), models.value("xi", [1, 4])],
        [models.value("h2", [1, 4]), models.value("o", [1, 4])],
    )
    nodes = [models.node("Scan", ["h0", "x"], ["hT", "hs"], body=body, num_scan_inputs=1)]
    model = models(
        nodes, {"h0": [1, 4], "x": ["T", 1, 4]}, {"hT": None, "hs": None}, {"w": models.zeros(4, 4)}
    )
    graph = load_model(model, dims={"T": 6})
    assert graph.layers[0].macs == 6 * 16
    assert graph.outputs == {"hT": (1, 4), "hs": (6, 1, 4)}


def test_if_inside_a_loop_is_priced_through_both(models: Any) -> None:
    choice = models.node(
        "If",
        ["flag"],
        ["v2"],
        then_branch=models.body([models.node("MatMul", ["v", "w"], ["t"])], [], [models.value("t", [1, 4])]),
        else_branch=models.body([models.node("Relu", ["v"], ["t"])], [], [models.value("t", [1, 4])]),
    )
    body = models.body(
        [models.node("Identity", ["go"], ["go2"]), choice],
        [models.value("i", [], INT64), models.value("go", [], BOOL), models.value("v", [1, 4])],
        [models.value("go2", [], BOOL), models.value("v2", [1, 4])],
    )
    nodes = [models.node("Loop", ["count", "", "x"], ["y"], body=body)]
    weights = {"w": models.zeros(4, 4), "count": np.int64(3)}
    model = models(nodes, {"x": [1, 4], "flag": []}, {"y": None}, weights, types={"flag": BOOL})
    (layer,) = load_model(model).layers
    assert layer.macs == 48
    assert {operand.tensor for operand in layer.operands} == {"x", "flag"}


def test_local_functions_are_expanded_nested_ones_too(models: Any) -> None:
    standard, own = helper.make_opsetid("", 17), helper.make_opsetid("own", 1)
    inner = helper.make_function(
        "own",
        "inner",
        ["p"],
        ["q"],
        [
            models.node("Constant", [], ["c"], value=helper.make_tensor("c", 1, [4, 4], [0.0] * 16)),
            models.node("MatMul", ["p", "c"], ["q"]),
        ],
        [standard],
    )
    outer = helper.make_function(
        "own",
        "outer",
        ["p"],
        ["q"],
        [models.node("inner", ["p"], ["a"], domain="own"), models.node("inner", ["a"], ["q"], domain="own")],
        [standard, own],
    )
    nodes = [models.node("outer", ["x"], ["y"], domain="own")]
    model = models(nodes, {"x": [1, 4]}, {"y": None}, functions=[inner, outer], domains=["own"])
    graph = load_model(model)
    assert names_and_macs(graph) == [("MatMul", 16), ("MatMul", 16)]
    assert graph.unknown_ops == {}
    assert len(model.graph.node) == 1  # the caller's model is left as it was


def test_functions_in_a_circle_are_an_error(models: Any) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", a, ["p"], ["q"], [models.node(b, ["p"], ["q"], domain="own")], imports)
        for a, b in (("f", "g"), ("g", "f"))
    ]
    model = models(
        [models.node("f", ["x"], ["y"], domain="own")],
        {"x": [1]},
        {"y": None},
        functions=functions,
        domains=["own"],
    )
    with pytest.raises(HeadwayError, match="functions cannot be expanded"):
        load_model(model)


def test_custom_operator_is_refused_by_name_and_bounded(models: Any) -> None:
    nodes = [models.node("Inverse2", ["x"], ["a"], domain="mine"), models.node("MatMul", ["a", "w"], ["y"])]
    model = models(nodes, {"x": [2, 4]}, {"y": [2, 4]}, {"w": models.zeros(4, 4)}, domains=["mine"])
    model.graph.value_info.append(models.value("a", [2, 4]))
    graph = load_model(model)
    assert graph.runnable is False
    assert "Inverse2" in graph.refusal
    assert "'mine'" in graph.refusal
    custom, product = graph.layers
    assert custom.bounded
    assert custom.vector_ops == 8
    assert product.macs == 2 * 16  # what the file declares of an operator that none can infer is taken


def test_custom_operator_whose_output_nobody_declares_bounds_what_follows(models: Any) -> None:
    nodes = [
        models.node("Inverse2", ["x"], ["a"], domain="mine"),
        models.node("MatMul", ["a", "w"], ["b"]),
        models.node("Relu", ["b"], ["y"]),
    ]
    graph = load_model(
        models(nodes, {"x": [2, 4]}, {"y": [2, 4]}, {"w": models.zeros(4, 4)}, domains=["mine"])
    )
    assert [layer.bounded for layer in graph.layers] == [True, True, False]
    assert graph.layers[1].macs == 16  # every weight at least once
    assert all(layer.vector_ops > 0 and layer.output_bytes > 0 for layer in graph.layers)
    assert any("sizes not known" in warning for warning in graph.warnings)


def test_quantised_tensors_are_what_layers_read(models: Any) -> None:
    nodes = [
        models.node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        models.node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        models.node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        models.node("Conv", ["xd", "wd"], ["y"]),
    ]
    weights = {
        "s": np.float32(0.1),
        "z": np.uint8(0),
        "wq": models.zeros(4, 3, 3, 3, dtype=np.int8),
        "ws": models.zeros(4),
        "wz": models.zeros(4, dtype=np.int8),
    }
    graph = load_model(models(nodes, {"x": [1, 3, 6, 6]}, {"y": None}, weights, opset=13))
    convolution = graph.layers[-1]
    assert (convolution.params, convolution.weight_bytes, convolution.weight_dtype) == (108, 108, "int8")
    assert [(operand.bytes, operand.dtype) for operand in convolution.operands] == [(108, "uint8")]
    assert [layer.op for layer in graph.layers] == ["QuantizeLinear", "DequantizeLinear", "Conv"]


def test_sequence_between_nodes_has_the_bytes_of_its_members(models: Any) -> None:
    nodes = [
        models.node("SplitToSequence", ["x", "two"], ["s"], axis=0),
        models.node("SequenceAt", ["s", "one"], ["y"]),
    ]
    graph = load_model(models(nodes, {"x": [4, 6]}, {"y": None}, {"two": np.int64(2), "one": np.int64(1)}))
    assert [layer.output_bytes for layer in graph.layers] == [96, 48]
    assert graph.outputs["y"] == (2, 6)


def test_operators_of_old_opsets_are_understood(models: Any) -> None:
    nodes = [
        models.node("BatchNormalization", ["x", "s", "b", "m", "v"], ["a"]),
        models.node("Dropout", ["a"], ["d"], ratio=0.5),
        models.node("Upsample", ["d"], ["y"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
    ]
    weights = {name: models.zeros(2) for name in "sbmv"}
    graph = load_model(models(nodes, {"x": [1, 2, 4, 4]}, {"y": None}, weights, opset=7, ir_version=4))
    assert graph.outputs["y"] == (1, 2, 8, 8)
    assert graph.unknown_ops == {}


def test_first_opset_is_inferred_through_later_versions(models: Any) -> None:
    nodes = [
        models.node("BatchNormalization", ["x", "s", "b", "m", "v"], ["a"], consumed_inputs=[0, 0, 0, 1, 1]),
        models.node("Relu", ["a"], ["y"]),
    ]
    weights = {name: models.zeros(3) for name in "sbmv"}
    graph = load_model(
        models(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 3, 4, 4]}, weights, opset=1, ir_version=3)
    )
    assert [layer.output_bytes for layer in graph.layers] == [192, 192]
    assert not any(layer.bounded for layer in graph.layers)


def test_nodes_that_lead_nowhere_are_left_out_and_said(models: Any) -> None:
    nodes = [models.node("Relu", ["x"], ["y"]), models.node("MatMul", ["x", "w"], ["unused"])]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, {"w": models.zeros(4, 4)}))
    assert names_and_macs(graph) == [("Relu", 0)]
    assert any("lead to no output" in warning for warning in graph.warnings)


def test_scalar_output(models: Any) -> None:
    graph = load_model(models([models.node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [3, 4]}, {"y": []}))
    assert (graph.outputs["y"], graph.layers[0].output_bytes) == ((), 4)


ILL_FORMED = {
    "dangling": ([("Relu", ["nowhere"], ["y"], "r")], "node 'r' .*'nowhere'"),
    "cycle": (
        [("Add", ["x", "b"], ["a"], "one"), ("Relu", ["a"], ["y"], ""), ("Neg", ["a"], ["b"], "")],
        "cycle",
    ),
    "twice": ([("Relu", ["x"], ["y"], ""), ("Neg", ["x"], ["y"], "again")], "node 'again' .*'y'"),
    "no maker": ([("Relu", ["x"], ["a"], "")], "output 'y'"),
    "no fit": ([("MatMul", ["x", "x"], ["y"], "mm")], "node 'mm' .*[Ii]ncompatible"),
}


@pytest.mark.parametrize("case", ILL_FORMED)
def test_ill_formed_graph_is_named(case: str, models: Any) -> None:
    nodes, message = ILL_FORMED[case]
    made = [models.node(op, reads, makes, name=name) for op, reads, makes, name in nodes]
    with pytest.raises(HeadwayError, match=message):
        load_model(models(made, {"x": [2, 3]}, {"y": None}))


def test_onnx_runtime_is_asked_only_on_request(models: Any) -> None:
    model = models([models.node("Relu", ["x"], ["y"])], {"x": [1, 4]}, {"y": None})
    assert load_model(model).runnable is None
    assert load_model(model, check_runtime=True).runnable is True
    refused = models([models.node("Relu", ["x"], ["y"])], {"x": [1, 4]}, {"y": None}, opset=99)
    graph = load_model(refused, check_runtime=True)
    assert graph.runnable is False
    assert "opset" in graph.refusal.lower()


def test_size_that_depends_on_data_inside_a_function_is_measured(models: Any) -> None:
    function = helper.make_function(
        "own", "pick", ["p"], ["q"], [models.node("NonZero", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    nodes = [
        models.node("pick", ["x"], ["a"], domain="own"),
        models.node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = load_model(models(nodes, {"x": [2, 4]}, {"y": None}, functions=[function], domains=["own"]))
    assert graph.outputs["y"] == (2, 8)


def test_size_not_known_inside_a_body_is_bounded_there_and_named(models: Any) -> None:
    body = models.body(
        [
            models.node("Identity", ["go"], ["go2"]),
            models.node("NonZero", ["v"], ["n"], name="inner"),
            models.node("Size", ["n"], ["size"]),
            models.node("Cast", ["size"], ["f"], to=TensorProto.FLOAT),
            models.node("Add", ["v", "f"], ["v2"]),
        ],
        [models.value("i", [], INT64), models.value("go", [], BOOL), models.value("v", [1, 4])],
        [models.value("go2", [], BOOL), models.value("v2", [1, 4])],
    )
    nodes = [models.node("Loop", ["count", "", "x"], ["y"], body=body, name="outer")]
    graph = load_model(models(nodes, {"x": [1, 4]}, {"y": None}, {"count": np.int64(3)}))
    assert graph.layers[0].bounded
    assert any("'inner'" in warning and "body of node 'outer'" in warning for warning in graph.warnings)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (("Split", ["x"], ["y", "z", "u"], {"num_outputs": 2}), "num_outputs is 2, and it has 3 outputs"),
        (
            ("Constant", [], ["y", "z"], {"value": onnx.numpy_helper.from_array(np.ones(4))}),
            "reads tensor 'z', an output that",
        ),
    ],
)
def test_outputs_that_the_operator_does_not_have_are_refused(models: Any, node: Any, message: str) -> None:
    op, inputs, outputs, attributes = node
    nodes = [models.node(op, inputs, outputs, **attributes), models.node("Add", ["z", "x"], ["w"])]
    with pytest.raises(HeadwayError, match=message):
        load_model(models(nodes, {"x": [4, 4]}, {"w": None, "y": None}, opset=18))


@pytest.mark.parametrize("op", ["Shape", "DequantizeLinear", "Conv", "Reshape", "MatMul", "Concat"])
def test_a_node_without_its_inputs_is_an_error_or_bounded(models: Any, op: str) -> None:
    nodes = [models.node(op, [], ["a"]), models.node("Relu", ["x"], ["y"])]
    try:
        graph = load_model(models(nodes, {"x": [1, 4]}, {"a": None, "y": None}))
    except HeadwayError:
        return
    assert all(layer.vector_ops > 0 for layer in graph.layers)


def test_negative_sizes_never_lower_the_price(models: Any) -> None:
    weight = models.zeros(32, 1, 8, dtype=np.uint8)
    settings = {"K": -16, "N": 32, "bits": 4, "block_size": 16, "domain": "com.microsoft"}
    node = models.node("MatMulNBits", ["x", "q", "s"], ["y"], **settings)
    layer = load_model(
        models(
            [node],
            {"x": [1, 6, 16]},
            {"y": None},
            {"q": weight, "s": models.zeros(32)},
            domains=["com.microsoft"],
        )
    ).layers[0]
    assert layer.bounded
    assert layer.vector_ops > 0
    damaged = models([models.node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": None}, {"w": models.zeros(4)})
    damaged.graph.initializer[0].dims[0] = -4
    with pytest.raises(HeadwayError, match=r"tensor 'w' has the shape \[-4\]"):
        load_model(damaged)
