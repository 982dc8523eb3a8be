"""What a client hears of an inference: from the engine's reply to tensors or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headway.core.messages import Reply
from headway.core.request import Request, State
from headway.core.run import Outcome
from headway.serve.causes import is_clients_fault, without_paths
from headway.serve.loaded import Loaded
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import Done, InferenceResult
from headway.serve.tenants import Door

LEAST_RETRY_S: Final = 1e-3


@dataclass(eq=False, slots=True)
class Inference:
    """A request under way: what it came with, what it made, and who waits for it.

    `pending` holds `done` until it is answered: whoever pops it answers. Times are on the engine's clock.
    """

    request: Request
    loaded: Loaded
    inputs: Mapping[str, Any]
    wanted: tuple[str, ...]
    pending: list[Done]
    door: Door | None = None
    size: int = 0
    input_s: float = 0.0
    made: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of an inference, for whoever watches the service.

    Times are seconds. `refusal` is None for one that was answered with tensors; `in_time` says whether that
    was by its deadline. `predicted_s` is when, after its arrival, it would have been done, where it was
    refused for that.
    """

    tenant: str
    model: str
    version: str
    deadline_s: float
    total_s: float
    queue_s: float
    compute_s: float
    in_time: bool
    refusal: Refusal | None = None
    predicted_s: float | None = None


def answer_to(
    inference: Inference, reply: Reply, now: float, finish_s: float | None
) -> InferenceResult | Refusal:
    """What the engine's reply at that time is to a client.

    `finish_s` is when a request that was dropped would have been done, if that was predicted.
    """
    request, loaded = reply.request, inference.loaded
    if reply.outcome is Outcome.DONE:
        queue_s, compute_s = _times(request)
        outputs = loaded.results(inference.made, inference.wanted)
        return InferenceResult(loaded.name, loaded.version, outputs, queue_s, compute_s, reply.batch)
    if reply.outcome is Outcome.FAILED:
        return _failure(reply.reason, loaded)
    if reply.outcome is Outcome.CANCELLED:
        return stopping()
    if now >= request.deadline_s or (request.expires_s is not None and now >= request.expires_s):
        return Refusal(Cause.LATE, "its time was over before it could be run")
    after_s = None if finish_s is None else finish_s - request.arrival_s
    retry_s = None if finish_s is None else max(LEAST_RETRY_S, finish_s - request.deadline_s)
    shown = "" if after_s is None else f": it would take {after_s * 1e3:.1f} ms"
    allowed_s = request.deadline_s - request.arrival_s
    return Refusal(
        Cause.LIMITED,
        f"it would be late{shown}, and has {allowed_s * 1e3:.1f} ms",
        retry_after_s=retry_s,
        predicted_finish_s=after_s,
    )


def stopping() -> Refusal:
    """The answer while the server ends."""
    return Refusal(Cause.UNAVAILABLE, "the server is being stopped")


def _times(request: Request) -> tuple[float, float]:
    """Seconds that a request waited, and seconds that it ran, by its story."""
    ran_s, since_s = 0.0, None
    for at_s, _, state in request.story:
        if state is State.RUNNING:
            since_s = at_s
        elif state is not State.STOPPING and since_s is not None:
            ran_s += at_s - since_s
            since_s = None
    end_s = request.story[-1][0] if request.story else request.arrival_s
    return max(0.0, end_s - request.arrival_s - ran_s), ran_s


def _failure(cause: str, loaded: Loaded) -> Refusal:
    shown = f"model {loaded.name!r} version {loaded.version}"
    text = without_paths(cause)
    if is_clients_fault(cause):
        return Refusal(Cause.INVALID, f"{shown} could not run on these inputs: {text}")
    return Refusal(Cause.INTERNAL, f"{shown} failed: {text}")


def broken() -> Refusal:
    """The answer once there is no engine any more."""
    return Refusal(Cause.INTERNAL, "the engine has ended by a defect; the server has to be started anew")
