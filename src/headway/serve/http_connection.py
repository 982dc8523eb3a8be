"""HTTP/1.1 connections whose bodies are received straight into the memory that tensors are views of.

httptools parses heads and chunked bodies. A body of known length does not pass through the parser: the kernel
writes it into one buffer, which takes a quarter of the processor time that uvicorn takes for a body of 600 KB
(bench/serve.py). Requests of a connection are answered one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast

from headway.serve.http_head import BadHead, RequestHead, aligned_buffer, inference_header_of
from headway.serve.http_messages import (
    EarlyAnswer,
    Handler,
    HttpAnswer,
    HttpRequest,
    Witness,
    answer_bytes,
    error_answer,
    refusal_answer,
)
from headway.serve.limits import Limits
from headway.serve.refusal import Refusal

_log = logging.getLogger(__name__)
_READ_BYTES = 64 << 10


class OpenConnections(set["HttpConnection"]):
    """A port's open connections, and the bytes of the bodies that they hold."""

    body_bytes = 0


class HttpConnection(asyncio.BufferedProtocol):
    """One connection. `connections` holds all that are open; `sweep` closes those that are too slow.

    `witness` is told of requests that are answered before they are whole, which the handler never sees.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        connections: OpenConnections,
        loop: asyncio.AbstractEventLoop,
        witness: Witness | None = None,
    ) -> None:
        self._handler = handler
        self._witness = witness
        self._limits = limits
        self._connections = connections
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._peer = ("", 0)
        self._scratch = memoryview(bytearray(_READ_BYTES))
        self._received = bytearray()  # not yet part of a request: a head to be completed, or the next request
        self._head: RequestHead | None = None
        self._body: memoryview | None = None
        self._body_at = 0
        self._held_bytes = 0
        self._arrived_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._draining = False
        self._streaming = False
        self._refused = False  # the rest of what the client sends is not looked at
        self._writable = asyncio.Event()
        self._writable.set()
        self.waits_until_s = self._idle_until()

    @property
    def busy(self) -> bool:
        """Whether a request has begun to arrive, or is being answered."""
        return self._task is not None or self._refused or self._head is not None or bool(self._received)

    def _idle_until(self) -> float:
        return time.perf_counter() + self._limits.idle_timeout_s

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else ("", 0)
        if len(self._connections) >= self._limits.connections:
            self._refuse(503, f"{self._limits.connections} connections are open, which is the limit")
            self._transport.close()
            return
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()
        else:
            if self._head is not None:
                self._tell(499, "the client went before its request was whole", 0)
            self._hold(0)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch if self._body is None else self._body[self._body_at :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None:
            self._body_at += nbytes
            try:
                self._hold(self._body_at)
            except BadHead as bad:
                self._refuse(bad.status, str(bad))
                return
            if self._body_at == len(self._body):
                self._begin()
            return
        if self._refused:
            return
        data = bytes(self._scratch[:nbytes])
        if self._task is not None:  # the next request, before this one's answer
            self._received += data
            if len(self._received) > _READ_BYTES and self._transport is not None:
                self._transport.pause_reading()
            return
        self._guarded(data)

    def eof_received(self) -> bool:
        return False  # a client that stops sending has gone: the connection is closed, its request cancelled

    def pause_writing(self) -> None:
        self._writable.clear()
        self.waits_until_s = time.perf_counter() + self._limits.body_timeout_s

    def resume_writing(self) -> None:
        self._writable.set()
        self.waits_until_s = self._idle_until()

    # A request's way

    def _hold(self, body_bytes: int) -> None:
        """Account for what a body takes so far: memory is taken by what arrives, not by what is announced."""
        self._connections.body_bytes += body_bytes - self._held_bytes
        self._held_bytes = body_bytes
        if body_bytes and self._connections.body_bytes > self._limits.all_bodies_bytes:
            raise BadHead(503, "the bodies of all requests together are at their limit; try again")

    def _guarded(self, data: bytes) -> None:
        try:
            self._take(data)
        except BadHead as bad:
            self._refuse(bad.status, str(bad))

    def _refuse(self, status: int, message: str) -> None:
        if self._transport is None:
            return
        answer = error_answer(status, message)
        self._transport.writelines(answer_bytes(answer, keep_alive=False, without_body=False))
        self._tell(status, message, sum(map(len, answer.parts)))
        # Closing now would reset a client that still sends, and the answer would be lost with it.
        self._transport.write_eof()
        self._refused = True
        self._head = self._body = None
        self._received.clear()
        self._hold(0)
        self.waits_until_s = time.perf_counter() + self._limits.head_timeout_s

    def _tell(self, status: int, message: str, answer_bytes: int) -> None:
        if self._witness is not None:
            head = self._head
            self._witness(
                EarlyAnswer(
                    status=status,
                    message=message,
                    answer_bytes=answer_bytes,
                    method="" if head is None else head.method,
                    path="" if head is None else head.path,
                    headers={} if head is None else head.headers,
                    body_bytes=self._held_bytes,
                    peer=self._peer,
                    began_s=self._arrived_s or time.perf_counter(),
                )
            )

    def _take(self, data: bytes) -> None:
        if self._head is not None:  # a chunked body
            self._head.feed(data)
            self._hold(self._head.body_bytes)
            if self._head.whole:
                self._body = self._head.body()
                self._begin()
            return
        if not self._received:
            self._arrived_s = time.perf_counter()
            self.waits_until_s = self._arrived_s + self._limits.head_timeout_s
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        head_bytes = end + 4 if end >= 0 else len(self._received)
        if head_bytes > self._limits.header_bytes:
            raise BadHead(431, f"the header has more than {self._limits.header_bytes} bytes, the limit")
        if end < 0:
            return
        self._arrived_s = time.perf_counter()
        self.waits_until_s = self._arrived_s + self._limits.body_timeout_s
        head = self._head = RequestHead(self._limits.body_bytes)
        head.feed(bytes(self._received[: end + 4]))
        if head.headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        rest = bytes(self._received[end + 4 :])
        self._received.clear()
        if head.chunked:
            head.keep_alive = False
            self._take(rest)
            return
        length = head.content_length()
        self._body = aligned_buffer(length, inference_header_of(head.headers))
        self._body_at = min(length, len(rest))
        self._body[: self._body_at] = rest[:length]
        self._hold(self._body_at)
        if len(rest) > length:
            self._received += rest[length:]
        if self._body_at == length:
            self._begin()

    def _begin(self) -> None:
        head, body = self._head, self._body
        assert head is not None
        assert body is not None
        self._head = self._body = None
        self.waits_until_s = float("inf")
        request = HttpRequest(
            head.method, head.path, head.query, head.headers, body, self._peer, self._arrived_s, head.raw
        )
        self._task = self._loop.create_task(self._answer(request, head.keep_alive))

    async def _answer(self, request: HttpRequest, keep_alive: bool) -> None:
        try:
            try:
                answer = await self._handler(request)
            except Refusal as refusal:
                answer = refusal_answer(refusal)
            except Exception:
                _log.exception("%s %s failed", request.method, request.path)
                answer = error_answer(500, "the server failed to answer this request; its log tells more")
            if answer.stream is None:
                self._send(answer, keep_alive and not answer.close, request.method == "HEAD")
            else:
                await self._send_stream(answer)
        finally:
            self._task = None
            self._hold(0)
        self._next()

    def _send(self, answer: HttpAnswer, keep_alive: bool, without_body: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        keep_alive = keep_alive and not self._draining
        self.waits_until_s = self._idle_until()
        transport.writelines(answer_bytes(answer, keep_alive=keep_alive, without_body=without_body))
        if not keep_alive:
            transport.close()

    async def _send_stream(self, answer: HttpAnswer) -> None:
        stream = answer.stream
        assert stream is not None
        try:
            if self._transport is not None:
                self._transport.writelines(answer_bytes(answer, keep_alive=False, without_body=False))
            self._streaming = True
            async for item in stream:
                await self._writable.wait()
                if self._transport is None or self._draining:
                    return
                self._transport.write(b"%x\r\n%b\r\n" % (len(item), item))
            if self._transport is not None:
                self._transport.write(b"0\r\n\r\n")
        finally:
            await stream.aclose()
            if self._transport is not None:
                self._transport.close()

    def _next(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(self._received) > _READ_BYTES:
            transport.resume_reading()
        if self._received:
            waiting = bytes(self._received)
            self._received.clear()
            self._guarded(waiting)

    # What the server calls

    def drain(self) -> None:
        """Close now if idle, else after the answer. A stream, which has no end, ends now."""
        self._draining = True
        if self._streaming and self._transport is not None:
            self._transport.write(b"0\r\n\r\n")
            self._transport.close()
            return
        if (self._refused or not self.busy) and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_s: float) -> None:
        """Close a connection that has been idle, or slow to send or to read, for longer than the limits."""
        if now_s <= self.waits_until_s or self._transport is None or self._task is not None:
            return
        if self._refused or self._transport.get_write_buffer_size():
            self._transport.abort()
        elif self.busy:
            self._refuse(408, "the request did not arrive whole in time")
        else:
            self._transport.close()


def connection_factory(
    handler: Handler,
    limits: Limits,
    connections: OpenConnections,
    loop: asyncio.AbstractEventLoop,
    witness: Witness | None = None,
) -> Any:
    return lambda: HttpConnection(handler, limits, connections, loop, witness)
