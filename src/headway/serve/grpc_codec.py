"""Inference requests and answers as the protocol's gRPC messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headway.serve.classification import best_classes
from headway.serve.grpc_wire import with_raw_outputs
from headway.serve.limits import Limits
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.protocol.terms import (
    OutputWish,
    Parameters,
    flag,
    output_wish,
    refuse_sequences,
    refuse_shared_memory,
)
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceResult, ModelDescription
from headway.serve.tensors import (
    DTYPES,
    Array,
    Buffer,
    array_from_bytes,
    bytes_of,
    datatype_of,
    element_count,
    invalid,
    shown,
)

FINAL_RESPONSE_WANTED = "triton_enable_empty_final_response"
LARGE_TYPED_BYTES = 256 << 10

_PIECE_ELEMENTS = 16 << 10
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_WIDE: dict[str, Any] = {"int_contents": np.int32, "uint_contents": np.uint32}


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """A ModelInferRequest, read and checked."""

    model: str
    version: str
    id: str
    parameters: Parameters
    inputs: Mapping[str, Array]
    outputs: tuple[OutputWish, ...]

    @property
    def wants_final_response(self) -> bool:
        return flag(self.parameters, FINAL_RESPONSE_WANTED, "parameters", False)


def parameters_of(entries: Mapping[str, Any], where: str) -> Parameters:
    """InferParameters by name; raises Refusal for one without a value."""
    values: dict[str, object] = {}
    for name, parameter in entries.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"{where}: {shown(name)} has no value")
        values[name] = getattr(parameter, choice)
    return values


def decode_request(head: bytes, raw: Sequence[memoryview], limits: Limits) -> GrpcRequest:
    """Read a ModelInferRequest that split_request has split; aligned raw tensors are views of it.

    Raises Refusal naming the field, what was found and what is accepted.
    """
    request = pb.ModelInferRequest()
    try:
        request.ParseFromString(head)
    except DecodeError:
        raise invalid("the message is not a ModelInferRequest") from None
    parameters = parameters_of(request.parameters, "parameters")
    refuse_sequences(parameters)
    for field, entries in (("inputs", request.inputs), ("outputs", request.outputs)):
        if len(entries) > limits.inputs:
            raise Refusal(
                Cause.TOO_LARGE, f"{field}: {len(entries)} are given, at most {limits.inputs} are accepted"
            )
    if not request.inputs:
        raise invalid("inputs: none is given, at least one is needed")
    if raw and len(raw) != len(request.inputs):
        raise invalid(f"raw_input_contents: {len(raw)} are given for {len(request.inputs)} inputs")
    inputs: dict[str, Array] = {}
    for i, entry in enumerate(request.inputs):
        _new_name(entry.name, inputs, f"inputs[{i}]")
        inputs[entry.name] = _input(entry, raw[i] if raw else None, limits)
    wishes: dict[str, OutputWish] = {}
    for i, entry in enumerate(request.outputs):
        _new_name(entry.name, wishes, f"outputs[{i}]")
        where = f"output {shown(entry.name)}"
        wishes[entry.name] = output_wish(
            entry.name, parameters_of(entry.parameters, where) if entry.parameters else {}, where, True
        )
    return GrpcRequest(
        request.model_name, request.model_version, request.id, parameters, inputs, tuple(wishes.values())
    )


def _new_name(name: str, known: Mapping[str, object], where: str) -> None:
    if not name:
        raise invalid(f"{where}: has no name")
    if name in known:
        raise invalid(f"{where}: the name {shown(name)} is given twice")


def _input(entry: Any, raw: memoryview | None, limits: Limits) -> Array:
    where = f"input {shown(entry.name)}"
    shape = list(entry.shape)
    if entry.parameters:
        refuse_shared_memory(parameters_of(entry.parameters, where), where)
    if raw is not None:
        if entry.HasField("contents"):
            raise invalid(f"{where}: has contents beside raw_input_contents, only one is accepted")
        return array_from_bytes(entry.datatype, shape, raw, where, limits)
    count = element_count(entry.datatype, shape, where, limits)
    field = _CONTENTS.get(entry.datatype)
    if field is None:
        raise invalid(f"{where}: {entry.datatype} is accepted in raw_input_contents only")
    for other, _ in entry.contents.ListFields():
        if other.name != field:
            raise invalid(f"{where}: has {other.name}, {entry.datatype} is accepted in {field}")
    values = getattr(entry.contents, field)
    if len(values) != count:
        raise invalid(f"{where}: {field} has {len(values)} elements, shape {shown(shape)} takes {count}")
    return _array(entry.datatype, field, values, where).reshape(shape)


def _array(datatype: str, field: str, values: Sequence[Any], where: str) -> Array:
    array = np.empty(len(values), DTYPES[datatype])
    if datatype == "BYTES":
        array[:] = list(values)
        return array
    # In pieces, between which other threads get the interpreter's lock.
    for at in range(0, len(values), _PIECE_ELEMENTS):
        piece = np.array(values[at : at + _PIECE_ELEMENTS], _WIDE.get(field, array.dtype))
        array[at : at + _PIECE_ELEMENTS] = piece
        if array.dtype.kind in "iu" and not np.array_equal(array[at : at + _PIECE_ELEMENTS], piece):
            raise invalid(f"{where}: {field} hold a number that {datatype} cannot hold")
    return array


def encode_response(
    result: InferenceResult,
    request_id: str,
    wishes: Sequence[OutputWish],
    description: ModelDescription | None,
    *,
    final: bool,
) -> list[Buffer]:
    """The parts of a ModelInferResponse, of which the outputs' are their own memory.

    `description` is needed where a wish is for classes. `final` marks the last answer to a request.
    """
    response = pb.ModelInferResponse(model_name=result.model, model_version=result.version, id=request_id)
    if final:
        response.parameters["triton_final_response"].bool_param = True
    contents: list[Buffer] = []
    for wish in wishes or [OutputWish(name) for name in result.outputs]:
        array = result.outputs[wish.name]
        if wish.classes and description is not None:
            labels = description.labels.get(wish.name, ())
            array = best_classes(array, wish.classes, labels, description.max_batch_size > 0, wish.name)
        response.outputs.add(name=wish.name, datatype=datatype_of(array), shape=array.shape)
        contents.append(bytes_of(array))
    return with_raw_outputs(response.SerializeToString(), contents)
