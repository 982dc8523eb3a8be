"""Types of values as ONNX Runtime states them: what sort of value, its element type, its shape if fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, Final

from headway.models.dtypes import bytes_of, dtype_number

if TYPE_CHECKING:
    import numpy as np
    from onnx import TypeProto

# Where ONNX Runtime's word for an element type differs from the one used here.
_ELEMENT_NAMES: Final = {"float": "float32", "double": "float64"}
_PACKED: Final = frozenset({"int4", "uint4", "float4e2m1", "int2", "uint2"})
_ML_DTYPES: Final = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}


class ValueKind(StrEnum):
    """What sort of value a name stands for."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    OPTIONAL = "optional"
    OTHER = "other"  # maps, sparse tensors: they cross no cut


@dataclass(frozen=True, slots=True)
class ValueType:
    """A value's type. `shape` is None unless every size is fixed; `dims` keeps what is known of each axis."""

    text: str  # as ONNX Runtime writes it: "tensor(float)", "seq(tensor(int64))"
    kind: ValueKind
    dtype: str  # of the elements
    shape: tuple[int, ...] | None
    dims: tuple[int | None, ...] | None

    @property
    def bytes(self) -> int | None:
        """Bytes of the tensor, or None if they are not fixed."""
        if self.shape is None or self.kind is not ValueKind.TENSOR or self.dtype == "string":
            return None
        return bytes_of(prod(self.shape), self.dtype)

    @property
    def bindable(self) -> bool:
        """Whether a buffer can be set aside for it once and for all."""
        return self.bytes is not None and self.dtype not in _PACKED

    def with_rows(self, rows: int) -> ValueType:
        """The same with another size of the first axis; all others are fixed."""
        shape = (rows, *(self.shape or (rows,))[1:])
        return replace(self, shape=shape, dims=shape)

    def proto(self) -> TypeProto:
        """The ONNX type, with open sizes left open."""
        return _proto(self.text, self.dims)


def parse_type(text: str, dims: list[Any]) -> ValueType:
    """A type from what a session says of an input or output.

    ONNX Runtime gives an empty list both for scalars and for tensors of unknown rank; it is read as the
    latter.
    """
    word = re.search(r"tensor\(([a-z0-9]+)\)", text)
    dtype = _ELEMENT_NAMES.get(word.group(1), word.group(1)) if word else ""
    if text.startswith("tensor("):
        kind = ValueKind.TENSOR
    elif text.startswith("seq(tensor("):
        kind = ValueKind.SEQUENCE
    elif text.startswith("optional(") and "sparse" not in text:
        kind = ValueKind.OPTIONAL
    else:
        kind = ValueKind.OTHER
    known = tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in dims)
    fixed = tuple(dim for dim in known if dim is not None)
    shape = fixed if known and len(fixed) == len(known) and kind is ValueKind.TENSOR else None
    return ValueType(text, kind, dtype, shape, known or None)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type that holds elements of that type, one each."""
    import numpy as np

    if dtype == "string":
        return np.dtype(object)
    if dtype in _ML_DTYPES:
        import ml_dtypes

        dtype = getattr(ml_dtypes, _ML_DTYPES[dtype])
    plain: np.dtype[Any] = np.dtype(dtype)
    return plain


def _proto(text: str, dims: tuple[int | None, ...] | None) -> TypeProto:
    from onnx import helper

    outer, _, inner = text.partition("(")
    inner = inner.removesuffix(")")
    if outer == "seq":
        return helper.make_sequence_type_proto(_proto(inner, None))
    if outer == "optional":
        return helper.make_optional_type_proto(_proto(inner, None))
    if outer == "map":
        key, _, value = inner.partition(",")
        return helper.make_map_type_proto(dtype_number(key), _proto(value, None))
    if outer == "sparse_tensor":
        return helper.make_sparse_tensor_type_proto(dtype_number(_ELEMENT_NAMES.get(inner, inner)), dims)
    return helper.make_tensor_type_proto(dtype_number(_ELEMENT_NAMES.get(inner, inner)), dims)
