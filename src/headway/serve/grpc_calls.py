"""A gRPC call from its message to its end, whatever it asks for."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc

from headway.serve.http_messages import refusal_headers
from headway.serve.refusal import Cause, Refusal
from headway.serve.tensors import invalid

_log = logging.getLogger(__name__)
_END_KNOWN_S = 0.5
"""When a call has ended without a message, its task is cancelled: at once, or when the loop comes to it."""


async def message_of(context: Any) -> bytes:
    """The message of a call that has one.

    Methods of one message are registered as ones of a stream of them, which is the same on the wire: gRPC
    does not tell handlers of a call whose message did not arrive, and leaves it open if it has none.

    Raises:
        Refusal: there is none (INVALID), or the call's deadline came first (LATE).
        CancelledError: the call ended before its message was whole: its client withdrew it or went, or the
            message is larger than gRPC's own limit.
    """
    data = await context.read()
    if data is not grpc.aio.EOF:
        whole: bytes = data
        return whole
    remaining_s = context.time_remaining()
    if remaining_s is not None and remaining_s <= 0.0:
        raise Refusal(Cause.LATE, "its deadline came before its message")
    await asyncio.sleep(_END_KNOWN_S)
    raise invalid("the call has no message, one is needed")


def metadata_of(context: Any) -> dict[str, str]:
    """A call's metadata, without those that are bytes; of repeated names the last."""
    return {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}


def refusal_of(error: BaseException) -> Refusal:
    """What a client hears of it. Raises it again where nobody is left to hear: the call was cancelled."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, Exception):
        raise error
    _log.error("a gRPC call failed", exc_info=error)
    return Refusal(Cause.INTERNAL, "the server failed to answer this request; its log tells more")


async def abort(context: Any, refusal: Refusal) -> None:
    """End a call with a refusal; always raises."""
    trailing = [pair for pair in refusal_headers(refusal) if pair[0] != "www-authenticate"]
    if refusal.retry_after_s is not None:
        # What gRPC's own retries wait for (gRFC A6).
        trailing.append(("grpc-retry-pushback-ms", str(round(refusal.retry_after_s * 1e3))))
    code = getattr(grpc.StatusCode, refusal.cause.grpc_code)
    await context.abort(code, refusal.message, tuple(trailing))
