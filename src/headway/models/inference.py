"""Types and shapes of what one node makes, and its value where that needs no network input.

ONNX's own inference is asked node by node, with all symbolic dimensions bound and constant operands given by
value, so that sizes computed inside the model (Shape, Gather, Mul, Concat, Reshape) come out as numbers.
Operators that ONNX has no schema for are inferred as the standard operator they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headway.models.dtypes import dtype_name, dtype_number, is_float
from headway.models.operators import INTERNAL_NHWC, MICROSOFT, NCHWC, attribute_values, channels_last
from headway.models.tensors import Shape, Tensor

if TYPE_CHECKING:
    import numpy as np
    from onnx import NodeProto, TypeProto
    from onnx.defs import OpSchema

MAX_FOLDED_ELEMENTS: Final = 1 << 16  # larger constants are weights, whose values no shape needs
_MAX_DATA_ELEMENTS: Final = 1 << 10  # larger constants are no shapes or axes
_MAX_FLOAT_DATA: Final = 16  # of floats only scales and bounds of ranges say something of shapes

# The standard operator whose shape rule a fused or quantised one follows, and which inputs that one reads.
_STANDS_FOR: Final[dict[tuple[str, str], tuple[str, tuple[int, ...]]]] = {
    (MICROSOFT, "FusedConv"): ("Conv", (0, 1)),
    (NCHWC, "Conv"): ("Conv", (0, 1)),
    (NCHWC, "MaxPool"): ("MaxPool", (0,)),
    (NCHWC, "AveragePool"): ("AveragePool", (0,)),
    (NCHWC, "GlobalAveragePool"): ("GlobalAveragePool", (0,)),
    (NCHWC, "GlobalMaxPool"): ("GlobalMaxPool", (0,)),
    (NCHWC, "ReorderInput"): ("Identity", (0,)),
    (NCHWC, "ReorderOutput"): ("Identity", (0,)),
    (INTERNAL_NHWC, "Conv"): ("Conv", (0, 1)),
    (INTERNAL_NHWC, "MaxPool"): ("MaxPool", (0,)),
    (INTERNAL_NHWC, "AveragePool"): ("AveragePool", (0,)),
    (MICROSOFT, "QLinearConv"): ("Conv", (0, 3)),
    (MICROSOFT, "QLinearAveragePool"): ("AveragePool", (0,)),
    (MICROSOFT, "QLinearGlobalAveragePool"): ("GlobalAveragePool", (0,)),
    (MICROSOFT, "QLinearSigmoid"): ("Identity", (0,)),
    (MICROSOFT, "QLinearLeakyRelu"): ("Identity", (0,)),
    (MICROSOFT, "QLinearSoftmax"): ("Identity", (0,)),
    (MICROSOFT, "QLinearAdd"): ("Add", (0, 3)),
    (MICROSOFT, "QLinearMul"): ("Mul", (0, 3)),
    (MICROSOFT, "FusedGemm"): ("Gemm", (0, 1)),
    (MICROSOFT, "GemmFloat8"): ("Gemm", (0, 1)),
    (MICROSOFT, "QGemm"): ("Gemm", (0, 3)),
    (MICROSOFT, "DynamicQuantizeMatMul"): ("MatMul", (0, 1)),
    (MICROSOFT, "MatMulIntegerToFloat"): ("MatMul", (0, 1)),
    (MICROSOFT, "Gelu"): ("Identity", (0,)),
    (MICROSOFT, "FastGelu"): ("Identity", (0,)),
    (MICROSOFT, "BiasGelu"): ("Identity", (0,)),
    (MICROSOFT, "QuickGelu"): ("Identity", (0,)),
    (MICROSOFT, "RotaryEmbedding"): ("Identity", (0,)),
    (MICROSOFT, "SkipLayerNormalization"): ("Identity", (0,)),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): ("Identity", (0,)),
    (MICROSOFT, "GroupNorm"): ("Identity", (0,)),
    (MICROSOFT, "SkipGroupNorm"): ("Identity", (0,)),
    (MICROSOFT, "QuantizeLinear"): ("QuantizeLinear", (0, 1, 2)),
    (MICROSOFT, "DequantizeLinear"): ("DequantizeLinear", (0, 1, 2)),
    ("", "SimplifiedLayerNormalization"): ("Identity", (0,)),
}
_KEPT_ATTRIBUTES: Final = frozenset(
    {
        "kernel_shape",
        "pads",
        "strides",
        "dilations",
        "group",
        "auto_pad",
        "ceil_mode",
        "transA",
        "transB",
        "axis",
    }
)
_FALLBACK_OPSET: Final = 17
_UNLIMITED_INPUTS: Final = 1 << 30
_RANDOM: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


class InferenceProblem(Exception):
    """A node cannot take its inputs; the message is the cause, without the node's name."""


