"""What the front ends (HTTP, gRPC, dashboard) ask of the engine behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from headway.serve.refusal import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headway.serve.visits import Visit


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of a model: `datatype` is the protocol's name (FP32, INT64, BYTES); -1 is a free dimension."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """One version of a model, as clients see it.

    With `max_batch_size` above 0 the first dimension of every shape is the batch. `labels` are class names by
    output, for the classification extension.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int = 0
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class ModelState(StrEnum):
    """The repository extension's states."""

    UNKNOWN = "UNKNOWN"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    UNLOADING = "UNLOADING"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A line of the repository index."""

    name: str
    version: str
    state: ModelState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """How often something happened, and how long it took altogether."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """The statistics extension's numbers of one version of a model; times as it defines them.

    `batches` are executions by batch size, with their compute times. `last_inference_ms` is since the epoch.
    """

    name: str
    version: str
    last_inference_ms: int
    inference_count: int
    execution_count: int
    success: Count
    fail: Count
    queue: Count
    compute_input: Count
    compute_infer: Count
    compute_output: Count
    batches: Mapping[int, Count] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """An inference that a client asks for, decoded and valid in itself, not yet against its model.

    `inputs` are arrays by name; they may be read-only views of the request's body and are not changed.
    BYTES tensors are object arrays of bytes. `outputs` are the names asked for, empty for all. `key` is the
    API key, `peer` where the client is. `timeout_s` is the tightest bound that came with the request
    (timeout, deadline_ms, a gRPC deadline), from `arrived_s` on, which is on the clock of time.perf_counter.
    `priority` grows with importance (front ends translate the protocol's), None is the tenant's own. `visit`
    is told who asks, and when the engine has the request.
    """

    model: str
    version: str
    inputs: Mapping[str, NDArray]  # type: ignore[type-arg]
    outputs: tuple[str, ...]
    id: str
    key: str | None
    arrived_s: float
    timeout_s: float | None = None
    priority: int | None = None
    peer: str = ""
    body_bytes: int = 0
    visit: Visit | None = None


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The outputs asked for, by name in their order, and what became of the request's time.

    `batch` is how many requests ran together with it at last, itself included.
    """

    model: str
    version: str
    outputs: Mapping[str, NDArray]  # type: ignore[type-arg]
    queue_s: float = 0.0
    compute_s: float = 0.0
    batch: int = 1


Done = Callable[[InferenceResult | Refusal], None]
"""Called once, from any thread; it must not block."""


class Ticket(Protocol):
    """A request that is under way."""

    def cancel(self) -> None:
        """The client has gone: stop at the next block; `done` hears of CANCELLED if it heard of nothing."""
        ...


class InferenceService(Protocol):
    """The engine with its models and tenants. All methods may be called from any thread and return fast.

    Methods that are given a `key` raise Refusal (UNAUTHENTICATED, FORBIDDEN) if its tenant may not do that.
    """

    def submit(self, request: InferenceRequest, done: Done) -> Ticket:
        """Begin an inference. Raises Refusal if it is refused at once; `done` is not called then."""
        ...

    def refused(self, model: str, version: str, key: str | None, refusal: Refusal, visit: Visit) -> None:
        """A front end refuses what it could not read: to be counted where its tenant and model are known."""
        ...

    def live(self) -> bool:
        """Whether the process works at all."""
        ...

    def ready(self) -> bool:
        """Whether requests are taken: all models are warm, and nothing is draining."""
        ...

    def model_ready(self, model: str, version: str = "") -> bool:
        """Whether that version (empty: the one served by default) is. Raises Refusal for an unknown model."""
        ...

    def describe(self, model: str, version: str = "") -> ModelDescription:
        """Its metadata. Raises Refusal (NOT_FOUND) for one that is unknown or not loaded."""
        ...

    def statistics(self, model: str = "", version: str = "") -> Sequence[ModelStatistics]:
        """Statistics of one model, or of all."""
        ...

    def index(self, *, only_ready: bool = False) -> Sequence[IndexEntry]:
        """What the repository holds."""
        ...

    async def load(
        self,
        model: str,
        key: str | None,
        config: str | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Load a model, or load it again; returns when it is warm. Raises Refusal, also for a bad model.

        `files`, by their place in the model's folder, stand in place of that folder for this load.
        """
        ...

    async def unload(self, model: str, key: str | None) -> None:
        """Drain a model and give back what it held; returns when that is done."""
        ...
