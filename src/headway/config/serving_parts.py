"""The parts of a server's configuration: models, a repository, tenants and their bounds, the event log."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from headway.config.batching import Batching
from headway.config.quantities import Duration, Rate, Size
from headway.config.tenants import Count, Expiry, Sla, TenantName
from headway.config.validation import Positive, Strict, mistake

_KEY_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def _parse_key_hash(value: object) -> str:
    """Says nothing of what was found: it may be a key in clear."""
    if isinstance(value, str) and _KEY_HASH.fullmatch(value):
        return value
    raise mistake("found no hash; accepted: sha256: and 64 digits, as `headway keys new` prints it")


KeyHash = Annotated[
    str,
    PlainValidator(_parse_key_hash),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^{_KEY_HASH.pattern}$",
            "description": "The hash of an API key, as `headway keys new` prints it; never the key itself.",
        }
    ),
]
ModelName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        description="Letters, digits, '.', '_' and '-', at most 128.",
    ),
]


class ServedModel(Strict):
    """A model that is loaded when the server starts and stays until a new configuration leaves it out."""

    name: ModelName
    model: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            description="An .onnx file, relative to this one, or a zoo model; by default that of its name.",
        ),
    ] = None
    dims: Annotated[
        dict[str, Count],
        Field(
            default_factory=dict, description="Symbolic dimensions of an .onnx file, such as sequence: 128."
        ),
    ]
    options: Annotated[
        dict[str, Count],
        Field(default_factory=dict, description="Options of a zoo model, such as image_size."),
    ]
    batching: Annotated[
        Batching | None,
        Field(description="Whether requests run together; the first dimension of all inputs is then open."),
    ] = None
    labels: Annotated[
        dict[str, str],
        Field(
            default_factory=dict,
            description="For the classification extension: a file with one class name a line, by output.",
        ),
    ]

    @property
    def source(self) -> str:
        """The zoo's name or the file."""
        return self.model or self.name

    @property
    def is_file(self) -> bool:
        """Whether the model is a file rather than a zoo model."""
        return self.source.lower().endswith(".onnx")

    @model_validator(mode="after")
    def _check(self) -> ServedModel:
        if self.is_file and self.options:
            raise mistake("options are for zoo models; for an .onnx file use dims", "options")
        if not self.is_file and self.dims:
            raise mistake("dims are for .onnx files; for a zoo model use options", "dims")
        return self


class Repository(Strict):
    """A folder of models, each with numbered folders of its versions: NAME/VERSION/model.onnx."""

    path: Annotated[str, Field(min_length=1, max_length=4096, description="Relative to this file.")]
    mode: Annotated[
        Literal["explicit", "poll"],
        Field(description="Whether models are loaded when somebody asks, or whenever the folder changes."),
    ] = "explicit"
    poll_every: Duration = 5.0
    load: Annotated[
        Literal["all", "none"] | Annotated[tuple[ModelName, ...], Field(strict=False)],
        Field(description="What explicit mode loads at the start."),
    ] = "all"
    overrides: Annotated[
        bool,
        Field(description="Whether a load request may bring a configuration in place of the model's own."),
    ] = False
    uploads: Annotated[
        bool,
        Field(
            description="Whether a load request may bring the model's files, and a configuration with them."
            " They serve until the model is unloaded or loaded again, and are not kept in the folder."
        ),
    ] = False
    upload_size: Annotated[Size, Field(description="The most that the files of one request may have.")] = (
        256 * 2.0**20
    )


Port = Annotated[int, Field(ge=0, le=65535)]


class Listen(Strict):
    """Where the server listens; port 0 is any free one, null none."""

    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    http: Port | None = 8000
    grpc: Port | None = 8001
    control: Annotated[
        Port | None, Field(description="For loading, unloading and settings, and for a new configuration.")
    ] = 8002
    control_grpc: Annotated[
        Port | None, Field(description="The same by gRPC, on the control host; by default none.")
    ] = None
    control_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    http_metrics: Annotated[
        bool, Field(description="Whether /metrics, which the control port has, is on the HTTP port, too.")
    ] = False


