"""Sizes that do not fit each other and that ONNX's own inference lets pass, with the cause in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headway.models.operators import NCHWC, channels_last
from headway.models.tensors import Tensor

# Where the weight stands among the inputs of an operator with a sliding window; None: the window is an
# attribute.
_WINDOWS: Final[dict[str, int | None]] = {
    "Conv": 1,
    "FusedConv": 1,
    "ConvInteger": 1,
    "QLinearConv": 3,
    "MaxPool": None,
    "AveragePool": None,
    "LpPool": None,
    "QLinearAveragePool": None,
}
_RECURRENT: Final = frozenset({"LSTM", "GRU", "RNN"})


def misfit(
    domain: str,
    op: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor | None],
) -> str:
    """Why a node whose types were inferred cannot run at these sizes all the same, or ""."""
    first = inputs[0] if inputs else None
    made = outputs[0] if outputs else None
    if op == "Reshape":
        return _reshape(first, made)
    if cause := _channels(domain, op, attributes, inputs):
        return cause
    if op in _WINDOWS and (cause := _window(domain, op, attributes, inputs)):
        return cause
    for tensor in outputs:
        if tensor is not None and any(size is not None and size < 0 for size in tensor.shape or ()):
            return f"its output {tensor.name!r} would have the shape {list(tensor.shape or ())}"
    return ""


def _reshape(before: Tensor | None, after: Tensor | None) -> str:
    """Inference takes the target of a Reshape at its word."""
    if before is None or after is None or not before.known or not after.known:
        return ""
    if before.elements == after.elements:
        return ""
    return (
        f"{list(before.sizes)} ({before.elements} elements) cannot take the shape {list(after.sizes)} "
        f"({after.elements} elements): a size is fixed inside the model"
    )


def _channels(domain: str, op: str, attributes: Mapping[str, Any], inputs: Sequence[Tensor | None]) -> str:
    """Inference does not compare the channels of an input with those that the weight is for."""
    place = 1 if op in _RECURRENT or op == "ConvTranspose" else _WINDOWS.get(op)
    if place is None or place >= len(inputs) or domain == NCHWC:  # blocked maps hold channels of padding
        return ""
    data, weight = inputs[0], inputs[place]
    if data is None or weight is None or not data.known or not weight.known:
        return ""
    if len(data.sizes) < 3 or len(weight.sizes) < 3:
        return ""
    found = data.sizes[-1 if op in _RECURRENT or channels_last(domain, attributes) else 1]
    groups = attributes.get("group", 1)
    if op in _RECURRENT:
        wanted = weight.sizes[2]
    else:
        wanted = weight.sizes[0] if op == "ConvTranspose" else weight.sizes[1] * groups
    if found != wanted:
        return f"its input has {found} channels, and its weight is for {wanted}"
    if op in _WINDOWS and weight.sizes[0] % groups:
        return f"its {weight.sizes[0]} output channels cannot be divided into {groups} groups"
    return ""


def _window(domain: str, op: str, attributes: Mapping[str, Any], inputs: Sequence[Tensor | None]) -> str:
    """Inference rounds the size behind a window that is larger than its input to 1, to 0, or below."""
    data = inputs[0]
    place = _WINDOWS[op]
    weight = inputs[place] if place is not None and place < len(inputs) else None
    kernel = tuple(attributes.get("kernel_shape") or (weight.sizes[2:] if weight and weight.known else ()))
    if data is None or not data.known or data.sequence or not kernel or attributes.get("ceil_mode", 0):
        return ""
    if attributes.get("auto_pad", "NOTSET").startswith("SAME"):
        return ""
    rank = len(kernel)
    pads = attributes.get("pads") or [0] * (2 * rank)
    dilations = attributes.get("dilations") or [1] * rank
    if len(data.sizes) != rank + 2 or len(pads) != 2 * rank or len(dilations) != rank:
        return ""
    first = 1 if channels_last(domain, attributes) else 2
    for axis, size in enumerate(data.sizes[first : first + rank]):
        padded = size + pads[axis] + pads[rank + axis]
        span = dilations[axis] * (kernel[axis] - 1) + 1
        if span > padded:
            where = f"axis {axis + first}, padding included"
            return f"its window of {span} does not fit into the {padded} of {where}"
    return ""
