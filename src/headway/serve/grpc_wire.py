"""Tensors in and out of protobuf messages without protobuf's copies of them.

Protobuf copies every bytes field twice on its way to Python. The messages here hold all their weight in one
such field at the top level, so that field is cut out of a request, and put into an answer, by its wire format
(https://protobuf.dev/programming-guides/encoding), and protobuf reads and writes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.serve.tensors import Buffer, invalid

_RAW_INPUT_TAG = 7 << 3 | 2
_RAW_OUTPUT_TAG = bytes([6 << 3 | 2])
_INFER_RESPONSE_TAG = bytes([2 << 3 | 2])
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def split_request(message: bytes) -> tuple[bytes, list[memoryview]]:
    """A ModelInferRequest without its raw_input_contents, and those as views of the message.

    Raises Refusal for what is no protobuf message at its top level.
    """
    view = memoryview(message)
    raw: list[memoryview] = []
    kept: list[memoryview] = []
    at, end = 0, len(message)
    while at < end:
        start = at
        tag, at = _varint(message, at)
        wire_type = tag & 7
        if wire_type == _BYTES:
            length, at = _varint(message, at)
            field_at, at = at, at + length
        elif wire_type == _VARINT:
            _, at = _varint(message, at)
        elif wire_type == _FIXED64:
            at += 8
        elif wire_type == _FIXED32:
            at += 4
        else:
            raise _malformed()
        if at > end:
            raise _malformed()
        if tag == _RAW_INPUT_TAG:
            raw.append(view[field_at:at])
        else:
            kept.append(view[start:at])
    return (b"".join(kept), raw) if raw else (message, raw)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(message[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise _malformed()


def _malformed() -> Exception:
    return invalid("the message is not a ModelInferRequest")


def varint(value: int) -> bytes:
    """An unsigned number as protobuf writes it."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def with_raw_outputs(head: bytes, contents: Sequence[Buffer]) -> list[Buffer]:
    """The parts of a ModelInferResponse: what `head` holds, and raw_output_contents."""
    parts: list[Buffer] = [head]
    for content in contents:
        parts += [_RAW_OUTPUT_TAG, varint(len(content)), content]
    return parts


def as_stream_response(parts: Sequence[Buffer]) -> list[Buffer]:
    """The parts of a ModelStreamInferResponse that holds a ModelInferResponse's parts."""
    return [_INFER_RESPONSE_TAG, varint(sum(map(len, parts))), *parts]
