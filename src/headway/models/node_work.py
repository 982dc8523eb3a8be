"""What each node of a prepared graph computes and moves, from the shapes that ONNX Runtime states.

The graph is usually the optimised one, whose operators ONNX's shape inference does not know. Types of all its
tensors are known from a session, so that the operators' formulas are applied to those instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.constants import Root, initialiser_tensor
from headway.models.dtypes import bytes_of
from headway.models.findings import analytic_bound
from headway.models.graph import Layer, LayerKind, LoopDims
from headway.models.node_order import bodies_of, node_label
from headway.models.onnx_reader import load_model
from headway.models.operator_class import OperatorClass
from headway.models.operators import NCHWC, Node, Work, attribute_values, formula_of
from headway.models.prepared import PreparedModel
from headway.models.tensors import Tensor, UnknownShapeError

if TYPE_CHECKING:
    from onnx import NodeProto


VIEWS: Final = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose output ONNX Runtime leaves in their input's memory."""

_ATTENTION: Final = frozenset(
    {
        "Attention",
        "MultiHeadAttention",
        "DecoderMaskedMultiHeadAttention",
        "GroupQueryAttention",
        "QAttention",
    }
)
_CLASS_OF: Final = {
    LayerKind.CONV: OperatorClass.CONVOLUTION,
    LayerKind.MATMUL: OperatorClass.MATMUL,
    LayerKind.NORM: OperatorClass.NORMALISATION,
    LayerKind.ELEMENTWISE: OperatorClass.ELEMENTWISE,
    LayerKind.RECURRENT: OperatorClass.RECURRENT,
    LayerKind.POOL: OperatorClass.POOLING,
    LayerKind.REDUCE: OperatorClass.POOLING,
    LayerKind.MOVE: OperatorClass.MOVEMENT,
    LayerKind.OTHER: OperatorClass.ELEMENTWISE,
}


