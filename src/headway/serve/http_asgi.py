"""An ASGI application as a handler of requests: for everything but inference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any

from headway.serve.http_messages import HttpAnswer, HttpRequest

Message = MutableMapping[str, Any]
AsgiApplication = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
_QUEUED_MESSAGES = 8


class _Exchange:
    """One request and its answer, between the application's task and the connection's."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._given = False
        self.error: Exception | None = None
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue(_QUEUED_MESSAGES)

    async def receive(self) -> Message:
        if self._given:
            # The application's task is cancelled when the client goes: there is nothing to hear until then.
            await asyncio.Event().wait()
        self._given = True
        return {"type": "http.request", "body": bytes(self._request.body), "more_body": False}

    async def send(self, message: Message) -> None:
        await self.messages.put(message)

    async def run(self, application: AsgiApplication, scope: Message) -> None:
        try:
            await application(scope, self.receive, self.send)
        except Exception as error:
            self.error = error
        await self.messages.put(None)


async def asgi_answer(application: AsgiApplication, request: HttpRequest) -> HttpAnswer:
    """The application's answer to a request; a stream where it sends its body in parts."""
    exchange = _Exchange(request)
    scope: Message = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "root_path": "",
        "headers": request.raw_headers,
        "client": request.peer,
        "server": None,
    }
    task = asyncio.create_task(exchange.run(application, scope))
    streamed = False
    try:
        start = await exchange.messages.get()
        body = await exchange.messages.get() if start is not None else None
        if start is None or body is None:
            if exchange.error is not None:
                raise exchange.error
            raise RuntimeError("the application ended without an answer")
        answer_headers = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in start.get("headers", [])
            if name.lower() not in (b"content-length", b"transfer-encoding")
        ]
        first = body.get("body", b"")
        if not body.get("more_body", False):
            return HttpAnswer(start["status"], answer_headers, [first])
        streamed = True
        return HttpAnswer(start["status"], answer_headers, [], stream=_stream(first, exchange, task))
    finally:
        if not streamed:
            task.cancel()


async def _stream(first: bytes, exchange: _Exchange, task: asyncio.Task[None]) -> AsyncGenerator[bytes, None]:
    try:
        if first:
            yield first
        while True:
            message = await exchange.messages.get()
            if message is None:
                if exchange.error is not None:
                    raise exchange.error
                return
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return
    finally:
        task.cancel()
