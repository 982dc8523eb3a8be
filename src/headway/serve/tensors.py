"""Tensors between the protocol's bytes or JSON values and arrays, without copies where there is a choice.

BYTES tensors are object arrays of bytes, BF16 tensors have the dtype of ml_dtypes.bfloat16; all others have
NumPy's own dtype. Numbers are little-endian, as in the binary tensor data extension.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from headway.serve.limits import Limits
from headway.serve.refusal import Cause, Refusal

Array = NDArray[Any]
Buffer = bytes | bytearray | memoryview

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BYTES": np.dtype(object),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
_SHOWN_LETTERS = 80

if sys.byteorder != "little":
    raise ImportError("headway.serve needs a little-endian machine: tensors are views of what came by wire")


def shown(value: object) -> str:
    """A value for an error message: short whatever a client sent."""
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 3] + "..."


def invalid(message: str) -> Refusal:
    return Refusal(Cause.INVALID, message)


def element_count(datatype: str, shape: Sequence[int], where: str, limits: Limits) -> int:
    """The number of elements of a tensor whose datatype and shape a client gave.

    Raises Refusal for an unknown datatype, a dimension that is no integer of at least 0, and a shape or a
    product beyond the limits.
    """
    if datatype not in DTYPES:
        raise invalid(f"{where}: datatype {shown(datatype)} is not one of {', '.join(DTYPES)}")
    if len(shape) > limits.rank:
        raise invalid(f"{where}: shape has {len(shape)} dimensions, at most {limits.rank} are accepted")
    for size in shape:
        if type(size) is not int or size < 0:
            raise invalid(f"{where}: shape {shown(list(shape))} holds {shown(size)}, not an integer from 0")
        if size > limits.elements:  # beside a 0 too, where the product would hide it
            raise invalid(
                f"{where}: shape {shown(list(shape))} holds {shown(size)}, the limit is {limits.elements}"
            )
    # A 0 would hide the other dimensions, of which NumPy wants the product to be small, too.
    count = math.prod(size or 1 for size in shape)
    if count > limits.elements:
        beside = " beside its 0" if 0 in shape else ""
        raise Refusal(
            Cause.TOO_LARGE,
            f"{where}: shape {shown(list(shape))} has {shown(count)} elements{beside}, "
            f"at most {limits.elements} are accepted",
        )
    return 0 if 0 in shape else count


def array_from_bytes(datatype: str, shape: Sequence[int], data: Buffer, where: str, limits: Limits) -> Array:
    """A tensor from its bytes; a read-only view of them unless they lie unaligned, or are BYTES.

    Raises Refusal for bytes that are not those of that datatype and shape.
    """
    return array_of(datatype, shape, element_count(datatype, shape, where, limits), data, where)


def array_of(datatype: str, shape: Sequence[int], count: int, data: Buffer, where: str) -> Array:
    """array_from_bytes where `count` is what element_count says of that datatype and shape."""
    if datatype == "BYTES":
        return _strings_from_bytes(data, count, where).reshape(shape)
    dtype = DTYPES[datatype]
    if len(data) != count * dtype.itemsize:
        raise invalid(
            f"{where}: {len(data)} bytes of data, but {datatype} of shape {shown(list(shape))} "
            f"takes {count * dtype.itemsize}"
        )
    array: Array = np.ndarray(shape, dtype, data)
    if datatype == "BOOL" and count:
        largest = int(array.view(np.uint8).max())
        if largest > 1:
            raise invalid(f"{where}: a BOOL of byte {largest}, only 0 and 1 are accepted")
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


def _strings_from_bytes(data: Buffer, count: int, where: str) -> Array:
    """BYTES elements, each behind its length of 4 bytes."""
    if len(data) < 4 * count:
        raise invalid(f"{where}: {len(data)} bytes of data, {count} BYTES elements take {4 * count} or more")
    view = memoryview(data)
    strings = np.empty(count, object)
    at = 0
    for i in range(count):
        start = at + 4
        end = start + int.from_bytes(view[at:start], "little")
        if start > len(view) or end > len(view):
            raise invalid(f"{where}: the data end within BYTES element {i} of {count}")
        strings[i] = bytes(view[start:end])
        at = end
    if at != len(view):
        raise invalid(f"{where}: {len(view) - at} bytes of data are left after all {count} BYTES elements")
    return strings


def array_from_values(datatype: str, shape: Sequence[int], data: object, where: str, limits: Limits) -> Array:
    """A tensor from JSON values: a list of all elements in row-major order, or lists nested as its shape is.

    BYTES elements are strings. Raises Refusal for values that are not of that datatype and shape, for
    numbers that it cannot hold, and for numbers that only become infinite in it.
    """
    count = element_count(datatype, shape, where, limits)
    flat = _flat(data, list(shape), count, where)
    kinds = set(map(type, flat))
    accepted = _accepted_types(datatype)
    if not kinds <= accepted:
        found = next(value for value in flat if type(value) not in accepted)
        names = {bool: "true or false", str: "a string", int: "an integer", float: "a number"}
        raise invalid(
            f"{where}: data hold {shown(found)}, {datatype} takes "
            f"{names[float if float in accepted else next(iter(accepted))]}"
        )
    if datatype == "BYTES":
        array = np.empty(count, object)
        try:
            array[:] = [text.encode() for text in flat]
        except UnicodeEncodeError:
            raise invalid(f"{where}: data hold a string with half a surrogate pair") from None
        return array.reshape(shape)
    return array_from_numbers(datatype, shape, flat, where)


def array_from_numbers(datatype: str, shape: Sequence[int], numbers: Sequence[Any], where: str) -> Array:
    """A tensor from as many Python numbers as its shape has; raises Refusal for ones that do not fit it."""
    try:
        if datatype not in _FLOATS:
            return np.array(numbers, DTYPES[datatype]).reshape(shape)
        with np.errstate(over="ignore"):
            wide = np.array(numbers, np.float64)
            array = wide.astype(DTYPES[datatype])
            # Infinity and NaN cannot be written in JSON, so one here is a number too large.
            if not np.isfinite(array.astype(np.float64)).all():
                raise OverflowError
    except OverflowError:
        raise invalid(f"{where}: data hold a number that {datatype} cannot hold") from None
    return array.reshape(shape)


def _accepted_types(datatype: str) -> set[type]:
    if datatype == "BOOL":
        return {bool}
    if datatype == "BYTES":
        return {str}
    return {int, float} if datatype in _FLOATS else {int}


def _flat(data: object, shape: list[int], count: int, where: str) -> list[Any]:
    if type(data) is not list:
        raise invalid(f"{where}: data are {shown(data)}, a list is accepted")
    values: list[Any] = data
    nested_as = [len(values)]
    while values and type(values[0]) is list:
        if set(map(type, values)) != {list}:
            raise invalid(f"{where}: data mix lists and values at one depth")
        lengths = set(map(len, values))
        if len(lengths) != 1:
            raise invalid(f"{where}: data are lists of unequal length")
        nested_as.append(lengths.pop())
        if len(nested_as) > len(shape):
            raise invalid(f"{where}: data are nested deeper than shape {shown(shape)}")
        values = list(chain.from_iterable(values))
    if nested_as == shape or (len(nested_as) == 1 and len(values) == count):
        return values
    if not count and not values and nested_as == shape[: len(nested_as)]:  # nothing lies below a 0
        return values
    found = f"{len(values)} values" if len(nested_as) == 1 else f"values nested as {shown(nested_as)}"
    raise invalid(f"{where}: data hold {found}, shape {shown(shape)} takes {count} in one list or nested")


def datatype_of(array: Array) -> str:
    """The protocol's name of an array's dtype; raises KeyError for one that it has no name for."""
    return _NAMES[array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype]


def bytes_of(array: Array) -> Buffer:
    """A tensor's bytes: its own memory where that is in the protocol's order, else a copy."""
    if array.dtype == object:
        return strings_to_bytes(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    contiguous = np.ascontiguousarray(array)
    return contiguous.reshape(-1).view(np.uint8).data if contiguous.size else b""


def strings_to_bytes(array: Array) -> bytes:
    """BYTES elements, each behind its length of 4 bytes."""
    parts: list[bytes] = []
    for element in array.ravel():
        content = element.encode() if isinstance(element, str) else bytes(element)
        parts.append(len(content).to_bytes(4, "little"))
        parts.append(content)
    return b"".join(parts)


def values_of(array: Array, name: str) -> list[Any]:
    """A tensor's elements for JSON, in row-major order.

    Raises Refusal for what JSON has no form for: NaN, infinity, and BYTES that are not UTF-8.
    """
    way_out = "ask for it with the parameter binary_data"
    if array.dtype == object:
        try:
            return [text if isinstance(text, str) else bytes(text).decode() for text in array.ravel()]
        except UnicodeDecodeError:
            raise invalid(f"output {name!r}: holds BYTES that are not UTF-8; {way_out}") from None
    if array.dtype.kind in "fV":
        wide = array.astype(np.float64) if array.dtype.kind == "V" else array
        if not np.isfinite(wide).all():
            raise invalid(f"output {name!r}: holds NaN or infinity, which JSON has no number for; {way_out}")
        return list(wide.ravel().tolist())
    return list(array.ravel().tolist())