@dataclass(frozen=True, slots=True)
class NodeWork:
    """One node: the work of its kernel.

    `macs` are multiply-accumulates, `vector_ops` other elementary operations, `read_bytes` activations and
    `weight_bytes` constants. `m`, `n`, `k` are those of its matrix product (of one group, im2col rows for a
    convolution), `repeats` how many such products there are: batch times groups. `steps` is the length of
    the sequence that a recurrent operator goes through one by one, `window` the area of a filter. `view`
    says that nothing is moved, `blocked` that it works in the layout of channels in blocks.
    """

    kind: OperatorClass
    op: str
    macs: int
    vector_ops: int
    read_bytes: int
    written_bytes: int
    weight_bytes: int
    output_elements: int
    m: int = 1
    n: int = 1
    k: int = 1
    repeats: int = 1
    steps: int = 1
    window: int = 1
    view: bool = False
    blocked: bool = False

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each multiply-accumulate."""
        return 2 * self.macs + self.vector_ops

    @property
    def moved_bytes(self) -> int:
        """All that it reads and writes once."""
        return 0 if self.view else self.read_bytes + self.written_bytes + self.weight_bytes


def node_works(prepared: PreparedModel) -> tuple[NodeWork, ...]:
    """The work of each node of a prepared graph, in its order.

    A node without a formula, or with sizes that nothing tells, has the analytic bound: an operation for each
    element that it makes. Loops and branches have what the reader counts of their bodies.
    """
    tensors = _tensors(prepared)
    versions = {opset.domain: opset.version for opset in prepared.graph.model.opset_import}
    bodies = _with_bodies(prepared)
    works = []
    for index, node in enumerate(prepared.graph.nodes):
        layer = next((bodies[name] for name in prepared.graph.makes[index] if name in bodies), None)
        works.append(_node_work(node, index, tensors, versions, layer))
    return tuple(works)


def _tensors(prepared: PreparedModel) -> dict[str, Tensor]:
    roots: dict[str, Root] = {}
    folder = str(prepared.workspace.folder)
    tensors = {
        name: initialiser_tensor(proto, name, folder, roots)
        for name, proto in prepared.graph.initialisers.items()
    }
    for name, value in prepared.types.items():
        if name not in tensors:
            tensors[name] = Tensor(name, value.dtype or "float32", value.dims)
    return tensors


def _with_bodies(prepared: PreparedModel) -> Mapping[str, Layer]:
    """Layers of nodes with bodies, by output, as the reader sees them; none if it cannot read the graph."""
    if not any(True for node in prepared.graph.nodes for _ in bodies_of(node)):
        return {}
    try:
        layers = load_model(readable(prepared)).layers
    except HeadwayError:
        return {}
    outputs = {
        name for node in prepared.graph.nodes if any(True for _ in bodies_of(node)) for name in node.output
    }
    return {layer.output: layer for layer in layers if layer.output in outputs}


def _node_work(
    proto: NodeProto,
    index: int,
    tensors: Mapping[str, Tensor],
    versions: Mapping[str, int],
    body: Layer | None,
) -> NodeWork:
    node = Node(
        op=proto.op_type,
        domain="" if proto.domain == "ai.onnx" else proto.domain,
        label=node_label(proto, index),
        version=versions.get(proto.domain, 1),
        attributes=attribute_values(proto),
        inputs=[tensors.get(name) if name else None for name in proto.input],
        outputs=[tensors.get(name) if name else None for name in proto.output],
        walk_body=_no_body,
    )
    work = _work(node)
    known = [tensor for tensor in node.outputs if tensor is not None and tensor.known]
    read = [tensor for _, tensor in node.activations if tensor.known]
    weights = [
        tensor
        for position, tensor in enumerate(node.inputs)
        if tensor is not None and tensor.constant and position not in work.settings
    ]
    written = sum(_bytes(tensor) for tensor in known)
    weight_bytes = sum(_bytes(tensor) for tensor in weights)
    if node.op == "Gather":
        weight_bytes = min(weight_bytes, written)
    dims, kind = work.dims, _kind(node, work)
    return NodeWork(
        kind=kind,
        op=node.op,
        macs=work.macs if body is None else body.macs,
        vector_ops=work.vector_ops if body is None else body.vector_ops,
        read_bytes=sum(_bytes(tensor) for tensor in read),
        written_bytes=written,
        weight_bytes=weight_bytes if body is None else body.weight_bytes,
        output_elements=max((tensor.elements for tensor in known), default=1),
        m=dims.m,
        n=dims.n,
        k=dims.k,
        repeats=dims.B * dims.groups,
        steps=_steps(node) if kind is OperatorClass.RECURRENT else 1,
        window=dims.FY * dims.FX,
        view=node.op in VIEWS and not node.domain,
        blocked=node.domain == NCHWC,
    )


def _work(node: Node) -> Work:
    formula = formula_of(node.domain, node.op)
    if formula is None:
        return analytic_bound(node, "no formula for this operator")
    try:
        work = formula(node)
    except (
        HeadwayError,
        UnknownShapeError,
        LookupError,
        ArithmeticError,
        TypeError,
        ValueError,
        AttributeError,
    ):
        # Sizes or attributes that are missing or of the wrong kind: the bound holds in either case.
        return analytic_bound(node, "a size or setting that its formula needs is not known")
    if min(work.macs, work.vector_ops) < 0:
        return analytic_bound(node, "its formula does not fit its sizes")
    return work


def _kind(node: Node, work: Work) -> OperatorClass:
    if node.op in _ATTENTION or (work.kind is LayerKind.MATMUL and work.weight_is_activation):
        return OperatorClass.ATTENTION
    dims: LoopDims = work.dims
    if work.kind is LayerKind.CONV and dims.groups > 1 and dims.groups == dims.C:
        return OperatorClass.DEPTHWISE
    return _CLASS_OF[work.kind]


def _steps(node: Node) -> int:
    sizes = node.input(0).sizes
    return sizes[1 if int(node.attribute("layout", 0)) == 1 else 0]


def _bytes(tensor: Tensor) -> int:
    return bytes_of(tensor.elements, tensor.stored or tensor.dtype) if tensor.dtype != "string" else 0


def _no_body(_: Any, arguments: Sequence[Tensor]) -> Any:
    raise UnknownShapeError("a body")


def readable(prepared: PreparedModel) -> Any:
    """The graph with the types of all its tensors stated, for the reader."""
    from onnx import ModelProto, helper

    model = ModelProto()
    model.CopyFrom(prepared.graph.model)
    del model.graph.value_info[:]
    for name, value_type in prepared.types.items():
        if value_type.dims is not None:
            model.graph.value_info.append(helper.make_value_info(name, value_type.proto()))
    return model
