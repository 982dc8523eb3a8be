"""The walk over a graph's nodes in topological order: shapes, constants and each node's work."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.constants import constant_tensor, inherited_roots, initialisers
from headway.models.contributed import contributed_outputs, is_contributed
from headway.models.findings import Entry, Findings, analytic_bound, body_cost
from headway.models.inference import (
    MAX_FOLDED_ELEMENTS,
    Inference,
    InferenceProblem,
    evaluate,
    foldable,
    read_type,
    sequence_elements,
    shape_value,
)
from headway.models.misfits import misfit
from headway.models.node_order import bodies_of, live_nodes, node_label, sorted_nodes
from headway.models.operators import BodyCost, Node, Work, attribute_values, formula_of
from headway.models.tensors import Shape, Tensor, UnknownShapeError

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, NodeProto

_MAX_NESTING: Final = 32


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
        inside: str = "",
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
        self._inside = inside
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
        own = initialisers(graph, self._prefix, self._folder, self.findings.roots)
        own.update(arguments)
        self._scope = ChainMap(own, outer) if outer is not None else own
        for value in (*graph.value_info, *graph.output):
            self._declared[value.name] = read_type(value.type)
        order = sorted_nodes(graph.node, set(own), self._where, set(outer or ()))
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
        for name in proto.input:
            if name and name not in self._scope:
                raise HeadwayError(
                    f"{self._where}: {node_label(proto, index)} reads tensor {name!r}, an output that the "
                    "operator which should make it does not have"
                )
        inputs = [self._scope[name] if name else None for name in proto.input]
        if proto.op_type == "Constant" and not proto.domain:
            made = constant_tensor(
                proto, self.inference.version(proto), self._prefix, self._folder, self.findings.roots
            )
            if made is None:
                raise HeadwayError(f"{self._where}: constant {proto.output[0]!r} cannot be read")
            self._scope[made.name] = made
            return
        attributes = attribute_values(proto)
        shown = inputs[0] if inputs and proto.op_type in ("Shape", "Size") and not proto.domain else None
        if shown is not None and self._fold:
            value = shape_value(proto, shown, attributes)
            if value is not None:
                self._scope[proto.output[0]] = Tensor(
                    proto.output[0], "int64", tuple(value.shape), constant=True, _value=value
                )
                self.findings.folded += 1
                return
        label = node_label(proto, index) + self._inside
        constant = foldable(proto) and all(tensor is None or tensor.constant for tensor in inputs)
        node = Node(
            op=proto.op_type,
            domain=proto.domain,
            label=label,
            version=self.inference.version(proto),
            attributes=attributes,
            inputs=inputs,
            outputs=self._outputs(proto, attributes, inputs, label),
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
                if not output.known and self._depth == 0:
                    self.findings.unknown_tensors.append(output.name)
        if proto.op_type == "DequantizeLinear" and inputs and inputs[0] is not None:
            node.output.stored = inputs[0].stored or inputs[0].dtype
        self.entries.append(Entry(index, node, work, proto.name))

    def _outputs(
        self,
        proto: NodeProto,
        attributes: Mapping[str, Any],
        inputs: Sequence[Tensor | None],
        label: str,
    ) -> list[Tensor | None]:
        types: list[tuple[str, Shape | None, bool] | None] = [None] * len(proto.output)
        if not any(True for _ in bodies_of(proto)):
            try:
                types = self.inference.output_types(proto, inputs)
            except InferenceProblem as cause:
                self.findings.problems.append(f"{self._where}: {label}: {cause}")
        outputs: list[Tensor | None] = []
        roots = inherited_roots(proto, inputs)
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
        first = outputs[0] if outputs else None
        inferred = bool(types) and types[0] is not None
        problem = misfit(proto.domain, proto.op_type, attributes, inputs, outputs) if inferred else ""
        if problem:
            self.findings.problems.append(f"{self._where}: {label}: {problem}")
            for tensor in outputs:
                if tensor is not None:
                    tensor.shape = None
        if first is not None and first.sequence:
            first.sequence_elements = sequence_elements(proto, inputs)
        return outputs

    def _settle_contributed(self, node: Node) -> None:
        try:
            known = contributed_outputs(node)
        except (UnknownShapeError, TypeError, IndexError, ValueError, ZeroDivisionError):
            return
        for output, (dtype, shape) in zip(node.outputs, known or (), strict=False):
            if output is not None and all(size is None or size >= 0 for size in shape):
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
        known = all(output is None or output.known for output in node.outputs)
        if known and any(output and output.elements > MAX_FOLDED_ELEMENTS for output in node.outputs):
            return

        def results() -> list[np.ndarray] | None:
            values = [None if tensor is None else tensor.value for tensor in node.inputs]
            given = zip(values, node.inputs, strict=True)
            if any(value is None and tensor is not None for value, tensor in given):
                return None
            return evaluate(proto, values, node.version)

        if known:
            # Most constants are weights, and only a shape that needs its value is worth the evaluation.
            made = cache(results)
            for position, output in enumerate(node.outputs):
                if output is not None:
                    output.read_value = partial(_pick, made, position)
            return
        for output, value in zip(node.outputs, results() or (), strict=False):
            if output is not None:
                output.value = value
                output.shape = tuple(value.shape)

    def _work(self, node: Node, proto: NodeProto) -> Work:
        formula = formula_of(node.domain, node.op)
        if formula is not None:
            try:
                work = formula(node)
                if min(work.macs, work.vector_ops) < 0:
                    raise ValueError(node.label)
            except HeadwayError:
                raise
            except (UnknownShapeError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError):
                # Sizes that are missing, or attributes that are missing or of the wrong kind: the bound
                # holds in either case.
                work = analytic_bound(node, "a size or setting that its formula needs is not known")
                self.findings.warnings.append(f"{node.label}: {work.note}; priced by an analytic bound")
        else:
            work = analytic_bound(node, "no formula for this operator")
            self.findings.unknown_ops.append((f"{node.domain or 'ai.onnx'}:{node.op}", node.label))
            for body in bodies_of(proto):
                self.findings.warnings.append(f"{node.label}: its body {body.name!r} is not priced")
        if work.warning:
            self.findings.warnings.append(work.warning)
        self.findings.problems.extend(work.problems)
        return work

    def _assume(self, node: Node, proto: NodeProto) -> None:
        if self.inference.has_schema(proto.domain, proto.op_type) or is_contributed(
            proto.domain, proto.op_type
        ):
            return
        self.findings.warnings.append(
            f"{node.label}: the shape of its output is declared nowhere, so layers behind it may be "
            "priced by bounds"
        )

    def _body(self, body: GraphProto, arguments: Sequence[Tensor], label: str, place: int) -> BodyCost:
        if self._depth >= _MAX_NESTING:
            raise HeadwayError(f"{self._where}: {label}: bodies nested deeper than {_MAX_NESTING}")
        if len(arguments) < len(body.input) - len(body.initializer):
            raise HeadwayError(
                f"{self._where}: {label}: its body {body.name!r} has {len(body.input)} inputs, "
                f"and is given {len(arguments)}"
            )
        walk = Walk(
            self.inference,
            self.findings,
            where=self._where,
            folder=self._folder,
            prefix=f"{self._prefix}{place}/{body.name}/",
            inside=f" in the body of {label}",
            depth=self._depth + 1,
        )
        named = {}
        for value, tensor in zip(body.input, arguments, strict=False):
            tensor.name = value.name
            named[value.name] = tensor
        before = len(self.findings.problems)
        outputs = walk.run(body, named, self._scope)
        problems = tuple(self.findings.problems[before:])
        del self.findings.problems[before:]  # the formula says whether they matter
        cost = body_cost(walk.entries, self.findings.roots, outputs, arguments)
        return replace(cost, problems=problems)


def _pick(results: Callable[[], list[np.ndarray] | None], position: int) -> np.ndarray | None:
    made = results()
    return made[position] if made is not None and position < len(made) else None
