"""Inference requests and answers as the protocol's gRPC messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from headway.serve.classification import best_classes
from headway.serve.grpc_wire import SplitRequest, split_request, with_raw_outputs
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
    array_of,
    bytes_of,
    datatype_of,
    element_count,
    invalid,
    shown,
)

FINAL_RESPONSE_WANTED = "triton_enable_empty_final_response"
LARGE_TYPED_BYTES = 256 << 10

_PIECE_ELEMENTS = 16 << 10
_MOST_KNOWN = 512
_MOST_KNOWN_BYTES = 2048
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
class InputHead:
    """An input without its elements, of which there are `count`; `where` names it in errors."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    count: int
    where: str


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a ModelInferRequest says besides its id and tensors."""

    model: str
    version: str
    parameters: Parameters
    inputs: tuple[InputHead, ...]
    outputs: tuple[OutputWish, ...]
    wanted: tuple[str, ...]
    wants_classes: bool
    wants_final_response: bool

    def tensors(self, raw: Sequence[Buffer]) -> dict[str, Array]:
        """The inputs of their bytes. Raises Refusal for too many, too few, or other than it says."""
        if len(raw) != len(self.inputs):
            raise invalid(f"raw_input_contents: {len(raw)} are given for {len(self.inputs)} inputs")
        return {
            entry.name: array_of(entry.datatype, entry.shape, entry.count, data, entry.where)
            for entry, data in zip(self.inputs, raw, strict=True)
        }


@dataclass(slots=True)
class GrpcRequest:
    """A ModelInferRequest, read and checked."""

    head: RequestHead
    id: str
    inputs: dict[str, Array]


class RequestReader:
    """Reads ModelInferRequests. It remembers short heads with raw tensors, since clients repeat them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[bytes, RequestHead] = {}

    def read(self, split: SplitRequest) -> GrpcRequest:
        """A request whose aligned raw tensors are views of its message.

        Raises Refusal naming the field, what was found and what is accepted.
        """
        short = len(split.head) <= _MOST_KNOWN_BYTES
        if split.raw and short and split.id is not None:
            head = self._known.get(split.head)
            if head is not None:
                return GrpcRequest(head, split.id, head.tensors(split.raw))
        request = pb.ModelInferRequest()
        try:
            request.ParseFromString(split.head)
        except DecodeError:
            raise invalid("the message is not a ModelInferRequest") from None
        head = _head(request, self._limits)
        if split.id is None:
            return GrpcRequest(head, request.id, _inputs(request, head, request.raw_input_contents))
        inputs = _inputs(request, head, split.raw)
        if split.raw and short:
            _remember(self._known, split.head, head)
        return GrpcRequest(head, split.id, inputs)


_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


def _remember(known: dict[_Key, _Known], key: _Key, value: _Known) -> None:
    if len(known) >= _MOST_KNOWN:
        known.pop(next(iter(known)), None)
    known[key] = value


def parameters_of(entries: Mapping[str, Any], where: str) -> Parameters:
    """InferParameters by name; raises Refusal for one without a value."""
    values: dict[str, object] = {}
    for name, parameter in entries.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"{where}: {shown(name)} has no value")
        values[name] = getattr(parameter, choice)
    return values


