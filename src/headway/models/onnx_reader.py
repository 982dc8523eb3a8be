"""From an ONNX model to an immutable graph of layers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.models import runtime
from headway.models.dimensions import Binding, bind_inputs
from headway.models.findings import Findings
from headway.models.functions import with_weights, without_functions
from headway.models.graph import Graph
from headway.models.inference import Inference
from headway.models.layer_list import LayerList
from headway.models.model_file import ModelFile, read_model
from headway.models.node_order import duplicate_name
from headway.models.tensors import Shape, Tensor
from headway.models.walk import Walk

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

_MAX_MEASURED_BYTES: Final = 4 << 30
_RUNTIME_DOMAINS: Final = frozenset(
    {"ai.onnx.ml", "ai.onnx.training", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"}
)


def load_model(
    path: str | os.PathLike[str] | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    check_runtime: bool = False,
) -> Graph:
    """Read an ONNX model as a graph of layers.

    Args:
        path: a file, or a model in memory; tensors whose external data is absent are read for their shapes.
        dims: sizes of symbolic dimensions, by name or as INPUT.AXIS; others get a default that is said in
            `Graph.dims_assumed` and `Graph.warnings`.
        name: the graph's name; by default the file's, else the model's own.
        check_runtime: also ask ONNX Runtime whether it takes the model (`Graph.runnable`, `Graph.refusal`).

    Raises:
        HeadwayError: a file that is not there or not an ONNX model, a graph that is not well formed, sizes
            that contradict the file or each other, or external data outside the model's folder.
    """
    file = read_model(path)
    model = without_functions(file.model, file.where)
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    binding = bind_inputs(inputs, dims or {}, _channels(graph), file.where)
    reading = _Reading(file, model, binding)
    walk = reading.walk()
    findings = walk.findings
    builder = LayerList(findings.roots, [value.name for value in graph.output])
    layers = builder.build(walk.entries)
    weights = [findings.roots[root] for root in builder.used_roots]
    runnable, refusal = _runnable(file, graph, findings, check_runtime)
    unknown = _unknown_nodes(findings)
    return Graph(
        name=name or (file.path.stem if file.path is not None else graph.name or "model"),
        layers=layers,
        content_hash=file.content_hash,
        params=sum(weight.elements for weight in weights),
        weight_bytes=sum(weight.bytes for weight in weights),
        source=str(Path(file.where)) if file.path is not None else "",
        dims_bound=MappingProxyType(dict(binding.bound)),
        dims_assumed=binding.assumed,
        unknown_ops=MappingProxyType({op: len(nodes) for op, nodes in unknown.items()}),
        unknown_nodes=MappingProxyType({op: tuple(nodes) for op, nodes in unknown.items()}),
        inputs=MappingProxyType({name: _shown(tensor) for name, tensor in binding.inputs.items()}),
        outputs=MappingProxyType({tensor.name: _shown(tensor) for tensor in reading.outputs}),
        weights_present=file.weights_present,
        runnable=runnable,
        refusal=refusal,
        warnings=tuple(
            dict.fromkeys((*file.warnings, *binding.warnings, *_notices(findings), *findings.warnings))
        ),
    )


def _shown(tensor: Tensor) -> tuple[int, ...]:
    return tensor.sizes if tensor.known and not tensor.sequence else ()


def _channels(graph: GraphProto) -> dict[str, int]:
    """Second axis of tensors that a convolution reads, from its weight."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    found: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Conv" and len(node.input) > 1 and len(shapes.get(node.input[1], ())) > 2:
            groups = next((a.i for a in node.attribute if a.name == "group"), 1)
            found[node.input[0]] = shapes[node.input[1]][1] * groups
    return found