def type_of(tensor: Tensor) -> TypeProto:
    """The ONNX type of a tensor, with unknown sizes left open."""
    from onnx import helper

    number = dtype_number(tensor.dtype)
    plain = helper.make_tensor_type_proto(number, tensor.shape)
    return helper.make_sequence_type_proto(plain) if tensor.sequence else plain


def read_type(proto: TypeProto) -> tuple[str, Shape | None, bool]:
    """Element type, shape, and whether it is a sequence; optional types count as what they hold."""
    while proto.HasField("optional_type"):
        proto = proto.optional_type.elem_type
    if proto.HasField("sequence_type"):
        dtype, shape, _ = read_type(proto.sequence_type.elem_type)
        return dtype, shape, True
    tensor = proto.sparse_tensor_type if proto.HasField("sparse_tensor_type") else proto.tensor_type
    if not tensor.HasField("shape"):
        return dtype_name(tensor.elem_type), None, False
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return dtype_name(tensor.elem_type), shape, False


class Inference:
    """Node-wise inference under the operator sets of one model."""

    def __init__(self, opsets: Mapping[str, int], ir_version: int) -> None:
        from onnx import helper

        self.opsets = dict(opsets)
        # A model of contributed operators alone may name no standard set; what stands for them is recent.
        self.opsets.setdefault("", _FALLBACK_OPSET)
        self._imports = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        self._ir_version = ir_version

    def version(self, node: NodeProto) -> int:
        """Version of the operator set that a node belongs to."""
        return self.opsets.get(node.domain, 1)

    def has_schema(self, domain: str, op: str) -> bool:
        """Whether ONNX itself, or ONNX Runtime's contributed operators as known here, define the operator."""
        from onnx import defs

        return defs.has(op, self.opsets.get(domain, 1), domain) or (domain, op) in _STANDS_FOR

    def output_types(
        self, node: NodeProto, inputs: Sequence[Tensor | None]
    ) -> list[tuple[str, Shape | None, bool] | None]:
        """For each output its element type, shape and whether it is a sequence; None where nothing is known.

        Raises:
            InferenceProblem: the inputs do not fit the operator or each other.
        """
        from onnx import checker, defs, numpy_helper, shape_inference

        stand_in = self._stand_in(node)
        if stand_in is not None:
            positions = [int(name[1:]) for name in stand_in.input]
            taken = [inputs[position] if position < len(inputs) else None for position in positions]
            if stand_in.op_type.endswith("Linear"):
                return self.output_types(stand_in, taken)
            # The standard operator may not take quantised types, and its shape rule does not ask for them.
            floats = [None if tensor is None else replace(tensor, dtype="float32") for tensor in taken]
            last = channels_last(node.domain, attribute_values(node))
            if last and floats and floats[0] is not None:
                floats[0] = replace(floats[0], shape=_moved(floats[0].shape, -1, 1))
            dtype = _result_dtype(node, inputs)
            return [
                found and (dtype, _moved(found[1], 1, -1) if last else found[1], found[2])
                for found in self.output_types(stand_in, floats)
            ]
        if not defs.has(node.op_type, self.opsets.get(node.domain, 1), node.domain):
            return [None] * len(node.output)
        _require_outputs(node)
        schema = self._schema(node)
        node = _known_attributes(node, schema)
        types, data = {}, {}
        for name, tensor in zip(node.input, inputs, strict=False):
            if tensor is None or not name:
                continue
            types[name] = type_of(tensor)
            limit = _MAX_FLOAT_DATA if is_float(tensor.dtype) else _MAX_DATA_ELEMENTS
            if tensor.constant and tensor.known and not tensor.sequence and tensor.elements <= limit:
                value = tensor.value
                if value is not None and value.dtype.kind in "iubf":
                    data[name] = numpy_helper.from_array(value, name)
        try:
            found = shape_inference.infer_node_outputs(
                schema, node, types, data, None, self._imports, self._ir_version
            )
        except (shape_inference.InferenceError, checker.ValidationError, ValueError, RuntimeError) as error:
            raise InferenceProblem(" ".join(str(error).split())) from error
        return [read_type(found[name]) if name in found else None for name in node.output]

    def _schema(self, node: NodeProto) -> OpSchema:
        """The operator's schema, or its next version that can infer: the first versions of many could not."""
        from onnx import defs

        own = self.opsets.get(node.domain, 1)
        schema = defs.get_schema(node.op_type, own, node.domain)
        if schema.has_type_and_shape_inference_function:
            return schema
        for version in range(own + 1, defs.onnx_opset_version() + 1):
            later = defs.get_schema(node.op_type, version, node.domain)
            # One that takes settings as inputs instead of attributes is another operator for this purpose.
            if later.max_input != schema.max_input and later.max_input < _UNLIMITED_INPUTS:
                break
            if later.has_type_and_shape_inference_function:
                return later
        return schema

    def _stand_in(self, node: NodeProto) -> NodeProto | None:
        from onnx import helper

        known = _STANDS_FOR.get((node.domain, node.op_type))
        if known is None:
            return None
        op, positions = known
        copy = helper.make_node(op, [f"i{position}" for position in positions], list(node.output)[:1])
        if op in ("Conv", "MaxPool", "AveragePool", "Gemm", "QuantizeLinear", "DequantizeLinear"):
            copy.attribute.extend(a for a in node.attribute if a.name in _KEPT_ATTRIBUTES)
        return copy