def _head(request: Any, limits: Limits) -> RequestHead:
    parameters = parameters_of(request.parameters, "parameters")
    refuse_sequences(parameters)
    for field, entries in (("inputs", request.inputs), ("outputs", request.outputs)):
        if len(entries) > limits.inputs:
            raise Refusal(
                Cause.TOO_LARGE, f"{field}: {len(entries)} are given, at most {limits.inputs} are accepted"
            )
    if not request.inputs:
        raise invalid("inputs: none is given, at least one is needed")
    inputs: dict[str, InputHead] = {}
    for i, entry in enumerate(request.inputs):
        name = _new_name(entry.name, inputs, f"inputs[{i}]")
        where = f"input {shown(name)}"
        if entry.parameters:
            refuse_shared_memory(parameters_of(entry.parameters, where), where)
        shape = tuple(entry.shape)
        inputs[name] = InputHead(
            name, entry.datatype, shape, element_count(entry.datatype, shape, where, limits), where
        )
    wishes: dict[str, OutputWish] = {}
    for i, entry in enumerate(request.outputs):
        name = _new_name(entry.name, wishes, f"outputs[{i}]")
        where = f"output {shown(name)}"
        wishes[name] = output_wish(
            name, parameters_of(entry.parameters, where) if entry.parameters else {}, where, True
        )
    outputs = tuple(wishes.values())
    return RequestHead(
        request.model_name,
        request.model_version,
        parameters,
        tuple(inputs.values()),
        outputs,
        tuple(wishes),
        any(wish.classes for wish in outputs),
        flag(parameters, FINAL_RESPONSE_WANTED, "parameters", False),
    )


def _inputs(request: Any, head: RequestHead, raw: Sequence[Buffer]) -> dict[str, Array]:
    if not raw:
        return {
            spec.name: _typed(entry, spec) for entry, spec in zip(request.inputs, head.inputs, strict=True)
        }
    for entry, spec in zip(request.inputs, head.inputs, strict=True):
        if entry.HasField("contents"):
            raise invalid(f"{spec.where}: has contents beside raw_input_contents, only one is accepted")
    return head.tensors(raw)


def _new_name(name: str, known: Mapping[str, object], where: str) -> str:
    if not name:
        raise invalid(f"{where}: has no name")
    if name in known:
        raise invalid(f"{where}: the name {shown(name)} is given twice")
    return name


def _typed(entry: Any, spec: InputHead) -> Array:
    where = spec.where
    field = _CONTENTS.get(spec.datatype)
    if field is None:
        raise invalid(f"{where}: {spec.datatype} is accepted in raw_input_contents only")
    for other, _ in entry.contents.ListFields():
        if other.name != field:
            raise invalid(f"{where}: has {other.name}, {spec.datatype} is accepted in {field}")
    values = getattr(entry.contents, field)
    if len(values) != spec.count:
        raise invalid(
            f"{where}: {field} has {len(values)} elements, shape {shown(list(spec.shape))} takes {spec.count}"
        )
    return _array(spec.datatype, field, values, where).reshape(spec.shape)


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


def request_without_tensors(message: bytes) -> Any:
    """A ModelInferRequest as far as it can be read: what names it, for one that was refused."""
    split = split_request(message)
    request = pb.ModelInferRequest()
    if len(split.head) <= LARGE_TYPED_BYTES:
        with suppress(DecodeError):
            request.ParseFromString(split.head)
    request.id = split.id or request.id
    return request


class ResponseWriter:
    """Writes ModelInferResponses. It remembers what they say besides ids and tensors, since that repeats."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bytes] = {}

    def parts(
        self,
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
        contents: list[Buffer] = []
        key: list[object] = [result.model, result.version, final]
        arrays: dict[str, Array] = {}
        for wish in wishes or [OutputWish(name) for name in result.outputs]:
            array = result.outputs[wish.name]
            if wish.classes and description is not None:
                labels = description.labels.get(wish.name, ())
                array = best_classes(array, wish.classes, labels, description.max_batch_size > 0, wish.name)
            arrays[wish.name] = array
            key += (wish.name, array.dtype, array.shape)
            contents.append(bytes_of(array))
        known = tuple(key)
        head = self._known.get(known)
        if head is None:
            response = pb.ModelInferResponse(model_name=result.model, model_version=result.version)
            if final:
                response.parameters["triton_final_response"].bool_param = True
            for name, array in arrays.items():
                response.outputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
            head = response.SerializeToString()
            _remember(self._known, known, head)
        return with_raw_outputs(head, request_id, contents)
