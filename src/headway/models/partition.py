"""From an ordered graph and places to cut it to ONNX models, one for each block."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError
from headway.models.ordered_graph import OrderedGraph, functions_called
from headway.models.value_types import ValueType

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_FIRST_IR_WITHOUT_LISTED = 4


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Nodes [first, end) of an ordered graph as a model of their own.

    `inputs` are made by earlier blocks, `request_inputs` are brought by the request; `overridable` are
    initialisers here that the request may replace. `outputs` are read by later blocks or are results. A
    block without outputs has nothing to run.
    """

    first: int
    end: int
    inputs: tuple[str, ...]
    request_inputs: tuple[str, ...]
    overridable: tuple[str, ...]
    outputs: tuple[str, ...]
    initialisers: tuple[str, ...]


def parts_of(graph: OrderedGraph, positions: Sequence[int]) -> tuple[BlockPart, ...]:
    """What each block reads and makes.

    Raises:
        HeadwayError: positions that are not strictly increasing between 1 and the number of nodes less one.
    """
    bounds = (0, *positions, len(graph))
    if any(not 0 < position < len(graph) for position in positions) or any(
        later <= earlier for earlier, later in pairwise(positions)
    ):
        raise HeadwayError(
            f"cuts at {list(positions)}; accepted: increasing positions from 1 to {len(graph) - 1}, "
            f"since the graph has {len(graph)} nodes"
        )
    results = set(graph.outputs)
    last_read = {name: place for place, names in enumerate(graph.reads) for name in names}
    stored = set(graph.initialisers) | set(graph.sparse)
    makers = graph.made
    parts = []
    for first, end in pairwise(bounds):
        made = {name: None for names in graph.makes[first:end] for name in names}
        read = {name: None for names in graph.reads[first:end] for name in sorted(names)}
        weights = tuple(name for name in read if name in stored)
        parts.append(
            BlockPart(
                first=first,
                end=end,
                inputs=tuple(name for name in read if name in makers and name not in made),
                request_inputs=tuple(name for name in read if name in graph.inputs),
                overridable=tuple(name for name in weights if name in graph.overridable),
                outputs=tuple(name for name in made if name in results or last_read.get(name, -1) >= end),
                initialisers=weights,
            )
        )
    return tuple(parts)


def block_model(graph: OrderedGraph, part: BlockPart, types: Mapping[str, ValueType]) -> ModelProto:
    """The ONNX model of one block; weights that lie in a file are referred to, not copied.

    Boundaries are declared as `types` has them, whatever the model's own annotations say.
    """
    from onnx import ModelProto, ValueInfoProto

    model = ModelProto(ir_version=graph.model.ir_version)
    model.opset_import.extend(graph.model.opset_import)
    nodes = graph.nodes[part.first : part.end]
    model.functions.extend(functions_called(iter(nodes), graph.model))
    model.graph.name = "block"
    model.graph.node.extend(nodes)
    for weight in part.initialisers:
        if weight in graph.sparse:
            model.graph.sparse_initializer.append(graph.sparse[weight])
        else:
            model.graph.initializer.append(graph.initialisers[weight])
    model.graph.input.extend(
        ValueInfoProto(name=tensor, type=types[tensor].proto()) for tensor in part.inputs
    )
    model.graph.input.extend(graph.listed[tensor] for tensor in part.request_inputs)
    listed = part.initialisers if graph.model.ir_version < _FIRST_IR_WITHOUT_LISTED else part.overridable
    for tensor in listed:
        if tensor in graph.listed:
            model.graph.input.append(graph.listed[tensor])
        else:
            # A Constant node that became an initialiser; old IR versions list those too.
            proto = graph.initialisers[tensor]
            model.graph.input.append(_value_info(tensor, proto.data_type, proto.dims))
    model.graph.output.extend(
        ValueInfoProto(name=tensor, type=types[tensor].proto()) for tensor in part.outputs
    )
    return model


def content_hash(model: ModelProto, weights_hash: str) -> str:
    """A hash of a block's graph together with that of the file its weights come from."""
    digest = hashlib.sha256(weights_hash.encode())
    digest.update(model.SerializeToString(deterministic=True))
    return digest.hexdigest()


def _value_info(name: str, elem_type: int, dims: Sequence[int]) -> ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(name, elem_type, list(dims))
