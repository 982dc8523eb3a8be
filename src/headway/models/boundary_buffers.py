"""Buffers for what crosses the cuts of a split model: laid out once, then reused by request after request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.dtypes import dtype_number
from headway.models.value_types import ValueKind, ValueType, numpy_dtype

if TYPE_CHECKING:
    import numpy as np

_ALIGNMENT_BYTES: Final = 64
_OWN_BYTES: Final = 256 << 10
"""A result of so many bytes is handed over with its memory, since binding new memory for the next one costs
less than a copy (bench/copies.py)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor lies in the buffer, and the blocks over which it must stay there.

    One that is `own` has no place in the buffer, but memory of its own in each request.
    """

    name: str
    type: ValueType
    made_in: int
    last_used_in: int
    offset: int
    bytes: int
    own: bool = False


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """A layout in which tensors that are never alive at the same time share their place.

    `taken_over` says of a tensor whose place it takes in the block that makes it.
    """

    slots: tuple[Slot, ...]
    total_bytes: int
    taken_over: Mapping[str, str] = field(default_factory=dict)


def plan_buffers(
    lives: Sequence[tuple[str, ValueType, int, int]], taken_over: Mapping[str, str] | None = None
) -> BufferPlan:
    """Lay out tensors, the largest first, each at the lowest place that is free for as long as it is alive.

    Args:
        lives: name, type (of fixed size), the block that makes it and the last block that needs it; results
            need to stay for longer than all else. Large ones become their own.
        taken_over: by name, another tensor of the same size whose place it takes, made in the last block that
            needs the other; no results.
    """
    taken_over = {} if taken_over is None else dict(taken_over)
    first_of: dict[str, str] = {}
    for name, *_ in lives:
        first = name
        while first in taken_over:
            first = taken_over[first]
        first_of[name] = first
    together = {name: (value_type, made_in, last) for name, value_type, made_in, last in lives}
    for name, _, _, last_used_in in lives:
        first = first_of[name]
        value_type, made_in, last = together[first]
        together[first] = (value_type, made_in, max(last, last_used_in))
    joint = _laid_out([(name, *life) for name, life in together.items() if first_of[name] == name])
    places = {slot.name: slot for slot in joint.slots}
    slots = [
        replace(places[first_of[name]], name=name, type=value_type, made_in=made_in, last_used_in=last)
        for name, value_type, made_in, last in lives
    ]
    return BufferPlan(tuple(slots), joint.total_bytes, taken_over)


def _laid_out(lives: Sequence[tuple[str, ValueType, int, int]]) -> BufferPlan:
    placed: list[Slot] = []
    own: list[Slot] = []
    longest = max((life[3] for life in lives), default=0)
    for name, value_type, made_in, last_used_in in sorted(lives, key=lambda life: -(life[1].bytes or 0)):
        size = -(-(value_type.bytes or 0) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if size >= _OWN_BYTES and last_used_in == longest:
            own.append(Slot(name, value_type, made_in, last_used_in, 0, size, own=True))
            continue
        offset = 0
        for other in sorted(placed, key=lambda slot: slot.offset):
            # A block's output may not lie where that block still reads, so lives that touch count as
            # overlapping.
            if other.made_in > last_used_in or made_in > other.last_used_in:
                continue
            if offset + size <= other.offset:
                break
            offset = max(offset, other.offset + other.bytes)
        placed.append(Slot(name, value_type, made_in, last_used_in, offset, size))
    return BufferPlan((*placed, *own), max((slot.offset + slot.bytes for slot in placed), default=0))


class Buffers:
    """What one request carries from block to block: its inputs, boundary tensors and outputs.

    They belong to one request at a time. A request's blocks may run in different sets of sessions (wide and
    narrow) on the same buffers, one block at a time.
    """

    def __init__(self, plan: BufferPlan, bound: bool) -> None:
        self.bound = bound
        self.inputs: dict[str, Any] = {}
        self.values: dict[str, Any] = {}  # OrtValues where bound, else arrays, lists and None
        self.turn = 0  # counts requests, so that bindings know when inputs are new
        self.bindings: dict[tuple[int, int], tuple[Any, int]] = {}  # by sessions and block: binding, turn
        self._memory = _aligned(plan.total_bytes)
        self._arrays: dict[str, np.ndarray] = {}
        self._own = tuple(slot for slot in plan.slots if slot.own)
        self.renewed = tuple(slot.name for slot in self._own)
        """Values that may be others in each turn, beside the inputs."""
        for slot in plan.slots:
            if not slot.own:
                self._place(slot, self._memory)

    def _place(self, slot: Slot, memory: np.ndarray) -> None:
        flat = memory[slot.offset : slot.offset + (slot.type.bytes or 0)]
        array = flat.view(numpy_dtype(slot.type.dtype)).reshape(slot.type.shape or ())
        self._arrays[slot.name] = array
        self.values[slot.name] = ort_value(array, slot.type)

    def start(self, inputs: dict[str, Any], types: Mapping[str, ValueType]) -> None:
        """Begin another request; its arrays must stay as they are until its last block has run."""
        self.turn += 1
        self.inputs = inputs
        for slot in self._own:
            if slot.name not in self._arrays:
                self._place(slot, _aligned(slot.bytes))
        if self.bound:
            for name, array in inputs.items():
                self.values[name] = ort_value(array, types[name])

    def array(self, name: str) -> np.ndarray:
        """The memory of a boundary tensor or output that has a place of its own."""
        return self._arrays[name]

    def output(self, name: str) -> Any:
        """The value of a result: a copy, or its own memory, which the buffers then give up. Ask once a turn.

        Raises:
            HeadwayError: NumPy has no such type, and the output's size was not known beforehand.
        """
        if name in self._arrays:
            if name not in self.renewed:
                return self._arrays[name].copy()
            del self.values[name]
            return self._arrays.pop(name)
        if name in self.inputs:
            return copy(self.inputs[name])
        value = self.values[name]
        if not self.bound:
            return value
        try:
            return value.numpy()
        except RuntimeError as error:
            raise HeadwayError(
                f"output {name!r} cannot be fetched: {error}; accepted: such an output of fixed size"
            ) from error


def ort_value(array: np.ndarray, value_type: ValueType) -> Any:
    """An OrtValue over an array's own memory; the array must stay as long as it is used."""
    import onnxruntime

    if value_type.dtype in ("bfloat16",) or value_type.dtype.startswith("float8"):
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, dtype_number(value_type.dtype))
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def checked_inputs(
    given: Mapping[str, Any], types: Mapping[str, ValueType], replaceable: Mapping[str, ValueType], where: str
) -> dict[str, Any]:
    """A request's inputs as contiguous arrays of the right types.

    Raises:
        HeadwayError: an input is missing or unknown, or its element type or shape does not fit.
    """
    import numpy as np

    missing = [name for name in types if name not in given]
    unknown = [name for name in given if name not in types and name not in replaceable]
    if missing or unknown:
        found = f"input {missing[0]!r} is missing" if missing else f"there is no input {unknown[0]!r}"
        raise HeadwayError(f"{where}: {found}; accepted: {', '.join(types) or 'no inputs'}")
    checked: dict[str, Any] = {}
    for name, value in given.items():
        wanted = types.get(name) or replaceable[name]
        if wanted.kind is not ValueKind.TENSOR:
            checked[name] = value
            continue
        array = np.asarray(value)
        dtype = numpy_dtype(wanted.dtype)
        if array.dtype != dtype and not (wanted.dtype == "string" and array.dtype.kind in "OUST"):
            raise HeadwayError(
                f"{where}: input {name!r} has elements of type {array.dtype}; accepted: {dtype}"
            )
        dims = wanted.dims
        fits = dims is None or (
            len(dims) == array.ndim
            and all(dim is None or dim == size for dim, size in zip(dims, array.shape, strict=True))
        )
        if not fits:
            shown = [dim if dim is not None else "any" for dim in dims or ()]
            raise HeadwayError(f"{where}: input {name!r} has shape {list(array.shape)}; accepted: {shown}")
        checked[name] = np.ascontiguousarray(array).reshape(array.shape)
    return checked


def _aligned(size: int) -> np.ndarray:
    import numpy as np

    memory = np.empty(size + _ALIGNMENT_BYTES, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    return memory[start : start + size]
