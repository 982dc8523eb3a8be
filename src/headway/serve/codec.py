"""Inference requests and answers as JSON with the binary tensor data extension.

A body is JSON, then the bytes of the tensors that are not in it, in the order of the inputs (or outputs).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import from_json

from headway.serve.classification import best_classes
from headway.serve.limits import Limits
from headway.serve.protocol.terms import (
    OutputWish,
    Parameters,
    checked_parameters,
    flag,
    output_wish,
    refuse_sequences,
    refuse_shared_memory,
)
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceResult, ModelDescription
from headway.serve.tensors import (
    Array,
    Buffer,
    array_from_bytes,
    array_from_values,
    bytes_of,
    datatype_of,
    element_count,
    invalid,
    shown,
    values_of,
)


@dataclass(frozen=True, slots=True)
class BinaryInput:
    """An input whose bytes are behind the JSON."""

    datatype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The JSON part of a request: inputs whose values it holds are arrays already.

    Without `outputs`, all are asked for, as bytes where `binary_output` says so.
    """

    id: str
    parameters: Parameters
    inputs: Mapping[str, Array | BinaryInput]
    outputs: tuple[OutputWish, ...]
    binary_output: bool


def parsed_json(text: Buffer) -> object:
    """A JSON text's value. Raises Refusal for what is no JSON (NaN is none), or nests too deep."""
    try:
        return from_json(bytes(text), allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        # The parser's message tells of kinds of characters and their place, never of the content.
        raise invalid(f"the JSON cannot be read: {error}") from None


def json_object(text: Buffer) -> dict[str, object]:
    """A JSON object; an empty text is an empty object."""
    value = parsed_json(text) if len(text) else {}
    if type(value) is not dict:
        raise invalid(f"the JSON is {shown(value)}, an object is accepted")
    return value


def decode_head(text: Buffer, limits: Limits) -> RequestHead:
    """Read and check a request's JSON part; raises Refusal naming the field, found and accepted."""
    if len(text) > limits.json_bytes:
        raise Refusal(
            Cause.TOO_LARGE,
            f"the JSON has {len(text)} bytes, at most {limits.json_bytes} are accepted; "
            "send large tensors with the binary tensor data extension",
        )
    fields = json_object(text)
    request_id = fields.get("id", "")
    if type(request_id) is not str:
        raise invalid(f"id is {shown(request_id)}, a string is accepted")
    parameters = checked_parameters(fields.get("parameters"), "parameters")
    refuse_sequences(parameters)
    binary_output = flag(parameters, "binary_data_output", "parameters", False)
    inputs: dict[str, Array | BinaryInput] = {}
    for place, entry in _entries(fields, "inputs", limits):
        name = _name(entry, place)
        if name in inputs:
            raise invalid(f"{place}: the name {shown(name)} is given twice")
        inputs[name] = _input(entry, f"input {shown(name)}", limits)
    if not inputs:
        raise invalid("inputs: none is given, a list of at least one is accepted")
    wishes: dict[str, OutputWish] = {}
    for place, entry in _entries(fields, "outputs", limits):
        name = _name(entry, place)
        if name in wishes:
            raise invalid(f"{place}: the name {shown(name)} is given twice")
        where = f"output {shown(name)}"
        wishes[name] = output_wish(
            name, checked_parameters(entry.get("parameters"), f"{where}: parameters"), where, binary_output
        )
    return RequestHead(request_id, parameters, inputs, tuple(wishes.values()), binary_output)


def _entries(fields: Mapping[str, object], field: str, limits: Limits) -> list[tuple[str, dict[str, object]]]:
    entries = fields.get(field)
    if entries is None:
        return []
    if type(entries) is not list:
        raise invalid(f"{field}: {shown(entries)} is not a list")
    if len(entries) > limits.inputs:
        raise Refusal(
            Cause.TOO_LARGE, f"{field}: {len(entries)} are given, at most {limits.inputs} are accepted"
        )
    for i, entry in enumerate(entries):
        if type(entry) is not dict:
            raise invalid(f"{field}[{i}]: {shown(entry)} is not an object")
    return [(f"{field}[{i}]", entry) for i, entry in enumerate(entries)]


def _name(entry: Mapping[str, object], place: str) -> str:
    name = entry.get("name")
    if type(name) is not str or not name:
        raise invalid(f"{place}: name is {shown(name)}, a string that is not empty is accepted")
    return name


def _input(entry: Mapping[str, object], where: str, limits: Limits) -> Array | BinaryInput:
    datatype, shape = entry.get("datatype"), entry.get("shape")
    if type(datatype) is not str:
        raise invalid(f"{where}: datatype is {shown(datatype)}, a string such as FP32 is accepted")
    if type(shape) is not list:
        raise invalid(f"{where}: shape is {shown(shape)}, a list of integers is accepted")
    element_count(datatype, shape, where, limits)
    parameters = checked_parameters(entry.get("parameters"), f"{where}: parameters")
    refuse_shared_memory(parameters, where)
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in entry:
            raise invalid(f"{where}: has neither data nor the parameter binary_data_size, one is needed")
        return array_from_values(datatype, shape, entry["data"], where, limits)
    if "data" in entry:
        raise invalid(f"{where}: has data and the parameter binary_data_size, only one is accepted")
    if type(size) is not int or size < 0:
        raise invalid(f"{where}: binary_data_size is {shown(size)}, an integer from 0 is accepted")
    return BinaryInput(datatype, tuple(shape), size)


def attach_binary(head: RequestHead, binary: memoryview, limits: Limits) -> dict[str, Array]:
    """All inputs of a request; those behind the JSON become views of `binary`, which they must use up."""
    arrays: dict[str, Array] = {}
    at = 0
    for name, tensor in head.inputs.items():
        if isinstance(tensor, BinaryInput):
            where = f"input {shown(name)}"
            if tensor.size > len(binary) - at:
                raise invalid(
                    f"{where}: binary_data_size is {shown(tensor.size)}, but {len(binary) - at} bytes "
                    "of the body are left"
                )
            data = binary[at : at + tensor.size]
            at += tensor.size
            arrays[name] = array_from_bytes(tensor.datatype, tensor.shape, data, where, limits)
        else:
            arrays[name] = tensor
    if at != len(binary):
        raise invalid(
            f"{len(binary) - at} bytes are left after the last input; Inference-Header-Content-Length is the "
            "length of the JSON, the sum of all binary_data_size the length of the rest"
        )
    return arrays


def wishes_for(head: RequestHead, result: InferenceResult) -> tuple[OutputWish, ...]:
    """The outputs asked for, or all of a result's."""
    return head.outputs or tuple(OutputWish(name, head.binary_output) for name in result.outputs)


def chosen_output(result: InferenceResult, wish: OutputWish, description: ModelDescription | None) -> Array:
    """An output as it is asked for: itself, or strings of its best classes (needs the description)."""
    array = result.outputs[wish.name]
    if wish.classes and description is not None:
        labels = description.labels.get(wish.name, ())
        return best_classes(array, wish.classes, labels, description.max_batch_size > 0, wish.name)
    return array


def encode_answer(
    result: InferenceResult,
    request_id: str,
    wishes: tuple[OutputWish, ...],
    description: ModelDescription | None,
) -> tuple[bytes, list[Buffer]]:
    """The JSON of an answer and the bytes that follow it, which are the outputs' own memory.

    `description` is needed where a wish is for classes. Raises Refusal for values that JSON cannot hold.
    """
    outputs: list[dict[str, object]] = []
    buffers: list[Buffer] = []
    for wish in wishes:
        array = chosen_output(result, wish, description)
        tensor: dict[str, object] = {
            "name": wish.name,
            "datatype": datatype_of(array),
            "shape": list(array.shape),
        }
        if wish.binary:
            content = bytes_of(array)
            tensor["parameters"] = {"binary_data_size": len(content)}
            buffers.append(content)
        else:
            tensor["data"] = values_of(array, wish.name)
        outputs.append(tensor)
    answer: dict[str, object] = {"model_name": result.model, "model_version": result.version}
    if request_id:
        answer["id"] = request_id
    answer["outputs"] = outputs
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode(), buffers
