"""Small ONNX models, each with a structure on which tools that cut or read models are known to break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {}


def hard_graph(build: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    GRAPHS[build.__name__] = build
    return build


def info(name: str, shape: Sequence[int | str] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, seed: int = 0) -> onnx.TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def ints(name: str, values: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype=np.int64), name)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Sequence[tuple[str, int]] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    value_info: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "hard", inputs, outputs, list(weights), value_info=list(value_info))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*domain) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=ir)


@hard_graph
def nodes_out_of_order() -> onnx.ModelProto:
    nodes = [node("Tanh", ["b"], ["y"]), node("Add", ["a", "w"], ["b"]), node("Relu", ["x"], ["a"])]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4])], [weight("w", 4)])


@hard_graph
def two_nodes_of_one_name() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"], name="n"),
        node("Tanh", ["a"], ["b"], name="n"),
        node("Sigmoid", ["b"], ["y"]),
    ]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4])])


@hard_graph
def stale_shapes() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["y"])]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4])], value_info=[info("a", [7, 9])])


@hard_graph
def weights_listed_as_inputs() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32(0.5))),
        node("Mul", ["a", "half"], ["b"]),
        node("Add", ["b", "c"], ["y"]),
    ]
    inputs = [info("x", [1, 4]), info("w", [4, 4]), info("c", [4])]
    return model(nodes, inputs, [info("y", [1, 4])], [weight("w", 4, 4), weight("c", 4)], opset=8, ir=3)


@hard_graph
def outputs_inside_and_skips() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("Sigmoid", ["b"], ["c"]),
        node("Concat", ["a", "b", "c", "x"], ["y"], axis=1),
    ]
    return model(nodes, [info("x", [1, 4])], [info("b", [1, 4]), info("y", [1, 16]), info("a", [1, 4])])


@hard_graph
def outputs_that_are_inputs_and_weights() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["y"])]
    outputs = [info("x", [1, 4]), info("y", [1, 4]), info("w", [3])]
    return model(nodes, [info("x", [1, 4])], outputs, [weight("w", 3)])


@hard_graph
def nothing_but_an_input_given_back() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["unused"])]
    return model(nodes, [info("x", [1, 4])], [info("x", [1, 4])])


@hard_graph
def one_output_twice() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["y"])]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4]), info("y", [1, 4])])


@hard_graph
def no_inputs() -> onnx.ModelProto:
    nodes = [node("Relu", ["w"], ["a"]), node("Tanh", ["a"], ["y"])]
    return model(nodes, [], [info("y", [4])], [weight("w", 4)])


@hard_graph
def optional_inputs_left_out() -> onnx.ModelProto:
    nodes = [
        node("Resize", ["x", "", "scales"], ["a"], mode="nearest"),
        node("Clip", ["a", "", "most"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.array([1, 1, 2, 2], dtype=np.float32), "scales"),
        numpy_helper.from_array(np.float32(0.5), "most"),
    ]
    return model(nodes, [info("x", [1, 1, 3, 3])], [info("y", [1, 1, 6, 6])], weights)


@hard_graph
def optional_outputs_left_out() -> onnx.ModelProto:
    nodes = [
        node("LSTM", ["x", "w", "r"], ["", "h", ""], hidden_size=3),
        node("Relu", ["h"], ["y"]),
    ]
    weights = [weight("w", 1, 12, 4), weight("r", 1, 12, 3, seed=1)]
    return model(nodes, [info("x", [5, 1, 4])], [info("y", [1, 1, 3])], weights)


@hard_graph
def branches_that_capture() -> onnx.ModelProto:
    then_branch = helper.make_graph([node("Add", ["a", "w"], ["t"])], "then", [], [info("t", None)])
    else_branch = helper.make_graph([node("Mul", ["b", "w"], ["t"])], "else", [], [info("t", None)])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Tanh", ["x"], ["b"]),
        node("ReduceSum", ["a"], ["sum"], keepdims=0),
        node("Greater", ["sum", "limit"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch),
    ]
    weights = [weight("w", 4), numpy_helper.from_array(np.float32(0.1), "limit")]
    return model(nodes, [info("x", [1, 4])], [info("y", None)], weights)


@hard_graph
def branch_inside_loop_that_captures() -> onnx.ModelProto:
    then_branch = helper.make_graph([node("Add", ["state", "far"], ["t"])], "then", [], [info("t", None)])
    else_branch = helper.make_graph([node("Sub", ["state", "w"], ["t"])], "else", [], [info("t", None)])
    body = helper.make_graph(
        [
            node("Mod", ["step", "two"], ["odd"]),
            node("Cast", ["odd"], ["is_odd"], to=BOOL),
            node("If", ["is_odd"], ["next"], then_branch=then_branch, else_branch=else_branch),
            node("Identity", ["go"], ["go_on"]),
            node("Identity", ["next"], ["scan"]),
        ],
        "body",
        [info("step", [], INT64), info("go", [], BOOL), info("state", [1, 4])],
        [info("go_on", [], BOOL), info("next", [1, 4]), info("scan", [1, 4])],
    )
    nodes = [
        node("Relu", ["x"], ["far"]),
        node("Tanh", ["x"], ["start"]),
        node("Sigmoid", ["start"], ["start2"]),
        node("Loop", ["trips", "", "start2"], ["last", "all"], body=body),
        node("Add", ["last", "far"], ["y"]),
    ]
    weights = [weight("w", 4), ints("two", 2), ints("trips", 3)]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4]), info("all", [3, 1, 4])], weights)


@hard_graph
def scan_whose_body_reads_outside() -> onnx.ModelProto:
    body = helper.make_graph(
        [
            node("MatMul", ["step", "w"], ["p"]),
            node("Add", ["p", "h"], ["q"]),
            node("Add", ["q", "bias"], ["h_next"]),
            node("Identity", ["h_next"], ["h_out"]),
        ],
        "body",
        [info("h", [1, 4]), info("step", [1, 4])],
        [info("h_next", [1, 4]), info("h_out", [1, 4])],
    )
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("ReduceMean", ["a"], ["bias"], axes=[0, 1], keepdims=0),
        node("Scan", ["start", "a"], ["last", "all"], body=body, num_scan_inputs=1),
        node("Tanh", ["last"], ["y"]),
    ]
    inputs = [info("start", [1, 4]), info("x", [6, 1, 4])]
    return model(nodes, inputs, [info("y", [1, 4]), info("all", [6, 1, 4])], [weight("w", 4, 4)])


@hard_graph
def function_that_calls_a_function() -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function(
        "local", "Swish", ["u"], ["v"],
        [node("Sigmoid", ["u"], ["s"]), node("Mul", ["u", "s"], ["v"])], imports,
    )  # fmt: skip
    outer = helper.make_function(
        "local", "Twice", ["u"], ["v"],
        [
            node("Swish", ["u"], ["m"], domain="local"),
            node("Swish", ["m"], ["v"], domain="local"),
        ],
        imports,
    )  # fmt: skip
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Twice", ["a"], ["b"], domain="local"),
        node("Tanh", ["b"], ["c"]),
        node("Swish", ["c"], ["y"], domain="local"),
    ]
    return model(
        nodes, [info("x", [1, 4])], [info("y", [1, 4])],
        domains=[("local", 1)], functions=[outer, inner],
    )  # fmt: skip


@hard_graph
def function_called_in_a_branch() -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 17)]
    swish = helper.make_function(
        "local", "Swish", ["u"], ["v"],
        [node("Sigmoid", ["u"], ["s"]), node("Mul", ["u", "s"], ["v"])], imports,
    )  # fmt: skip
    then_branch = helper.make_graph(
        [node("Swish", ["a"], ["t"], domain="local")], "then", [], [info("t", None)]
    )
    else_branch = helper.make_graph([node("Neg", ["a"], ["t"])], "else", [], [info("t", None)])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Cast", ["flag"], ["c"], to=BOOL),
        node("If", ["c"], ["b"], then_branch=then_branch, else_branch=else_branch),
        node("Tanh", ["b"], ["y"]),
    ]
    return model(
        nodes, [info("x", [1, 4]), info("flag", [], INT64)], [info("y", [1, 4])],
        domains=[("local", 1)], functions=[swish],
    )  # fmt: skip


@hard_graph
def sequence_across_a_cut() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SplitToSequence", ["a"], ["s"], axis=1),
        node("SequenceInsert", ["s", "x1"], ["s2"]),
        node("SequenceLength", ["s2"], ["n"]),
        node("ConcatFromSequence", ["s2"], ["y"], axis=1),
    ]
    inputs = [info("x", [2, 3]), info("x1", [2, 1])]
    return model(nodes, inputs, [info("y", [2, 4]), info("n", [], INT64)])


@hard_graph
def sequence_as_input_and_output() -> onnx.ModelProto:
    sequence = helper.make_tensor_sequence_value_info
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SequenceInsert", ["s", "a"], ["t"]),
        node("SequenceErase", ["t", "first"], ["y"]),
    ]
    return model(
        nodes, [sequence("s", FLOAT, None), info("x", [2, 2])], [sequence("y", FLOAT, None)],
        [ints("first", 0)],
    )  # fmt: skip


@hard_graph
def optional_across_a_cut() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Optional", ["a"], ["o"]),
        node("OptionalHasElement", ["o"], ["there"]),
        node("OptionalGetElement", ["o"], ["b"]),
        node("Tanh", ["b"], ["y"]),
    ]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4]), info("there", [], BOOL)])


@hard_graph
def strings_across_a_cut() -> onnx.ModelProto:
    vocabulary = {"keys_strings": ["a", "b"], "values_int64s": [3, 5], "default_int64": 1}
    nodes = [
        node("Identity", ["text"], ["same"]),
        node("Reshape", ["same", "shape"], ["flat"]),
        node("LabelEncoder", ["flat"], ["ids"], domain="ai.onnx.ml", **vocabulary),
        node("Gather", ["table", "ids"], ["y"]),
    ]
    return model(
        nodes, [info("text", [2, 2], STRING)], [info("y", [4, 6]), info("same", [2, 2], STRING)],
        [ints("shape", [-1]), weight("table", 8, 6)], domains=[("ai.onnx.ml", 2)],
    )  # fmt: skip


@hard_graph
def tensors_of_no_elements() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Slice", ["a", "from", "to", "axis"], ["b"]),
        node("Tanh", ["b"], ["c"]),
        node("Concat", ["c", "x"], ["y"], axis=0),
    ]
    weights = [ints("from", [1]), ints("to", [1]), ints("axis", [0])]
    return model(nodes, [info("x", [3, 2])], [info("y", [3, 2]), info("c", [0, 2])], weights)


@hard_graph
def input_of_no_elements() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("Concat", ["b", "z"], ["y"], axis=0),
    ]
    return model(nodes, [info("x", [0, 2]), info("z", [1, 2])], [info("y", [1, 2])])


@hard_graph
def sizes_that_depend_on_data() -> onnx.ModelProto:
    nodes = [
        node("Greater", ["x", "zero"], ["positive"]),
        node("NonZero", ["positive"], ["where"]),
        node("Transpose", ["where"], ["places"], perm=[1, 0]),
        node("GatherND", ["x", "places"], ["found"]),
        node("Relu", ["found"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.float32(0), "zero")]
    return model(nodes, [info("x", [8])], [info("y", None)], weights)


@hard_graph
def sizes_computed_from_sizes() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["n"]),
        node("Mul", ["n", "two"], ["n2"]),
        node("Concat", ["n2", "rest"], ["target"], axis=0),
        node("Reshape", ["r", "target"], ["y"]),
    ]
    weights = [ints("first", [0]), ints("two", [2]), ints("rest", [-1])]
    return model(nodes, [info("x", ["batch", 6])], [info("y", None)], weights)


@hard_graph
def one_weight_on_both_sides() -> onnx.ModelProto:
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Relu", ["e"], ["r"]),
        node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        node("MatMul", ["r", "turned"], ["y"]),
    ]
    return model(nodes, [info("ids", [1, 3], INT64)], [info("y", [1, 3, 50])], [weight("table", 50, 16)])


@hard_graph
def weights_that_may_be_replaced() -> onnx.ModelProto:
    nodes = [
        node("Mul", ["x", "scale"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Add", ["b", "shift"], ["c"]),
        node("Mul", ["c", "scale"], ["y"]),
    ]
    inputs = [info("x", [1, 4]), info("scale", [4]), info("shift", [4])]
    return model(nodes, inputs, [info("y", [1, 4])], [weight("scale", 4), weight("shift", 4, seed=1)])


@hard_graph
def int8_convolution() -> onnx.ModelProto:
    scale = numpy_helper.from_array(np.float32(0.02), "scale")
    scales = numpy_helper.from_array(np.array([0.01, 0.02, 0.03, 0.04], dtype=np.float32), "scales")
    zero = numpy_helper.from_array(np.uint8(128), "zero")
    zeros = numpy_helper.from_array(np.zeros(4, dtype=np.int8), "zeros")
    values = np.random.default_rng(0).integers(-100, 100, (4, 3, 3, 3), dtype=np.int8)
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        node("DequantizeLinear", ["wq", "scales", "zeros"], ["w"], axis=0),
        node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        node("Conv", ["xd", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "scale", "zero"], ["rq"]),
        node("DequantizeLinear", ["rq", "scale", "zero"], ["rd"]),
        node("GlobalAveragePool", ["rd"], ["y"]),
    ]
    weights = [scale, scales, zero, zeros, numpy_helper.from_array(values, "wq")]
    return model(nodes, [info("x", [1, 3, 6, 6])], [info("y", [1, 4, 1, 1])], weights)


@hard_graph
def convolution_on_integers() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    scale = numpy_helper.from_array(np.float32(0.02), "scale")
    zero = numpy_helper.from_array(np.uint8(128), "zero")
    wzero = numpy_helper.from_array(np.int8(0), "wzero")
    values = [
        numpy_helper.from_array(rng.integers(-100, 100, (16, 16, 3, 3), dtype=np.int8), name)
        for name in ("w1", "w2")
    ]
    quantised = ["scale", "zero"]
    nodes = [
        node("QuantizeLinear", ["x", *quantised], ["a"]),
        node("QLinearConv", ["a", *quantised, "w1", "scale", "wzero", *quantised], ["b"], pads=[1, 1, 1, 1]),
        node("QLinearConv", ["b", *quantised, "w2", "scale", "wzero", *quantised], ["c"], pads=[1, 1, 1, 1]),
        node("DequantizeLinear", ["c", *quantised], ["y"]),
    ]
    inputs, outputs = [info("x", [1, 16, 8, 8])], [info("y", [1, 16, 8, 8])]
    return model(nodes, inputs, outputs, [scale, zero, wzero, *values])


@hard_graph
def old_operator_set() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Dropout", ["a"], ["d"], ratio=0.5),
        node("Upsample", ["d"], ["y"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
    ]
    return model(nodes, [info("x", [1, 2, 4, 4])], [info("y", [1, 2, 8, 8])], opset=7, ir=3)


@hard_graph
def half_precision() -> onnx.ModelProto:
    half = TensorProto.FLOAT16
    nodes = [
        node("Cast", ["x"], ["h"], to=half),
        node("Mul", ["h", "h"], ["m"]),
        node("Tanh", ["m"], ["t"]),
        node("Cast", ["t"], ["b"], to=TensorProto.BFLOAT16),
        node("Cast", ["b"], ["y"], to=FLOAT),
    ]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4]), info("t", [1, 4], half)])


@hard_graph
def scalars_across_cuts() -> onnx.ModelProto:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Abs", ["m"], ["n"]),
        node("Sqrt", ["n"], ["y"]),
    ]
    return model(nodes, [info("x", [3])], [info("y", [])])


@hard_graph
def convolutions_in_a_blocked_layout() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", ["b", "c"], ["d"]),
        node("Relu", ["d"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["f"], ["g"]),
        node("Flatten", ["g"], ["h"]),
        node("Gemm", ["h", "w3"], ["y"]),
    ]
    weights = [weight("w1", 24, 3, 3, 3), weight("w2", 24, 24, 3, 3, seed=1), weight("w3", 24, 10, seed=2)]
    return model(nodes, [info("x", [1, 3, 16, 16])], [info("y", [1, 10])], weights)


@hard_graph
def maps_as_outputs() -> onnx.ModelProto:
    """What a scikit-learn classifier becomes: probabilities as a sequence of maps from class to number."""
    nodes = [
        node("Gemm", ["x", "w"], ["a"]),
        node("Softmax", ["a"], ["b"]),
        node("ZipMap", ["b"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 5, 7]),
    ]
    of_maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
    )
    outputs = [onnx.ValueInfoProto(name="y", type=of_maps)]
    return model(nodes, [info("x", [2, 4])], outputs, [weight("w", 4, 3)], domains=[("ai.onnx.ml", 3)])


def branches_for_different_sizes() -> onnx.ModelProto:
    """A speech detector for two sampling rates: with its size fixed, the branch for the other is wrong."""
    short = helper.make_graph([node("MatMul", ["h", "w"], ["s"])], "short", [], [info("s", None)])
    any_size = helper.make_graph([node("ReduceSum", ["h"], ["l"])], "any size", [], [info("l", None)])
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("If", ["c"], ["o"], then_branch=any_size, else_branch=short),
        node("Tanh", ["o"], ["y"]),
    ]
    inputs = [info("x", [1, "n"]), info("c", [], BOOL)]
    return model(nodes, inputs, [info("y", None)], [weight("w", 4, 3)])


def chain_of(count: int, width: int = 4) -> onnx.ModelProto:
    nodes = [node("Tanh", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    return model(nodes, [info("t0", [1, width])], [info(f"t{count}", [1, width])])


def wide_products(count: int = 4, width: int = 1024) -> onnx.ModelProto:
    """Matrix products whose weights kernels pack: 4 MiB each at the default width."""
    nodes, weights = [], []
    for index in range(count):
        weights.append(weight(f"w{index}", width, width, seed=index))
        nodes.append(node("MatMul", [f"t{index}", f"w{index}"], [f"m{index}"]))
        nodes.append(node("Tanh", [f"m{index}"], [f"t{index + 1}"]))
    ends = [info("t0", [8, width])], [info(f"t{count}", [8, width])]
    return model(nodes, *ends, weights)
