"""A port of HTTP: its listener, connections and their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.serve.http_asgi import AsgiApplication, asgi_answer
from headway.serve.http_connection import OpenConnections, connection_factory
from headway.serve.http_infer import InferEndpoint, infer_target
from headway.serve.http_messages import EarlyAnswer, HttpAnswer, HttpRequest, error_answer
from headway.serve.http_routes import HttpEndpoints, http_application
from headway.serve.json_worker import JsonWorker
from headway.serve.limits import Limits
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceService
from headway.serve.settings import Settings
from headway.serve.visits import Visit, Visits

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_SWEEP_EVERY_S = 1.0
_POLL_S = 0.01
_EARLY_CAUSES = {413: Cause.TOO_LARGE, 431: Cause.TOO_LARGE, 499: Cause.CANCELLED, 503: Cause.UNAVAILABLE}


class HttpServer:
    """Listens on one address. `infer` is None for a port that takes no inference."""

    def __init__(
        self, application: AsgiApplication, infer: InferEndpoint | None, limits: Limits, visits: Visits
    ) -> None:
        self._application = application
        self._infer = infer
        self._visits = visits
        self._limits = limits
        self._connections = OpenConnections()
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Begin to listen; returns the port, which the system chooses for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        factory = connection_factory(
            self._answer, self._limits, self._connections, loop, self._answered_early
        )
        self._listener = await loop.create_server(factory, host, port, backlog=1024)
        self._sweeper = loop.create_task(self._sweep())
        return int(self._listener.sockets[0].getsockname()[1])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            now_s = time.perf_counter()
            for connection in list(self._connections):
                connection.sweep(now_s)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        target = infer_target(request.path) if self._infer is not None else None
        visit = self._visits.begin(
            "http",
            f"{request.peer[0]}:{request.peer[1]}",
            f"{request.method} {request.path}",
            request.arrived_s,
            len(request.body),
            infer=target is not None,
        )
        try:
            answer = await self._routed(request, target, visit)
        except BaseException as error:
            self._visits.failed(visit, error)
            raise
        self._visits.answered(visit, answer.status, sum(map(len, answer.parts)))
        return answer

    def _answered_early(self, early: EarlyAnswer) -> None:
        target = infer_target(early.path) if self._infer is not None else None
        visit = self._visits.begin(
            "http",
            f"{early.peer[0]}:{early.peer[1]}",
            f"{early.method} {early.path}".strip(),
            early.began_s,
            early.body_bytes,
            infer=target is not None,
        )
        visit.cause = _EARLY_CAUSES.get(early.status, Cause.INVALID)
        if target is not None and self._infer is not None:
            visit.model, visit.version = target
            self._infer.refused(Refusal(visit.cause, early.message), early.headers, visit)
        self._visits.answered(visit, early.status, early.answer_bytes)

    async def _routed(self, request: HttpRequest, target: tuple[str, str] | None, visit: Visit) -> HttpAnswer:
        if target is None or self._infer is None:
            return await asgi_answer(self._application, request)
        if request.method != "POST":
            return error_answer(405, "inference takes the method POST", [("allow", "POST")])
        visit.model, visit.version = target
        self._visits.trace(visit, request.headers)
        return await self._infer.answer(request, *target, visit)

    async def stop(self, drain_s: float) -> None:
        """Listen no more, let requests end for so many seconds, and close all connections."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.drain()
        end_s = time.perf_counter() + drain_s
        while self._connections and time.perf_counter() < end_s:
            await asyncio.sleep(_POLL_S)
        for connection in list(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()


def data_server(
    service: InferenceService,
    settings: Settings,
    limits: Limits,
    worker: JsonWorker,
    visits: Visits,
    routes: Sequence[BaseRoute],
    *,
    control: bool,
) -> HttpServer:
    """The data plane: inference, and what clients ask about models; with `control` what changes them, too."""
    application = http_application(HttpEndpoints(service, settings, limits, control=control), routes)
    return HttpServer(application, InferEndpoint(service, limits, worker), limits, visits)


def control_server(
    service: InferenceService,
    settings: Settings,
    limits: Limits,
    visits: Visits,
    routes: Sequence[BaseRoute],
) -> HttpServer:
    """The control plane: everything but inference."""
    application = http_application(HttpEndpoints(service, settings, limits, control=True), routes)
    return HttpServer(application, None, limits, visits)
