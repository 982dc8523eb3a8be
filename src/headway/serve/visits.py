"""What front ends tell of each request that they answer: always counted, logged and traced if asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any, Protocol

from headway.core.request import Request
from headway.serve.refusal import Cause, Refusal
from headway.serve.requests import NO_SLA_S


@dataclass(slots=True, eq=False)
class Visit:
    """One request from its arrival to its answer. It never holds keys or tensors.

    Times ending in `_s` are on the clock of time.perf_counter, None where it did not come so far; `at_s` is
    its arrival in seconds since the epoch. `target` is a method and a path, or gRPC's method. `code` is an
    HTTP status or the name of a gRPC status, `cause` the sort of refusal. `number` is the engine's id,
    `deadline_s` counts from the arrival, None if there was none.
    `follow` is called with it before the engine has the request; `span` belongs to whoever traces.
    """

    protocol: str
    peer: str
    target: str
    at_s: float
    arrived_s: float
    body_bytes: int
    infer: bool
    model: str = ""
    version: str = ""
    id: str = ""
    tenant: str = ""
    number: int | None = None
    deadline_s: float | None = None
    decoded_s: float | None = None
    taken_s: float | None = None
    result_s: float | None = None
    ended_s: float = 0.0
    queue_s: float | None = None
    compute_s: float | None = None
    answer_bytes: int = 0
    code: int | str = 0
    cause: Cause | None = None
    follow: Callable[[int], None] | None = None
    span: Any = None
    trace: str = ""

    def asks(self, model: str, version: str, id: str) -> None:
        """It is decoded, and asks for that."""
        self.model, self.version, self.id = model, version, id
        self.decoded_s = perf_counter()

    def taken(self, asked: Request) -> None:
        """The engine is about to have it."""
        self.taken_s = perf_counter()
        self.number, deadline_s = asked.id, asked.deadline_s - asked.arrival_s
        self.deadline_s = deadline_s if deadline_s < NO_SLA_S else None
        if self.follow is not None:
            self.follow(asked.id)

    def result(self, queue_s: float, compute_s: float) -> None:
        """Its result is there, and will be encoded."""
        self.result_s = perf_counter()
        self.queue_s, self.compute_s = queue_s, compute_s


class Log(Protocol):
    """Takes visits that are over."""

    def add(self, visit: Visit) -> None:
        """Must not block."""
        ...

    @property
    def lost(self) -> int:
        """How many could not be written."""
        ...


class Tracing(Protocol):
    """Follows some visits."""

    def begin(self, visit: Visit, headers: Mapping[str, str]) -> None:
        """Decide whether to follow one whose model is known; `headers` are in lower case."""
        ...

    def end(self, visit: Visit) -> None:
        """One that it follows is over."""
        ...


class Visits:
    """Where front ends register requests. `answers` counts them by (protocol, infer or other, code)."""

    def __init__(self, log: Log | None = None, tracing: Tracing | None = None) -> None:
        self.log, self._tracing = log, tracing
        self.answers: Counter[tuple[str, str, str]] = Counter()

    def begin(
        self, protocol: str, peer: str, target: str, arrived_s: float, body_bytes: int, *, infer: bool
    ) -> Visit:
        """A request has arrived."""
        at_s = time() - (perf_counter() - arrived_s)
        return Visit(protocol, peer, target, at_s, arrived_s, body_bytes, infer)

    def trace(self, visit: Visit, headers: Mapping[str, str]) -> None:
        """The model is known: follow it from now on, if requests are traced."""
        if self._tracing is not None and visit.span is None:
            self._tracing.begin(visit, headers)

    def answered(self, visit: Visit, code: int | str, answer_bytes: int) -> None:
        """It has an answer, which is handed to the network."""
        visit.ended_s = perf_counter()
        visit.code, visit.answer_bytes = code, answer_bytes
        self.answers[visit.protocol, "infer" if visit.infer else "other", str(code)] += 1
        if self.log is not None:
            self.log.add(visit)
        if self._tracing is not None and visit.span is not None:
            self._tracing.end(visit)

    def failed(self, visit: Visit, error: BaseException) -> None:
        """It ended with that exception, which its client hears of, or whose client has gone."""
        if isinstance(error, Refusal):
            visit.cause = error.cause
        elif isinstance(error, asyncio.CancelledError):
            visit.cause = Cause.CANCELLED
        else:
            visit.cause = Cause.INTERNAL
        code = visit.cause.http_status if visit.protocol == "http" else visit.cause.grpc_code
        self.answered(visit, code, 0)
