"""The model as it was given, as a file that ONNX Runtime opens: the file itself, or a repaired copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.models.model_file import ModelFile
from headway.models.node_order import bodies_of, duplicate_name
from headway.models.runtime_session import SessionSettings, open_session
from headway.models.weight_store import Workspace, detach_weights

if TYPE_CHECKING:
    from onnx import GraphProto, TypeProto


@dataclass(frozen=True, slots=True)
class WholeModel:
    """The model as it was given, as a file that ONNX Runtime opens."""

    path: Path
    where: str

    def open(self, settings: SessionSettings | None = None) -> Any:
        """A session of the whole model, all optimisations on unless the settings say otherwise.

        Raises:
            HeadwayError: ONNX Runtime refuses it.
        """
        return open_session(self.path, settings or SessionSettings(), where=self.where)


def whole_model(file: ModelFile, workspace: Workspace, shapes: Mapping[str, tuple[int, ...]]) -> WholeModel:
    """The given file itself where ONNX Runtime can take it, else a repaired copy."""
    graph = file.model.graph
    stored = {tensor.name for tensor in graph.initializer}
    open_inputs = [value for value in graph.input if value.name not in stored and _is_open(value.type)]
    if file.path is not None and not _names_twice(graph) and not (shapes and open_inputs):
        return WholeModel(file.path.absolute(), file.where)
    path = workspace.folder / "whole.onnx"
    light = detach_weights(file.model, file.folder, path.with_suffix(".bin"), where=file.where)
    name_nodes(light.graph)
    fix_sizes(light.graph, shapes)
    path.write_bytes(light.SerializeToString())
    return WholeModel(path, file.where)


def _is_open(proto: TypeProto) -> bool:
    return proto.HasField("tensor_type") and any(
        not dim.HasField("dim_value") or dim.dim_value < 0 for dim in proto.tensor_type.shape.dim
    )


def fix_sizes(graph: GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for value in graph.input:
        if value.name in shapes and _is_open(value.type):
            for dim, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True):
                if size:  # 0 leaves it open
                    dim.dim_value = size


def _graphs(graph: GraphProto) -> Iterable[GraphProto]:
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from _graphs(body)


def _names_twice(graph: GraphProto) -> bool:
    """Whether two nodes of one graph have the same name, which ONNX Runtime refuses."""
    return any(duplicate_name(part.node) is not None for part in _graphs(graph))


def name_nodes(graph: GraphProto) -> None:
    """Give each node a name of its own, bodies included; the first of several keeps theirs."""
    nodes = [node for part in _graphs(graph) for node in part.node]
    taken = {node.name for node in nodes if node.name}
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if not node.name or node.name in seen:
            name = f"{node.name or node.op_type}_{index}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)
        seen.add(node.name)
