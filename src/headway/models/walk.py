"""The walk over a graph's nodes in topological order: shapes, constants and each node's work."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.contributed import contributed_outputs, is_contributed
from headway.models.dtypes import bytes_of, dtype_name
from headway.models.graph import LayerKind
from headway.models.inference import (
    MAX_FOLDED_ELEMENTS,
    Inference,
    InferenceProblem,
    evaluate,
    foldable,
    read_type,
    shape_value,
)
from headway.models.node_order import bodies_of, live_nodes, node_label, sorted_nodes
from headway.models.operators import BodyCost, Node, Work, formula_of
from headway.models.tensors import Shape, Tensor, UnknownShapeError

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, NodeProto, TensorProto

_MAX_NESTING: Final = 32
_WEIGHTED: Final = (LayerKind.CONV, LayerKind.MATMUL, LayerKind.RECURRENT)


@dataclass(frozen=True, slots=True)
class Root:
    """An initialiser or constant that layers read: its elements and bytes. Scalars written as Constant nodes are no weights."""

    elements: int
    bytes: int
    dtype: str
    counted: bool


@dataclass(slots=True)
class Entry:
    """A node that does work, with what it reads and makes."""

    index: int  # place in the file
    node: Node
    work: Work
    name: str


@dataclass(slots=True)
class Findings:
    """What a walk collects beside the layers, shared with the walks of bodies."""

    roots: dict[str, Root] = field(default_factory=dict)
    unknown_ops: list[tuple[str, str]] = field(default_factory=list)  # domain:Op and the node's label
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown_tensors: list[str] = field(default_factory=list)
    measured_used: list[str] = field(default_factory=list)
    folded: int = 0
    dead: int = 0


def attribute_values(node: NodeProto) -> dict[str, Any]:
    """Attributes by name; text as str, graphs and tensors as protos."""
    from onnx import AttributeProto, helper

    values: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.STRING:
            value = value.decode("utf-8", "replace")
        elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            value = list(value)
        values[attribute.name] = value
    return values


def initialiser_tensor(
    proto: TensorProto, root: str, folder: str, findings: Findings, counted: bool = True
) -> Tensor:
    """A constant for an initialiser; its value is read when a shape needs it, and only if it is small."""
    from onnx import TensorProto, numpy_helper

    shape = tuple(proto.dims)
    dtype = dtype_name(proto.data_type)
    findings.roots[root] = Root(prod(shape), bytes_of(prod(shape), dtype), dtype, counted)

    def read() -> np.ndarray | None:
        external = proto.data_location == TensorProto.EXTERNAL
        if prod(shape) > MAX_FOLDED_ELEMENTS or (external and not folder):
            return None
        try:
            return numpy_helper.to_array(proto, folder)
        except Exception:
            # Absent or short data: the graph is still good for its shapes.
            return None

    return Tensor(name=proto.name, dtype=dtype, shape=shape, constant=True, roots=(root,), read_value=read)


class Walk:
    """Walks one graph; bodies are walked by the same class with the outer names in reach."""

    def __init__(
        self,
        inference: Inference,
        findings: Findings,
        *,
        where: str,
        folder: str = "",
        measured: Mapping[str, Sequence[Shape]] | None = None,
        fold: bool = True,
        trust_declared: bool = False,
        prefix: str = "",
        depth: int = 0,
    ) -> None:
        self.inference = inference
        self.findings = findings
        self.entries: list[Entry] = []
        self._where = where
        self._folder = folder
        self._measured = measured or {}
        self._fold = fold
        self._trust_declared = trust_declared
        self._prefix = prefix
        self._depth = depth
        self._scope: MutableMapping[str, Tensor] = {}
        self._declared: dict[str, tuple[str, Shape | None, bool]] = {}

    def run(
        self,
        graph: GraphProto,
        arguments: Mapping[str, Tensor],
        outer: MutableMapping[str, Tensor] | None = None,
    ) -> list[Tensor]:
        """Walk the graph with its inputs given; returns its outputs' tensors.

        Raises:
            HeadwayError: the graph is not well formed.
        """
        own: dict[str, Tensor] = {}
        for proto in graph.initializer:
            own[proto.name] = initialiser_tensor(
                proto, self._prefix + proto.name, self._folder, self.findings
            )
        for sparse in graph.sparse_initializer:
            dense = Tensor(
                sparse.values.name, dtype_name(sparse.values.data_type), tuple(sparse.dims), constant=True,
                roots=(self._prefix + sparse.values.name,),
            )  # fmt: skip
            stored = prod(sparse.values.dims)
            size = bytes_of(stored, dense.dtype) + 8 * prod(sparse.indices.dims)
            self.findings.roots[dense.roots[0]] = Root(stored, size, dense.dtype, True)
            own[dense.name] = dense
        own.update(arguments)
        self._scope = ChainMap(own, outer) if outer is not None else own
        for value in (*graph.value_info, *graph.output):
            self._declared[value.name] = read_type(value.type)
        order = sorted_nodes(graph.node, set(own) | set(outer or ()), self._where)
        live = live_nodes(order, [value.name for value in graph.output])
        self.findings.dead += len(order) - len(live)
        for index, proto in live:
            self._step(index, proto)
        results = []
        for value in graph.output:
            if value.name not in self._scope:
                raise HeadwayError(f"{self._where}: output {value.name!r} is made by no node")
            results.append(self._scope[value.name])
        return results

    def _step(self, index: int, proto: NodeProto) -> None:
        inputs = [self._scope[name] if name else None for name in proto.input]
        if proto.op_type == "Constant" and not proto.domain:
            self._scope[proto.output[0]] = self._constant(proto)
            return
        attributes = attribute_values(proto)
        if proto.op_type in ("Shape", "Size") and not proto.domain and inputs[0] is not None and self._fold:
            value = shape_value(proto, inputs[0], attributes)
            if value is not None:
                self._scope[proto.output[0]] = Tensor(
                    proto.output[0], "int64", tuple(value.shape), constant=True, _value=value
                )
                self.findings.folded += 1
                return
        label = node_label(proto, index)
        constant = foldable(proto) and all(tensor is None or tensor.constant for tensor in inputs)
        node = Node(
            op=proto.op_type,
            domain=proto.domain,
            label=label,
            version=self.inference.version(proto),
            attributes=attributes,
            inputs=inputs,
            outputs=self._outputs(proto, inputs, label),
            walk_body=lambda body, arguments: self._body(body, arguments, label, index),
        )
        self._settle_contributed(node)
        self._settle_measured(node)
        if constant:
            self._evaluate(proto, node)
            if self._fold:
                self.findings.folded += 1
                return
        work = self._work(node, proto)
        self._settle_measured(node)
        if not node.outputs or all(output is None or not output.known for output in node.outputs):
            self._assume(node, proto)
        for output in node.outputs:
            if output is not None:
                output.constant = False
                output.layout = work.layout
                if not output.known:
                    self.findings.unknown_tensors.append(output.name)
        if proto.op_type == "DequantizeLinear" and inputs[0] is not None:
            node.output.stored = inputs[0].stored or inputs[0].dtype
        self.entries.append(Entry(index, node, work, proto.name))

    def _constant(self, proto: NodeProto) -> Tensor:
        from onnx import AttributeProto, numpy_helper

        attribute = proto.attribute[0]
        name = proto.output[0]
        root = self._prefix + name
        if attribute.type == AttributeProto.TENSOR:
            size = prod(attribute.t.dims)
            tensor = initialiser_tensor(attribute.t, root, self._folder, self.findings, counted=size > 1)
            tensor.name = name
            return tensor
        made = evaluate(proto, [], self.inference.version(proto))
        if made is None:
            raise HeadwayError(f"{self._where}: constant {name!r} cannot be read")
        value = made[0]
        tensor = initialiser_tensor(
            numpy_helper.from_array(value), root, "", self.findings, counted=value.size > 1
        )
        tensor.name = name
        return tensor

    def _outputs(self, proto: NodeProto, inputs: Sequence[Tensor | None], label: str) -> list[Tensor | None]:
        types: list[tuple[str, Shape | None, bool] | None] = [None] * len(proto.output)
        if not any(True for _ in bodies_of(proto)):
            try:
                types = self.inference.output_types(proto, inputs)
            except InferenceProblem as problem:
                self.findings.problems.append(f"{self._where}: {label}: {problem}")
        outputs: list[Tensor | None] = []
        roots = _inherited_roots(proto, inputs)
        constant = all(tensor is None or tensor.constant for tensor in inputs)
        for position, name in enumerate(proto.output):
            found = types[position] if position < len(types) else None
            declared = self._declared.get(name)
            dtype, shape, sequence = found or declared or ("float32", None, False)
            if (
                found is None
                and declared is not None
                and self.inference.has_schema(proto.domain, proto.op_type)
            ):
                shape = None  # a stale annotation must not stand where inference can be expected to answer
            tensor = Tensor(name, dtype, shape, sequence=sequence, constant=constant) if name else None
            if tensor is not None:
                tensor.roots = roots if constant else ()
                self._scope[name] = tensor
            outputs.append(tensor)
        self._check_elements(proto, inputs, outputs, label)
        self._count_members(proto, inputs, outputs)
        return outputs

    def _check_elements(
        self, proto: NodeProto, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None], label: str
    ) -> None:
        # ONNX's inference takes the target of a Reshape at its word.
        if proto.op_type != "Reshape" or not outputs or inputs[0] is None or outputs[0] is None:
            return
        before, after = inputs[0], outputs[0]
        if before.known and after.known and before.elements != after.elements:
            self.findings.problems.append(
                f"{self._where}: {label}: {list(before.sizes)} ({before.elements} elements) cannot take the shape "
                f"{list(after.sizes)} ({after.elements} elements): a size is fixed inside the model"
            )
            after.shape = None

    def _count_members(
        self, proto: NodeProto, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None]
    ) -> None:
        # A sequence has no shape, but what is put into it says how many elements it holds.
        output = outputs[0] if outputs else None
        if output is None or not output.sequence:
            return
        members = [tensor for tensor in inputs if tensor is not None]
        if proto.op_type == "SequenceConstruct" and all(tensor.known for tensor in members):
            output.sequence_elements = sum(tensor.elements for tensor in members)
        elif proto.op_type == "SplitToSequence" and members[0].known:
            output.sequence_elements = members[0].elements
        elif proto.op_type == "SequenceEmpty":
            output.sequence_elements = 0
        elif proto.op_type == "SequenceInsert" and members[0].known and members[1].known:
            output.sequence_elements = members[0].elements + members[1].elements
        elif proto.op_type in ("SequenceErase", "Identity") and members[0].known:
            output.sequence_elements = members[0].elements

    def _settle_contributed(self, node: Node) -> None:
        try:
            known = contributed_outputs(node)
        except (UnknownShapeError, TypeError, IndexError, ValueError, ZeroDivisionError):
            return
        for output, (dtype, shape) in zip(node.outputs, known or (), strict=False):
            if output is not None:
                output.dtype, output.shape = dtype, shape

    def _settle_measured(self, node: Node) -> None:
        for output in node.outputs:
            if output is None or output.known:
                continue
            if output.name not in self._measured:
                dtype, shape, sequence = self._declared.get(output.name, ("", None, False))
                if (
                    self._trust_declared
                    and dtype
                    and not sequence
                    and shape is not None
                    and None not in shape
                ):
                    output.shape = shape
                continue
            shapes = self._measured[output.name]
            if output.sequence:
                output.sequence_elements = sum(prod(size or 0 for size in shape) for shape in shapes)
            else:
                output.shape = shapes[0]
            self.findings.measured_used.append(output.name)

    def _evaluate(self, proto: NodeProto, node: Node) -> None:
        values = [None if tensor is None else tensor.value for tensor in node.inputs]
        if any(
            value is None and tensor is not None for value, tensor in zip(values, node.inputs, strict=True)
        ):
            return
        if any(
            output is not None and output.known and output.elements > MAX_FOLDED_ELEMENTS
            for output in node.outputs
        ):
            return
        made = evaluate(proto, values, node.version)
        for output, value in zip(node.outputs, made or (), strict=False):
            if output is not None:
                output.value = value
                output.shape = tuple(value.shape)

    def _work(self, node: Node, proto: NodeProto) -> Work:
        formula = formula_of(node.domain, node.op)
        if formula is not None:
            try:
                work = formula(node)
            except (UnknownShapeError, IndexError, TypeError, ZeroDivisionError):
                # Sizes that are missing, or attributes that a file lacks: the bound holds in either case.
                work = _bound(node, "a size that its formula needs is not known")
                self.findings.warnings.append(f"{node.label}: {work.note}; priced by an analytic bound")
        else:
            work = _bound(node, "no formula for this operator")
            self.findings.unknown_ops.append((f"{node.domain or 'ai.onnx'}:{node.op}", node.label))
            for body in bodies_of(proto):
                self.findings.warnings.append(f"{node.label}: its body {body.name!r} is not priced")
        if work.warning:
            self.findings.warnings.append(work.warning)
        return work

    def _assume(self, node: Node, proto: NodeProto) -> None:
        if self.inference.has_schema(proto.domain, proto.op_type) or is_contributed(
            proto.domain, proto.op_type
        ):
            return
        self.findings.warnings.append(
            f"{node.label}: the shape of its output is declared nowhere, so layers behind it are priced by bounds"
        )

    def _body(self, body: GraphProto, arguments: Sequence[Tensor], label: str, place: int) -> BodyCost:
        if self._depth >= _MAX_NESTING:
            raise HeadwayError(f"{self._where}: {label}: bodies nested deeper than {_MAX_NESTING}")
        if len(arguments) < len(body.input) - len(body.initializer):
            raise HeadwayError(
                f"{self._where}: {label}: its body {body.name!r} has {len(body.input)} inputs, and is given {len(arguments)}"
            )
        walk = Walk(
            self.inference,
            self.findings,
            where=self._where,
            folder=self._folder,
            prefix=f"{self._prefix}{place}/{body.name}/",
            depth=self._depth + 1,
        )
        named = {}
        for value, tensor in zip(body.input, arguments, strict=False):
            tensor.name = value.name
            named[value.name] = tensor
        return body_cost(walk, walk.run(body, named, self._scope), arguments)


def _inherited_roots(proto: NodeProto, inputs: Sequence[Tensor | None]) -> tuple[str, ...]:
    """Weights that a constant result stands for: not the shapes, axes, scales and zero points that led to it."""
    quantised = proto.op_type in ("QuantizeLinear", "DequantizeLinear")
    return tuple(
        dict.fromkeys(
            root
            for position, tensor in enumerate(inputs)
            if tensor is not None and (position == 0 or not (quantised or tensor.dtype == "int64"))
            for root in tensor.roots
        )
    )


def _bound(node: Node, cause: str) -> Work:
    """The analytic bound: every output element one operation, and every weight of a product used once."""
    sizes = [
        tensor.elements for tensor in (*node.outputs, *node.inputs) if tensor is not None and tensor.known
    ]
    weights = sum(
        tensor.elements for tensor in node.inputs if tensor is not None and tensor.constant and tensor.known
    )
    made = [tensor.elements for tensor in node.outputs if tensor is not None and tensor.known]
    product = node.op in (
        "Conv",
        "ConvTranspose",
        "MatMul",
        "Gemm",
        "Einsum",
        "LSTM",
        "GRU",
        "RNN",
        "QLinearMatMul",
    )
    return Work(
        kind=LayerKind.OTHER,
        macs=weights if product else 0,
        vector_ops=max(1, sum(made) if made else max(sizes, default=1)),
        bounded=True,
        note=cause,
    )


def body_cost(walk: Walk, outputs: Sequence[Tensor], arguments: Sequence[Tensor]) -> BodyCost:
    """Sums over a body's walk."""
    made = {id(tensor) for entry in walk.entries for tensor in entry.node.outputs if tensor is not None}
    captured: dict[int, Tensor] = {}
    roots: dict[str, None] = {}
    weight_bytes = moved = 0
    own = {id(tensor) for tensor in arguments}
    for entry in walk.entries:
        used = weight_roots(entry.node, entry.work)
        roots.update(dict.fromkeys((*used, *entry.work.extra_roots)))
        weight_bytes += sum(walk.findings.roots[root].bytes for root in used) + entry.work.extra_weight_bytes
        tensors = [tensor for _, tensor in entry.node.activations]
        for tensor in (*tensors, *entry.work.captured):
            if id(tensor) not in made and id(tensor) not in own:
                captured[id(tensor)] = tensor
        moved += sum(t.bytes for t in (*tensors, *entry.node.outputs) if t is not None and t.known)
    for tensor in outputs:
        if not tensor.constant and id(tensor) not in made and id(tensor) not in own:
            captured[id(tensor)] = tensor
    return BodyCost(
        macs=sum(entry.work.macs for entry in walk.entries),
        vector_ops=sum(entry.work.vector_ops for entry in walk.entries),
        weight_bytes=weight_bytes,
        moved_bytes=moved,
        roots=tuple(roots),
        captured=tuple(captured.values()),
        outputs=tuple(outputs),
        bounded=any(entry.work.bounded for entry in walk.entries),
    )


def weight_roots(node: Node, work: Work) -> list[str]:
    """Initialisers that a node reads as data, not as settings, each once."""
    return list(
        dict.fromkeys(
            root
            for position, tensor in enumerate(node.inputs)
            if tensor is not None and tensor.constant and position not in work.settings
            for root in tensor.roots
        )
    )
