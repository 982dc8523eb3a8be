"""Tenants of a scenario: the model each one runs, what it was promised, and when its requests come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from headway.config.arrivals import Arrivals
from headway.config.batching import Batching
from headway.config.priorities import Priority
from headway.config.quantities import DURATION, Duration
from headway.config.validation import Positive, Strict, exactly_one, mistake

MODEL_SUFFIXES = (".onnx", ".csv", ".m", ".yaml", ".yml")
"""How the names of model files end; what does not is a model of the zoo, or a table that is shipped."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]

TenantName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Letters, digits, '_' and '-', at most 64.",
        examples=["camera"],
    ),
]


def _parse_expiry(value: object) -> float | str:
    if value == "deadline":
        return "deadline"
    try:
        return DURATION.parse(value)
    except PydanticCustomError as error:
        raise PydanticCustomError("quantity", "{text}; or 'deadline'", {"text": error.message()}) from None


def _format_expiry(value: float | str) -> str:
    return value if isinstance(value, str) else DURATION.format(value)


Expiry = Annotated[
    float | Literal["deadline"],
    PlainValidator(_parse_expiry),
    PlainSerializer(_format_expiry, return_type=str),
    WithJsonSchema({"anyOf": [{"const": "deadline"}, DURATION.json_schema()]}),
]


class Sla(Strict):
    """What was promised: a latency, as a time or as a multiple of the isolated latency, and how often.

    The isolated latency is that of the model alone on the device: layer by layer on the best core for each,
    or, on lanes, as measured on as many of them as make it fastest.
    """

    deadline: Duration | None = None
    isolated: Annotated[Positive | None, Field(description="Multiple of the isolated latency.")] = None
    percentile: Annotated[
        float, Field(gt=0, le=100, allow_inf_nan=False, description="Share of requests, in percent.")
    ] = 99.0

    @model_validator(mode="after")
    def _check(self) -> Sla:
        exactly_one(self.deadline, self.isolated, 'deadline ("20 ms") and isolated (4.0)')
        return self

    def relative_deadline_s(self, isolated_s: float) -> float:
        """Seconds from arrival to deadline, given the model's isolated latency."""
        return self.deadline if self.deadline is not None else (self.isolated or 0.0) * isolated_s


class Tenant(Strict):
    """One tenant and its one model."""

    name: TenantName
    model: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            description="A zoo model's name, xrbench/NETWORK for a table of XRBench, or the path of a model"
            " file, relative to the scenario: .onnx, or a layer table of SCALE-Sim (.csv), ZigZag (.yaml) or"
            " MAESTRO (.m, or .m#NETWORK).",
        ),
    ]
    dims: Annotated[
        dict[str, Count],
        Field(default_factory=dict, description="Symbolic dimensions of an .onnx file, such as batch: 1."),
    ]
    options: Annotated[
        dict[str, Count],
        Field(
            default_factory=dict,
            description="Options of a zoo model, such as batch, image_size or sequence_length.",
        ),
    ]
    sla: Sla
    priority: Annotated[
        Priority,
        Field(description="Grows with importance; or drawn for each request, {draw: prema} or {draw: moca}."),
    ] = 0
    weight: Annotated[Positive, Field(description="Share, for policies that regard shares.")] = 1.0
    service_class: Annotated[
        Literal["strict", "best-effort"],
        Field(alias="class", description="Whether the SLA binds, or is only reported."),
    ] = "strict"
    expires: Annotated[
        Expiry | None,
        Field(description="A request that has not started by then is dropped: a time, or 'deadline'."),
    ] = None
    batching: Annotated[
        Batching | None,
        Field(description="Whether its requests may run together, on lanes or streams; by default not."),
    ] = None
    arrivals: Arrivals

    @model_validator(mode="after")
    def _check_model(self) -> Tenant:
        if self.is_file and self.options:
            raise mistake("options are for zoo models; for an .onnx file use dims", "options")
        if self.dims and not self._file_name.lower().endswith(".onnx"):
            instead = "a layer table has none" if self.is_file else "for a zoo model use options"
            raise mistake(f"dims are for .onnx files; {instead}", "dims")
        return self

    @property
    def is_file(self) -> bool:
        """Whether the model is a file rather than a zoo model."""
        return self._file_name.lower().endswith(MODEL_SUFFIXES)

    @property
    def _file_name(self) -> str:
        """The model without the network that is picked from a table: `tables.m` of `tables.m#NETWORK`."""
        return self.model if self.model.lower().endswith(MODEL_SUFFIXES) else self.model.rpartition("#")[0]

    @property
    def strict(self) -> bool:
        """Whether the SLA binds."""
        return self.service_class == "strict"

    def expires_after_s(self, relative_deadline_s: float) -> float | None:
        """Seconds after arrival at which a request that has not started is dropped, or None for never."""
        return relative_deadline_s if isinstance(self.expires, str) else self.expires

    def model_path(self, folder: Path) -> Path | None:
        """What a reader of models takes, relative paths taken from `folder`; None for a zoo model.

        The network that is picked from a table is at its end; `model_file` is the file alone.
        """
        return folder / self.model if self.is_file else None

    def model_file(self, folder: Path) -> Path | None:
        """The model's file, relative paths taken from `folder`; None for a zoo model."""
        return folder / self._file_name if self.is_file else None