class QueueBound(Strict):
    """The most that a tenant may have unanswered."""

    requests: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    size: Annotated[Size, Field(description="Of the bodies of these requests together.")] = 256 * 2.0**20


class ServedTenant(Strict):
    """Who may use which models, what was promised, and how much may come."""

    name: TenantName
    keys: Annotated[
        tuple[KeyHash, ...],
        Field(strict=False, description="Hashes of its API keys; several while one replaces another."),
    ] = ()
    models: Annotated[
        Literal["all"] | Annotated[tuple[ModelName, ...], Field(strict=False)],
        Field(description="Those it may use."),
    ] = "all"
    sla: Annotated[
        Sla | None, Field(description="Without one its requests have the time that they bring, or an hour.")
    ] = None
    slas: Annotated[dict[str, Sla], Field(default_factory=dict, description="By model, in place of sla.")]
    service_class: Annotated[
        Literal["strict", "best-effort"],
        Field(alias="class", description="Whether the SLA binds, or is only reported."),
    ] = "strict"
    priority: Annotated[
        int,
        Field(ge=-1_000_000, le=1_000_000, description="For policies that regard it; grows with importance."),
    ] = 0
    weight: Annotated[Positive, Field(description="Share, for policies that regard shares.")] = 1.0
    expires: Annotated[
        Expiry,
        Field(
            description="A request that has not started by then is answered with 504: a time, or 'deadline',"
            " which for best effort is that of the request, not of its SLA."
        ),
    ] = "deadline"
    rate: Annotated[Rate | None, Field(description="Requests that may come in the long run.")] = None
    burst: Annotated[
        int | None,
        Field(ge=1, le=1_000_000, description="Requests that may come at once; by default a second's worth."),
    ] = None
    queue: QueueBound = QueueBound()
    admin: Annotated[bool, Field(description="Whether its keys may load and unload models.")] = False

    @model_validator(mode="after")
    def _check(self) -> ServedTenant:
        if self.burst is not None and self.rate is None:
            raise mistake("needs a rate; accepted: rate and burst, or neither", "burst")
        return self

    @property
    def strict(self) -> bool:
        """Whether the SLA binds."""
        return self.service_class == "strict"

    def sla_of(self, model: str) -> Sla | None:
        """What was promised for that model."""
        return self.slas.get(model, self.sla)

    def may_use(self, model: str) -> bool:
        """Whether its requests may name that model."""
        return isinstance(self.models, str) or model in self.models


class EventLog(Strict):
    """Where the engine's event log goes, in parts that `headway export` reads, and how much of it is kept."""

    folder: Annotated[str, Field(min_length=1, max_length=4096, description="Relative to this file.")]
    part: Annotated[Duration, Field(description="The time that one part spans.")] = 3600.0
    keep: Annotated[Size, Field(description="The oldest parts go when all are larger.")] = 2.0**30


class AccessLog(Strict):
    """Where a line of JSON goes for each request, and how much of that is kept."""

    file: Annotated[str, Field(min_length=1, max_length=4096, description="Relative to this file.")]
    part: Annotated[
        Size, Field(description="A file of that size is closed, and numbered, for a new one.")
    ] = 16 * 2.0**20
    keep: Annotated[int, Field(ge=1, le=1000, description="Closed files that are kept.")] = 10


class Tracing(Strict):
    """Where spans of requests go, by OpenTelemetry's protocol; needs the packages of headway[tracing]."""

    endpoint: Annotated[
        str,
        Field(
            pattern=r"^https?://[^\s/@?#]{1,255}/?$",
            description="A collector that takes OTLP over gRPC: http://localhost:4317; https encrypts.",
        ),
    ]
    rate: Annotated[
        int,
        Field(
            ge=0,
            le=2**32 - 1,
            description="One of so many requests of a model is traced, 0 none, besides those whose client"
            " traces them. Trace settings of the protocol change it while the server runs.",
        ),
    ] = 1000
