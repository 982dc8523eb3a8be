"""Tensors in and out of protobuf messages without protobuf's copies of them.

Protobuf copies every bytes field twice on its way to Python. The messages here hold all their weight in one
such field at the top level, so that field is cut out of a request, and put into an answer, by its wire format
(https://protobuf.dev/programming-guides/encoding), and protobuf reads and writes the rest. A request's id is
cut out, too: what is left is then the same in all requests that a client sends for a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.serve.tensors import Buffer

_ID_TAG = 3 << 3 | 2
_ID_TAG_BYTES = bytes([_ID_TAG])
_RAW_INPUT_TAG = 7 << 3 | 2
_RAW_OUTPUT_TAG = bytes([6 << 3 | 2])
_INFER_RESPONSE_TAG = bytes([2 << 3 | 2])
_FIRST_TAG, _LAST_TAG = 1 << 3 | 2, 7 << 3 | 2
"""Of the fields of a ModelInferRequest, all of which have a length."""

_LENGTH_WIRE_TYPE = 2
_MOST_LENGTH_BYTES = 5


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A ModelInferRequest: `raw` are views of its raw_input_contents, `head` is the rest without `id`.

    `id` is None, and there is no `raw`, where they are left in the head.
    """

    head: bytes
    id: str | None
    raw: Sequence[Buffer]


def split_request(message: bytes) -> SplitRequest:
    """Cut a ModelInferRequest in parts; one with anything unusual is left whole, for protobuf to judge."""
    view = memoryview(message)
    raw: list[memoryview] = []
    kept: list[memoryview] = []
    request_id = ""
    at, end = 0, len(message)
    try:
        while at < end:
            start, tag, length = at, message[at], message[at + 1]
            at += 2
            if tag & 7 != _LENGTH_WIRE_TYPE or not _FIRST_TAG <= tag <= _LAST_TAG:
                return SplitRequest(message, None, ())
            if length >= 0x80:
                length &= 0x7F
                for shift in range(7, 7 * _MOST_LENGTH_BYTES, 7):
                    byte = message[at]
                    at += 1
                    length |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                else:
                    return SplitRequest(message, None, ())
            field_at, at = at, at + length
            if at > end:
                return SplitRequest(message, None, ())
            if tag == _RAW_INPUT_TAG:
                raw.append(view[field_at:at])
            elif tag == _ID_TAG:
                request_id = str(view[field_at:at], "utf-8")
            else:
                kept.append(view[start:at])
    except (IndexError, UnicodeDecodeError):
        return SplitRequest(message, None, ())
    return SplitRequest(b"".join(kept), request_id, raw)


def varint(value: int) -> bytes:
    """An unsigned number as protobuf writes it."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def with_raw_outputs(head: bytes, request_id: str, contents: Sequence[Buffer]) -> list[Buffer]:
    """The parts of a ModelInferResponse: what `head` holds, id, and raw_output_contents."""
    parts: list[Buffer] = [head]
    if request_id:
        text = request_id.encode()
        parts += [_ID_TAG_BYTES, varint(len(text)), text]
    for content in contents:
        parts += [_RAW_OUTPUT_TAG, varint(len(content)), content]
    return parts


def as_stream_response(parts: Sequence[Buffer]) -> list[Buffer]:
    """The parts of a ModelStreamInferResponse that holds a ModelInferResponse's parts."""
    return [_INFER_RESPONSE_TAG, varint(sum(map(len, parts))), *parts]
