"""A version of a model that is ready to run, as the engine knows it and as clients see it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headway.config.batching import Batching
from headway.core.errors import HeadwayError
from headway.models.boundary_buffers import checked_inputs
from headway.models.value_types import ValueKind, ValueType
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import TensorSpec

if TYPE_CHECKING:
    from headway.live.profiler import Intake
    from headway.models.chain import SplitModel

PLATFORM: Final = "onnxruntime_onnx"

_DATATYPES: Final = {
    "bool": "BOOL",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bfloat16": "BF16",
    "string": "BYTES",
}


@dataclass(eq=False)
class Loaded:
    """One version of a model, loaded once; loading it again makes another one.

    `key` is the engine's name for it. With `batching` the first dimension of its tensors is the batch: open
    to clients, and 1 for the engine, which puts requests together. `profiled_s` is when it was profiled
    (seconds since the epoch), `unsteady` says by what it showed that the machine was busy then. `users`
    counts requests under way; once it is `retired` no further ones begin, and `unused` is set when the last
    one has ended.
    """

    name: str
    version: str
    key: str
    split: SplitModel
    blocks: int
    isolated_s: float
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    labels: Mapping[str, tuple[str, ...]]
    profiled_s: float = 0.0
    unsteady: str = ""
    batching: Batching | None = None
    users: int = 0
    retired: bool = False
    unused: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls,
        name: str,
        version: str,
        key: str,
        intake: Intake,
        isolated_s: float,
        labels: Mapping[str, tuple[str, ...]],
        batching: Batching | None = None,
    ) -> Loaded:
        """A model that was taken in.

        Raises HeadwayError for inputs or outputs that the protocol has no word for, labels of none of its
        outputs, and batches whose outputs do not have one row for each request.
        """
        split = intake.split
        inputs = tuple(_spec("input", each, type) for each, type in split.inputs.items())
        outputs = tuple(_spec("output", each, split.types[each]) for each in split.outputs)
        if batching is not None:
            _require_rows(split)
            inputs, outputs = _opened(inputs), _opened(outputs)
        for output in labels:
            if output not in split.outputs:
                raise HeadwayError(f"labels: no output {output!r}; accepted: {', '.join(split.outputs)}")
        return cls(
            name,
            version,
            key,
            split,
            len(split.blocks),
            isolated_s,
            inputs,
            outputs,
            labels,
            intake.measured_s,
            intake.profile.unsteady,
            batching,
        )

    @property
    def most_batch(self) -> int:
        """How many requests may run together, and rows a client may bring."""
        return 1 if self.batching is None else self.batching.max_size

    def checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A request's inputs as the runtime takes them, copied only where they do not lie as it needs them.

        Raises Refusal (INVALID) naming the input that is missing, unknown, or of another type or shape.
        """
        types = self.split.inputs
        given = {
            name: _as_text(name, array) if _is_text(types.get(name)) else array
            for name, array in inputs.items()
        }
        try:
            checked = checked_inputs(given, types, {}, f"model {self.name!r}")
        except HeadwayError as error:
            raise Refusal(Cause.INVALID, str(error)) from None
        for name, array in checked.items():
            if not array.flags.aligned:  # a body's tensors begin wherever its JSON ends
                checked[name] = array.copy()
        return checked

    def wanted(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """The outputs that a request asks for. Raises Refusal (INVALID) for one that there is not."""
        for name in outputs:
            if name not in self.split.outputs:
                raise Refusal(
                    Cause.INVALID,
                    f"model {self.name!r}: there is no output {name!r};"
                    f" accepted: {', '.join(self.split.outputs)}",
                )
        return outputs or self.split.outputs

    def results(self, made: Mapping[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
        """The outputs asked for, in that order; texts as bytes."""
        return {
            name: _as_bytes(made[name]) if _is_text(self.split.types[name]) else made[name] for name in wanted
        }


def _require_rows(split: SplitModel) -> None:
    for name in split.outputs:
        found = split.rows.get(name, 0)
        if found != 1:
            raise HeadwayError(
                f"output {name!r} has {found} rows for each request; accepted for batches: one, in front"
            )


def _opened(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, shape=(-1, *spec.shape[1:])) for spec in specs)


def _spec(sort: str, name: str, type: ValueType) -> TensorSpec:
    datatype = _DATATYPES.get(type.dtype)
    if type.kind is not ValueKind.TENSOR or datatype is None:
        raise HeadwayError(
            f"{sort} {name!r} is of type {type.text}; accepted: tensors of {', '.join(_DATATYPES)}"
        )
    return TensorSpec(name, datatype, tuple(-1 if dim is None else dim for dim in type.dims or ()))


def _is_text(type: ValueType | None) -> bool:
    return type is not None and type.dtype == "string"


def _as_text(name: str, array: Any) -> Any:
    """ONNX Runtime takes texts as str: bytes would become what Python shows of them."""
    import numpy as np

    texts = np.empty(array.size, dtype=object)
    try:
        for at, value in enumerate(array.flat):
            texts[at] = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise Refusal(
            Cause.INVALID, f"input {name!r} has elements that are not UTF-8; accepted: texts in UTF-8"
        ) from None
    return texts.reshape(array.shape)


def _as_bytes(array: Any) -> Any:
    import numpy as np

    values = np.empty(array.size, dtype=object)
    for at, value in enumerate(array.flat):
        values[at] = str(value).encode("utf-8", "surrogateescape")
    return values.reshape(array.shape)