class _Reading:
    """Walks of one model: again with measured shapes where inference did not suffice."""

    def __init__(self, file: ModelFile, model: ModelProto, binding: Binding) -> None:
        self._file = file
        self._model = model
        self._binding = binding
        self._opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
        self.outputs: Sequence[Tensor] = ()

    def walk(self) -> Walk:
        """The walk to build layers from.

        Raises:
            HeadwayError: nodes whose inputs do not fit, and ONNX Runtime does not run the model either.
        """
        walk = self._once({}, fold=True, trust_declared=False)
        fold = True
        if not walk.entries:
            # All of it is constant: then the nodes are the work there is.
            fold = False
            walk = self._once({}, fold=False, trust_declared=False)
        findings = walk.findings
        if not findings.unknown_tensors and not findings.problems:
            return walk
        problems = findings.problems
        measured: dict[str, Sequence[Shape]] = {}
        cause = "weights are absent"
        if self._file.weights_present:
            if not all(tensor.known for tensor in self._binding.inputs.values()):
                cause = "an input has no shape"
            elif self._activation_bytes(walk) > _MAX_MEASURED_BYTES:
                cause = "its tensors are too large to measure"
            else:
                try:
                    measured = runtime.measure_shapes(
                        self._file, self._whole_model(), self._binding.inputs, findings.unknown_tensors
                    )
                except runtime.RuntimeRefusal as refusal:
                    cause = str(refusal)
        if problems and not measured:
            raise HeadwayError("; ".join((problems[0], *self._binding.warnings)))
        again = self._once(measured, fold=fold, trust_declared=not measured)
        if measured:
            used = dict.fromkeys(again.findings.measured_used)
            if used:
                again.findings.warnings.append(
                    "sizes measured in a run of ONNX Runtime on random inputs, which may depend on data: "
                    f"{_few(used)}"
                )
        else:
            again.findings.warnings.append(f"not measured with ONNX Runtime: {cause}")
        if again.findings.unknown_tensors:
            unknown = dict.fromkeys(again.findings.unknown_tensors)
            again.findings.warnings.append(f"sizes not known, layers priced by bounds: {_few(unknown)}")
        return again

    def _whole_model(self) -> ModelProto:
        if self._model is self._file.model:
            return self._model
        return with_weights(self._model, self._file.model)

    def _once(self, measured: Mapping[str, Sequence[Shape]], *, fold: bool, trust_declared: bool) -> Walk:
        inference = Inference(self._opsets, self._model.ir_version)
        walk = Walk(
            inference,
            Findings(),
            where=self._file.where,
            folder=self._file.folder if self._file.weights_present else "",
            measured=measured,
            fold=fold,
            trust_declared=trust_declared,
        )
        arguments = {}
        for name, tensor in self._binding.inputs.items():
            arguments[name] = Tensor(
                name,
                tensor.dtype,
                tensor.shape,
                sequence=tensor.sequence,
                sequence_elements=tensor.sequence_elements,
            )
        self.outputs = walk.run(self._model.graph, arguments)
        return walk

    @staticmethod
    def _activation_bytes(walk: Walk) -> int:
        tensors = [tensor for entry in walk.entries for tensor in entry.node.outputs]
        return sum(tensor.bytes for tensor in tensors if tensor is not None and tensor.known)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _few(names: Mapping[str, None]) -> str:
    shown = list(names)[:5]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _unknown_nodes(findings: Findings) -> dict[str, list[str]]:
    nodes: dict[str, list[str]] = {}
    for op, label in findings.unknown_ops:
        nodes.setdefault(op, []).append(label)
    return nodes


def _notices(findings: Findings) -> list[str]:
    notices = []
    for op, labels in _unknown_nodes(findings).items():
        notices.append(
            f"no formula for {op} ({len(labels)}): priced by an analytic bound: {_few(dict.fromkeys(labels))}"
        )
    if findings.folded:
        notices.append(f"{findings.folded} nodes depend on no input's data and are folded, not layers")
    if findings.dead:
        notices.append(f"{findings.dead} nodes lead to no output and are left out")
    return notices


def _static_refusal(graph: GraphProto, findings: Findings) -> str:
    """What ONNX Runtime is known to refuse, with node and cause; "" if nothing is known."""
    name = duplicate_name(graph.node)
    if name is not None:
        places = [f"#{index} ({node.op_type})" for index, node in enumerate(graph.node) if node.name == name]
        shown = " and ".join(places)
        return f"node {name!r}: {shown} have one name, and ONNX Runtime requires that names differ"
    for op, label in findings.unknown_ops:
        domain, _, kind = op.rpartition(":")
        if domain != "ai.onnx" and domain not in _RUNTIME_DOMAINS:
            return f"{label}: operator {kind!r} of domain {domain!r} is not registered in ONNX Runtime"
    return ""


def _runnable(file: ModelFile, graph: GraphProto, findings: Findings, ask: bool) -> tuple[bool | None, str]:
    known = _static_refusal(graph, findings)
    if not ask:
        return (False, known) if known else (None, "")
    if not file.weights_present:
        return False, known or "external data is absent"
    try:
        runtime.check(file)
    except runtime.RuntimeRefusal as refusal:
        return False, f"{known}: {refusal}" if known else str(refusal)
    return True, ""
