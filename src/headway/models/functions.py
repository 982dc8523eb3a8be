"""Model-local functions, expanded where they are called, and domain names in their short form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

_LARGE_BYTES: Final = 1 << 10


def without_functions(model: ModelProto, where: str) -> ModelProto:
    """The model with each call of a local function replaced by the function's nodes; the given one stays.

    Raises:
        HeadwayError: functions that call each other in a circle or otherwise cannot be expanded.
    """
    from onnx import inliner

    if not model.functions:
        return _short_domains(model)
    light = _without_weights(model)
    try:
        flat = inliner.inline_local_functions(light)
        if flat.functions:
            # Functions written for another operator set stay; ask for their conversion.
            flat = inliner.inline_local_functions(light, convert_version=True)
    except Exception as error:
        # The inliner reports every malformed function as a bare RuntimeError or one of its subclasses.
        raise HeadwayError(
            f"{where}: its local functions cannot be expanded: {' '.join(str(error).split())}"
        ) from error
    del flat.graph.initializer[:]
    flat.graph.initializer.extend(model.graph.initializer)
    return _short_domains(flat)


def _without_weights(model: ModelProto) -> ModelProto:
    from onnx import ModelProto

    light = ModelProto()
    light.CopyFrom(model)
    for tensor in light.graph.initializer:
        if tensor.ByteSize() > _LARGE_BYTES:
            for data in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(data)
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