def _require_outputs(node: NodeProto) -> None:
    """Inference of Split takes a size for each output without asking whether there is one: a crash."""
    count = next((a.i for a in node.attribute if a.name == "num_outputs"), len(node.output))
    if node.op_type == "Split" and count != len(node.output):
        raise InferenceProblem(f"num_outputs is {count}, and it has {len(node.output)} outputs")


def _moved(shape: Shape | None, source: int, target: int) -> Shape | None:
    """A shape with one axis (the channels) at another place."""
    if shape is None or len(shape) < 3:
        return shape
    axes = list(shape)
    channels = axes.pop(source)
    axes.insert(target if target >= 0 else len(axes), channels)
    return tuple(axes)


def _known_attributes(node: NodeProto, schema: OpSchema) -> NodeProto:
    """The node without attributes that the schema lacks: inference refuses them, shapes do not need them."""
    from onnx import NodeProto

    if all(attribute.name in schema.attributes for attribute in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(attribute for attribute in node.attribute if attribute.name in schema.attributes)
    return copy


def _result_dtype(node: NodeProto, inputs: Sequence[Tensor | None]) -> str:
    """Type that a contributed operator makes: its first input's, unless it dequantises."""
    first = inputs[0] if inputs else None
    dequantises = node.op_type == "MatMulIntegerToFloat" or (node.op_type == "QGemm" and len(inputs) < 8)
    return "float32" if first is None or dequantises else first.dtype


def sequence_elements(node: NodeProto, inputs: Sequence[Tensor | None]) -> int | None:
    """Elements of all members of the sequence that a node makes, from what goes in; None if not known."""
    members = [tensor for tensor in inputs if tensor is not None]
    if node.op_type == "SequenceEmpty":
        return 0
    if node.op_type == "SequenceConstruct" and all(tensor.known for tensor in members):
        return sum(tensor.elements for tensor in members)
    if node.op_type in ("SplitToSequence", "SequenceErase", "Identity") and members[0].known:
        return members[0].elements
    if node.op_type == "SequenceInsert" and members[0].known and members[1].known:
        return members[0].elements + members[1].elements
    return None


def foldable(node: NodeProto) -> bool:
    """Whether a node with constant inputs is a constant itself: no randomness, no body, no sequence."""
    if node.domain not in ("", "ai.onnx", MICROSOFT, NCHWC, INTERNAL_NHWC):
        return False
    if node.op_type in _RANDOM or "Sequence" in node.op_type or node.op_type.startswith("Optional"):
        return False
    return not any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def shape_value(node: NodeProto, tensor: Tensor, attributes: Mapping[str, Any]) -> np.ndarray | None:
    """What Shape or Size gives for a tensor whose sizes are known, whatever its data."""
    import numpy as np

    if tensor.sequence or not tensor.known:
        return None
    if node.op_type == "Size":
        return np.asarray(tensor.elements, dtype=np.int64)
    start, end = attributes.get("start", 0), attributes.get("end", len(tensor.sizes))
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    sizes = tensor.sizes[start:end]
    return np.asarray(sizes, dtype=np.int64)


def evaluate(node: NodeProto, values: Sequence[np.ndarray | None], opset: int) -> list[np.ndarray] | None:
    """A node's outputs by ONNX's reference implementation, or None where it has none or fails."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    feeds = {
        name: value for name, value in zip(node.input, values, strict=False) if name and value is not None
    }
    graph = helper.make_graph(
        [node],
        "fold",
        [helper.make_value_info(name, _tensor_type(value)) for name, value in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        made = ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        # The reference implementation raises whatever NumPy does, and lacks some operators; shapes then come
        # from inference alone.
        return None
    return list(made) if isinstance(made, list) and all(hasattr(value, "dtype") for value in made) else None


def _tensor_type(value: np.ndarray) -> TypeProto:
    from onnx import helper

    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
