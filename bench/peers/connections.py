"""A lean HTTP/1.1 client on asyncio: the load generator shares the processors with what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, cast

import httptools


class HttpResponse(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes


class _Gone(ConnectionError):
    """The server closed a connection before it answered."""


class _Connection(asyncio.Protocol):
    """One connection, on which one request after the other is answered."""

    def __init__(self) -> None:
        self.used = False
        self.open = True
        self.transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[HttpResponse] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    def ask(self, parts: Sequence[bytes]) -> asyncio.Future[HttpResponse]:
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._parts.clear()
        self.transport.writelines(parts)
        return self._answer

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(error)
            assert self.transport is not None
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._end(error or _Gone("the server closed the connection"))

    def _end(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # What the parser calls

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self.open = self.open and self._parser.should_keep_alive()
        self.used = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(HttpResponse(self._parser.get_status_code(), b"".join(self._parts)))


class HttpClient:
    """Connections to one server on this machine: a request takes an idle one or opens another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[_Connection] = []

    async def call(self, parts: Sequence[bytes]) -> HttpResponse:
        """Send a whole request, head and body; raises OSError if there is no answer.

        A request on a used connection that the server closes unanswered is sent again on a new one: such
        servers close idle connections at any time.
        """
        while True:
            connection = self._idle.pop() if self._idle else await self._opened()
            if not connection.open:
                continue
            used = connection.used
            try:
                response = await connection.ask(parts)
            except (_Gone, ConnectionResetError, BrokenPipeError):
                if used:
                    continue
                raise
            except asyncio.CancelledError:
                self._shut(connection)
                raise
            if connection.open:
                self._idle.append(connection)
            else:
                self._shut(connection)
            return response

    async def _opened(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, "127.0.0.1", self._port)
        return connection

    @staticmethod
    def _shut(connection: _Connection) -> None:
        connection.open = False
        if connection.transport is not None:
            connection.transport.close()

    async def warm(self, count: int) -> None:
        """Have so many connections open."""
        while len(self._idle) < count:
            self._idle.append(await self._opened())

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            self._shut(connection)
        self._idle.clear()
