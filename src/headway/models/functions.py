"""Model-local functions, expanded where they are called, and domain names in their short form."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError
from headway.models.inference import MAX_FOLDED_ELEMENTS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


def without_functions(model: ModelProto, where: str) -> ModelProto:
    """The model with each call of a local function replaced by the function's nodes; the given one stays.

    Large weights keep type and shape but lose their data in an expanded model.

    Raises:
        HeadwayError: functions that call each other in a circle or otherwise cannot be expanded.
    """
    from onnx import inliner

    if not model.functions:
        return _short_domains(model)
    light = _without_weights(model)
    try:
        flat = inliner.inline_local_functions(light)
    except Exception as error:
        # The inliner reports every malformed function as a bare RuntimeError or one of its subclasses.
        raise HeadwayError(
            f"{where}: its local functions cannot be expanded: {' '.join(str(error).split())}"
        ) from error
    if flat.functions:
        # Functions written for another operator set stay; they expand if their operators can be converted,
        # and else are operators without a formula.
        with suppress(Exception):
            flat = inliner.inline_local_functions(light, convert_version=True)
    return _short_domains(flat)


def with_weights(flat: ModelProto, model: ModelProto) -> ModelProto:
    """An expanded model with the data of the weights of the model that it came from."""
    from onnx import ModelProto

    full = ModelProto()
    full.CopyFrom(flat)
    del full.graph.initializer[:]
    full.graph.initializer.extend(model.graph.initializer)
    return full


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy in which large initialisers have type and shape but no data, which is never copied."""
    from onnx import ModelProto

    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = model.graph
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    light.graph.sparse_initializer.extend(graph.sparse_initializer)
    for tensor in graph.initializer:
        if prod(tensor.dims) > MAX_FOLDED_ELEMENTS:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.append(tensor)
    return light


def _short_domains(model: ModelProto) -> ModelProto:
    """Nodes of domain "ai.onnx" as nodes of domain "", which is the same; a copy only if there are any."""
    from onnx import ModelProto

    if not any(node.domain == "ai.onnx" for node in model.graph.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)

    def shorten(graph: GraphProto) -> None:
        for node in graph.node:
            if node.domain == "ai.onnx":
                node.domain = ""
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    shorten(attribute.g)
                for body in attribute.graphs:
                    shorten(body)

    shorten(copy.graph)
    return copy
