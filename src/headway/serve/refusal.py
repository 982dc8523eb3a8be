"""Why a request is not answered with tensors: one exception for every front end."""

from __future__ import annotations

from enum import Enum
from typing import Final

_KEPT_CHARACTERS: Final = 300
"""Of each end of a message. gRPC sends one in trailers, of which clients take 8 KB."""


class Cause(Enum):
    """The sorts of refusal, each with its HTTP status and the name of its gRPC status code."""

    INVALID = (400, "INVALID_ARGUMENT")  # the request itself is wrong
    UNAUTHENTICATED = (401, "UNAUTHENTICATED")  # no key, or one that nobody has
    FORBIDDEN = (403, "PERMISSION_DENIED")  # the tenant may not use that
    NOT_FOUND = (404, "NOT_FOUND")  # no such model, version or path
    CONFLICT = (409, "FAILED_PRECONDITION")  # such as loading what is being unloaded
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")  # the body, a tensor, or what a queue may hold
    LIMITED = (429, "RESOURCE_EXHAUSTED")  # over the tenant's rate or queue bound, or not in time for its SLA
    CANCELLED = (499, "CANCELLED")  # the client went away or withdrew it
    INTERNAL = (500, "INTERNAL")  # a defect, or a model that failed
    UNAVAILABLE = (503, "UNAVAILABLE")  # not ready, draining, or the model is being loaded
    LATE = (504, "DEADLINE_EXCEEDED")  # its deadline came before its result

    def __init__(self, http_status: int, grpc_code: str) -> None:
        self.http_status = http_status
        self.grpc_code = grpc_code


class Refusal(Exception):
    """A request that ends without a result.

    `message` is for the client, and short whatever the client sent: it names the field, what was found and
    what is accepted, and holds no path of this machine and no stack trace. `retry_after_s` says when another
    try may succeed, `predicted_finish_s` after how many seconds the result would have come, where that is
    known.
    """

    def __init__(
        self,
        cause: Cause,
        message: str,
        *,
        retry_after_s: float | None = None,
        predicted_finish_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = _shortened(message)
        self.retry_after_s = retry_after_s
        self.predicted_finish_s = predicted_finish_s


def _shortened(message: str) -> str:
    """What clients call things is in messages, and can have any length."""
    if len(message) <= 2 * _KEPT_CHARACTERS:
        return message
    return f"{message[:_KEPT_CHARACTERS]} ... {message[-_KEPT_CHARACTERS:]}"
