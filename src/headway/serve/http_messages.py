"""A request and an answer of HTTP/1.1 as the data plane's handlers see them."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from headway.serve.refusal import Cause, Refusal
from headway.serve.tensors import Buffer

INFERENCE_HEADER = "inference-header-content-length"


@dataclass(slots=True)
class HttpRequest:
    """A request whose body has arrived; header names are in lower case, repeated ones joined by commas.

    The first byte behind the JSON that `inference_header` measures lies at a multiple of 64 in memory, so
    that tensors can be views of the body. `arrived_s` is when its head was complete, on time.perf_counter.
    """

    method: str
    path: str
    query: bytes
    headers: Mapping[str, str]
    body: memoryview
    peer: tuple[str, int]
    arrived_s: float
    raw_headers: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class HttpAnswer:
    """A status, headers besides Content-Length, and the body's parts, which are sent without being joined.

    With `stream`, its items follow as chunks for as long as it goes on.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    parts: Sequence[Buffer]
    close: bool = False
    stream: AsyncGenerator[bytes, None] | None = None


@dataclass(frozen=True, slots=True)
class EarlyAnswer:
    """The answer to a request that did not arrive whole, or was not HTTP/1.1.

    `method`, `path` and `headers` are as far as its head was read, `body_bytes` is what had arrived of its
    body; `began_s` is when its head was complete, or began, on time.perf_counter.
    """

    status: int
    message: str
    answer_bytes: int
    method: str
    path: str
    headers: Mapping[str, str]
    body_bytes: int
    peer: tuple[str, int]
    began_s: float


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]
Witness = Callable[[EarlyAnswer], None]

_JSON = ("content-type", "application/json")


def json_answer(value: object, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
    return HttpAnswer(status, [_JSON, *headers], [json.dumps(value, separators=(",", ":")).encode()])


def error_answer(status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
    """An error in the protocol's form."""
    return json_answer({"error": message}, status, headers)


def refusal_headers(refusal: Refusal) -> list[tuple[str, str]]:
    """When to come again, in whole seconds as HTTP has it, and when the result would have come."""
    headers = []
    if refusal.retry_after_s is not None:
        headers.append(("retry-after", str(max(1, math.ceil(refusal.retry_after_s)))))
        headers.append(("headway-retry-after-ms", f"{refusal.retry_after_s * 1e3:.3f}"))
    if refusal.predicted_finish_s is not None:
        headers.append(("headway-predicted-finish-ms", f"{refusal.predicted_finish_s * 1e3:.3f}"))
    if refusal.cause is Cause.UNAUTHENTICATED:
        headers.append(("www-authenticate", "Bearer"))
    return headers


def refusal_answer(refusal: Refusal) -> HttpAnswer:
    return error_answer(refusal.cause.http_status, refusal.message, refusal_headers(refusal))


def key_of(headers: Mapping[str, str]) -> str | None:
    """The API key of `Authorization: Bearer` or `X-API-Key`, or None."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credential.strip():
        return credential.strip()
    return headers.get("x-api-key")


def refuse_other_sites(headers: Mapping[str, str]) -> None:
    """Raise Refusal (FORBIDDEN) for a change that a page of another site makes a browser ask for.

    Browsers say which site a request comes from, and send some without asking the server first. Where no key
    is needed, any page that is open on the machine could otherwise load and unload models.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    foreign = site not in ("same-origin", "none") if site else False
    if not site and origin:  # a browser of before 2023
        foreign = origin.partition("://")[2] != headers.get("host", "")
    if foreign:
        raise Refusal(
            Cause.FORBIDDEN, "the request comes from a page of another site; accepted: this server's"
        )


def answer_bytes(answer: HttpAnswer, *, keep_alive: bool, without_body: bool) -> list[Buffer]:
    """An answer as it goes over the wire."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Client Closed Request" if answer.status == 499 else "Unknown"
    lines = [f"HTTP/1.1 {answer.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    if answer.stream is None:
        lines.append(f"content-length: {sum(map(len, answer.parts))}")
    else:
        lines.append("transfer-encoding: chunked")
    if not keep_alive:
        lines.append("connection: close")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return [head] if without_body else [head, *answer.parts]
