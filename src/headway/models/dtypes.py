"""Element types of ONNX tensors: their names and the bits one element takes in memory."""

from __future__ import annotations

from typing import Final

# ONNX TensorProto.DataType numbers (onnx.proto), kept as numbers so that importing this module loads no ONNX.
_NAMES: Final[dict[int, str]] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}

_BITS: Final[dict[str, int]] = {
    "float32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "string": 128,  # a reference and a length: the text itself has no static size
    "bool": 8,
    "float16": 16,
    "float64": 64,
    "uint32": 32,
    "uint64": 64,
    "complex64": 64,
    "complex128": 128,
    "bfloat16": 16,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "uint4": 4,
    "int4": 4,
    "float4e2m1": 4,
    "float8e8m0": 8,
    "uint2": 2,
    "int2": 2,
}


def dtype_name(elem_type: int) -> str:
    """The name of an ONNX element type number; "float32" for 0, which exporters write for "not said"."""
    return _NAMES.get(elem_type, "float32")


def dtype_number(name: str) -> int:
    """The ONNX element type number of a name that `dtype_name` gave."""
    return next(number for number, known in _NAMES.items() if known == name)


def bits_of(name: str) -> int:
    """Bits that one element takes."""
    return _BITS[name]


def bytes_of(elements: int, name: str) -> int:
    """Bytes of a tensor of that many elements; types narrower than a byte are packed."""
    return -(-elements * _BITS[name] // 8)


def is_float(name: str) -> bool:
    """Whether the type is a floating-point type of any width."""
    return name.startswith(("float", "bfloat"))
