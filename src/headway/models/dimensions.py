"""Numbers for the symbolic dimensions of a model's inputs: the user's, and defaults that are said."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.models.inference import read_type
from headway.models.tensors import Shape, Tensor

if TYPE_CHECKING:
    from onnx import TypeProto, ValueInfoProto

DEFAULT_BATCH: Final = 1
DEFAULT_SEQUENCE: Final = 128
DEFAULT_IMAGE: Final = 224
DEFAULT_CHANNELS: Final = 3

_NAME = re.compile(r"[^\W\d]")
_BATCH = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)
_SEQUENCE = re.compile(r"seq|len|time|token|step|frame|past|^(s|t|l)$", re.IGNORECASE)
_IMAGE = re.compile(r"height|width|^(h|w)$", re.IGNORECASE)
_CHANNELS = re.compile(r"channel|^c$", re.IGNORECASE)
_OPERATIONS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


@dataclass(frozen=True, slots=True)
class Binding:
    """Inputs with all sizes known, the values of symbolic dimensions, and which of those were assumed."""

    inputs: Mapping[str, Tensor]
    bound: Mapping[str, int]
    assumed: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    symbol: str  # name of the dimension; INPUT.AXIS where the file gives it none
    alias: str  # INPUT.AXIS
    axis: int
    rank: int
    integer: bool
    channels: int | None  # what a convolution that reads this input says of its second axis


def _default(place: _Place) -> int:
    name = "" if place.symbol == place.alias else place.symbol
    if name and _BATCH.search(name):
        return DEFAULT_BATCH
    if name and _SEQUENCE.search(name):
        return DEFAULT_SEQUENCE
    if name and _IMAGE.search(name):
        return DEFAULT_IMAGE
    if place.axis == 1 and place.channels is not None:
        return place.channels
    if name and _CHANNELS.search(name):
        return DEFAULT_CHANNELS
    if place.axis == 0:
        return DEFAULT_BATCH
    if place.rank >= 4:
        return DEFAULT_CHANNELS if place.axis == 1 else DEFAULT_IMAGE
    return DEFAULT_SEQUENCE if place.axis == 1 and (place.integer or place.rank == 3) else 1


def _dimension_entries(proto: TypeProto) -> list[tuple[int | None, str]] | None:
    while proto.HasField("optional_type") or proto.HasField("sequence_type"):
        proto = (
            proto.optional_type.elem_type
            if proto.HasField("optional_type")
            else proto.sequence_type.elem_type
        )
    if not proto.tensor_type.HasField("shape"):
        return None
    entries: list[tuple[int | None, str]] = []
    for dim in proto.tensor_type.shape.dim:
        # Some exporters write an unknown size as 0 or -1.
        fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
        # "?" is no name either: sizes called so need not be equal.
        entries.append((fixed, dim.dim_param if _NAME.search(dim.dim_param) else ""))
    return entries


def _expression(symbol: str, values: Mapping[str, int]) -> int | None:
    """Value of arithmetic over bound names ("past_sequence_length + 1"); None for a plain or unbound name."""

    def value_of(part: ast.expr) -> int:
        if isinstance(part, ast.BinOp) and type(part.op) in _OPERATIONS:
            return _OPERATIONS[type(part.op)](value_of(part.left), value_of(part.right))
        if isinstance(part, ast.Constant) and isinstance(part.value, int):
            return part.value
        if isinstance(part, ast.Name) and part.id in values:
            return values[part.id]
        raise KeyError(symbol)

    try:
        parsed = ast.parse(symbol, mode="eval").body
        return value_of(parsed) if isinstance(parsed, ast.BinOp) else None
    except (SyntaxError, KeyError, ZeroDivisionError, ValueError):
        return None


def bind_inputs(
    values: Sequence[ValueInfoProto], dims: Mapping[str, int], channels: Mapping[str, int], where: str
) -> Binding:
    """Give every dimension of every input a number.

    `dims` maps a dimension's name, or INPUT.AXIS, to its size; `channels` gives the second axis of inputs
    that a convolution reads.

    Raises:
        HeadwayError: a name in `dims` that the file does not have, a size below 1, or one that contradicts a
            fixed size.
    """
    places: dict[str, list[_Place]] = {}
    fixed: dict[str, int] = {}
    entries_of: dict[str, list[tuple[int | None, str]] | None] = {}
    for value in values:
        entries = _dimension_entries(value.type)
        entries_of[value.name] = entries
        integer = "int" in read_type(value.type)[0]
        for axis, (size, symbol) in enumerate(entries or ()):
            alias = f"{value.name}.{axis}"
            if size is not None:
                fixed[alias] = size
            else:
                place = _Place(
                    symbol or alias, alias, axis, len(entries or ()), integer, channels.get(value.name)
                )
                places.setdefault(place.symbol, []).append(place)
    aliases = {place.alias: symbol for symbol, group in places.items() for place in group}
    bound: dict[str, int] = {}
    for name, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise HeadwayError(
                f"{where}: dimension {name!r} is {size!r}; accepted is a whole number from 1 on"
            )
        if name in fixed:
            if fixed[name] != size:
                raise HeadwayError(
                    f"{where}: dimension {name!r} is fixed at {fixed[name]} in the file and cannot be {size}"
                )
            continue
        if name not in places and name not in aliases:
            known = ", ".join(sorted(places)) or "none: every size is fixed"
            raise HeadwayError(f"{where}: no symbolic dimension {name!r}; the file has {known}")
        symbol = name if name in places else aliases[name]
        if bound.get(symbol, size) != size:
            raise HeadwayError(f"{where}: dimension {symbol!r} is given as {bound[symbol]} and as {size}")
        bound[symbol] = size
    assumed: list[str] = []
    compound = [symbol for symbol in places if not re.fullmatch(r"\w+", symbol) and symbol not in bound]
    for symbol, group in places.items():
        if symbol not in bound and (symbol not in compound or symbol in aliases):
            bound[symbol] = max(_default(place) for place in group)
            assumed.append(symbol)
    for symbol in compound:
        if symbol not in bound:
            computed = _expression(symbol, bound)
            if computed is None or computed < 1:
                bound[symbol] = max(_default(place) for place in places[symbol])
                assumed.append(symbol)
            else:
                bound[symbol] = computed
    warnings: list[str] = []
    if assumed:
        shown = ", ".join(f"{symbol}={bound[symbol]}" for symbol in assumed)
        warnings.append(f"symbolic dimensions chosen by default: {shown}; set them with --dim NAME=SIZE")
    inputs: dict[str, Tensor] = {}
    for value in values:
        dtype, _, sequence = read_type(value.type)
        entries = entries_of[value.name]
        shape: Shape | None = None
        if entries is not None:
            shape = tuple(
                size if size is not None else bound[symbol or f"{value.name}.{axis}"]
                for axis, (size, symbol) in enumerate(entries)
            )
        else:
            warnings.append(
                f"input {value.name!r} has no shape, not even a rank; what reads it is priced by bounds"
            )
        tensor = Tensor(value.name, dtype, shape, sequence=sequence)
        if sequence and shape is not None:
            member = Tensor(value.name, dtype, shape)
            tensor.sequence_elements = member.elements
            warnings.append(f"input {value.name!r} is a sequence; priced for one member")
        inputs[value.name] = tensor
    return Binding(inputs, bound, tuple(assumed), tuple(warnings))
