"""Where a graph may be cut, and what is alive there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headway.core.errors import HeadwayError
from headway.models.cuts import legal_cuts

FLOAT = TensorProto.FLOAT


def info(name: str, shape: list[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, [1, 4] if shape is None else shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: tuple[str, ...] = (),
    ir_version: int = 8,
) -> onnx.ModelProto:
    initialisers = [numpy_helper.from_array(np.ones(4, dtype=np.float32), name) for name in weights]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def node(op: str, reads: list[str], makes: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, reads, makes, **attributes)


def test_all_that_is_made_before_and_read_after_crosses() -> None:
    skip = model(
        [
            node("Relu", ["x"], ["a"]),
            node("Tanh", ["a"], ["b"]),
            node("Sigmoid", ["b"], ["c"]),
            node("Sum", ["a", "c", "x"], ["y"]),
        ],
        [info("x")],
        [info("y")],
    )
    sizes = {"x": 1, "a": 10, "b": 100, "c": 1000, "y": 10_000}
    cuts = legal_cuts(skip, sizes)
    assert [(cut.position, cut.tensors, cut.inputs) for cut in cuts] == [
        (1, ("a",), ("x",)),
        (2, ("a", "b"), ("x",)),
        (3, ("a", "c"), ("x",)),
    ]
    assert [cut.crossing_bytes for cut in cuts] == [10, 110, 1010]
    assert [cut.live_bytes for cut in cuts] == [11, 111, 1011]


def test_outputs_made_already_stay_with_the_request() -> None:
    cuts = legal_cuts(
        model(
            [
                node("Relu", ["x"], ["a"]),
                node("Tanh", ["a"], ["b"]),
                node("Neg", ["b"], ["c"]),
                node("Abs", ["c"], ["y"]),
            ],
            [info("x")],
            [info("a"), info("y")],
        ),
        {"a": 8, "b": 16, "c": 16, "y": 4, "x": 2},
    )
    assert [(cut.tensors, cut.outputs) for cut in cuts] == [(("a",), ()), (("b",), ("a",)), (("c",), ("a",))]
    assert [cut.live_bytes for cut in cuts] == [8, 24, 24]


def test_size_that_is_not_known_makes_the_cut_s_bytes_unknown() -> None:
    chain = model([node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["y"])], [info("x")], [info("y")])
    (cut,) = legal_cuts(chain)
    assert cut.tensors == ("a",)
    assert cut.crossing_bytes is None


def test_names_that_only_a_nested_body_reads_cross() -> None:
    inner = helper.make_graph([node("Add", ["far", "near"], ["t"])], "inner", [], [info("t")])
    other = helper.make_graph([node("Neg", ["near"], ["t"])], "other", [], [info("t")])
    outer_then = helper.make_graph(
        [node("If", ["flag"], ["u"], then_branch=inner, else_branch=other)], "outer", [], [info("u")]
    )
    outer_else = helper.make_graph([node("Identity", ["near"], ["u"])], "plain", [], [info("u")])
    cuts = legal_cuts(
        model(
            [
                node("Relu", ["x"], ["far"]),
                node("Tanh", ["x"], ["near"]),
                node("Cast", ["c"], ["flag"], to=TensorProto.BOOL),
                node("If", ["flag"], ["y"], then_branch=outer_then, else_branch=outer_else),
            ],
            [info("x"), info("c", [])],
            [info("y")],
        )
    )
    assert [cut.tensors for cut in cuts] == [("far",), ("far", "near"), ("far", "near", "flag")]
    assert [cut.inputs for cut in cuts] == [("x", "c"), ("c",), ()]


def test_nodes_out_of_order_are_sorted_first() -> None:
    cuts = legal_cuts(
        model(
            [node("Tanh", ["b"], ["y"]), node("Neg", ["a"], ["b"]), node("Relu", ["x"], ["a"])],
            [info("x")],
            [info("y")],
        )
    )
    assert [cut.tensors for cut in cuts] == [("a",), ("b",)]


def test_constants_and_weights_cross_no_cut_and_count_as_no_node() -> None:
    half = numpy_helper.from_array(np.float32(0.5))
    cuts = legal_cuts(
        model(
            [
                node("Constant", [], ["half"], value=half),
                node("Transpose", ["w"], ["turned"], perm=[0]),
                node("Mul", ["x", "half"], ["a"]),
                node("Add", ["a", "turned"], ["b"]),
                node("Mul", ["b", "half"], ["y"]),
            ],
            [info("x")],
            [info("y")],
            ("w",),
        )
    )
    # Transpose of the weight runs just before the node that needs it, so at the first cut it does not cross.
    assert [cut.tensors for cut in cuts] == [("a",), ("a", "turned"), ("b",)]


@pytest.mark.parametrize("ir_version", [3, 8])
def test_weights_listed_as_inputs_are_no_inputs_of_the_request(ir_version: int) -> None:
    cuts = legal_cuts(
        model(
            [node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["b"]), node("Add", ["b", "w"], ["y"])],
            [info("x"), info("w", [4])],
            [info("y")],
            ("w",),
            ir_version,
        )
    )
    # From IR version 4 on a request may replace such a weight; then it is the request's as long as it is
    # needed.
    assert [cut.inputs for cut in cuts] == [(), ()] if ir_version < 4 else [("w",), ("w",)]


def test_nodes_that_lead_nowhere_are_left_out() -> None:
    cuts = legal_cuts(
        model(
            [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["unused"]), node("Tanh", ["a"], ["y"])],
            [info("x")],
            [info("y")],
        )
    )
    assert [(cut.position, cut.tensors) for cut in cuts] == [(1, ("a",))]


def test_names_of_nodes_do_not_matter() -> None:
    same = [
        node("Relu", ["x"], ["a"], name="n"),
        node("Tanh", ["a"], ["b"], name="n"),
        node("Neg", ["b"], ["y"]),
    ]
    assert [cut.tensors for cut in legal_cuts(model(same, [info("x")], [info("y")]))] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Relu", ["nowhere"], ["y"])], "'nowhere'"),
        ([("Add", ["x", "y"], ["y"])], "cycle"),
        ([("Relu", ["x"], ["y"]), ("Tanh", ["x"], ["y"])], "exists already"),
        ([("Relu", ["x"], ["a"])], "'y' is made by no node"),
    ],
)
def test_graphs_that_are_not_well_formed_are_refused(
    nodes: list[tuple[str, list[str], list[str]]], message: str
) -> None:
    broken = model([node(*parts) for parts in nodes], [info("x")], [info("y")])
    with pytest.raises(HeadwayError, match=message):
        legal_cuts(broken)


def test_file_without_its_weights_can_be_looked_at(tmp_path: Path) -> None:
    large = model(
        [node("Add", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])], [info("x")], [info("y")], ("w",)
    )
    path = tmp_path / "m.onnx"
    onnx.save_model(large, path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    assert [cut.tensors for cut in legal_cuts(path)] == [("a",)]
