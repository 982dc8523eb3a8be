"""An inference under way, from an event loop's side."""

from __future__ import annotations

import asyncio
from functools import partial

from headway.serve.refusal import Refusal
from headway.serve.service import InferenceRequest, InferenceResult, InferenceService


async def result_of(service: InferenceService, request: InferenceRequest) -> InferenceResult:
    """Submit a request and wait for its result. Raises Refusal; cancelling the wait cancels the request."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[InferenceResult | Refusal] = loop.create_future()
    ticket = service.submit(request, partial(_deliver, loop, outcome))
    try:
        result = await outcome
    except asyncio.CancelledError:
        ticket.cancel()
        raise
    if isinstance(result, Refusal):
        raise result
    return result


def _deliver(
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[InferenceResult | Refusal],
    result: InferenceResult | Refusal,
) -> None:
    try:
        loop.call_soon_threadsafe(_settle, outcome, result)
    except RuntimeError:  # the front ends are closed: nobody waits any more
        return


def _settle(outcome: asyncio.Future[InferenceResult | Refusal], result: InferenceResult | Refusal) -> None:
    if not outcome.done():
        outcome.set_result(result)
