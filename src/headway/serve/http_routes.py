"""The protocol's HTTP endpoints besides inference."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headway.serve import descriptions
from headway.serve.codec import json_object
from headway.serve.http_messages import key_of, refusal_headers, refuse_other_sites
from headway.serve.limits import Limits
from headway.serve.protocol.terms import checked_parameters
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceService
from headway.serve.settings import Settings
from headway.serve.tensors import invalid, shown
from headway.serve.uploads import FILE_PREFIX, files_of

_log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]

CONTROL_ELSEWHERE = "is taken on the control port only"
NO_SHARED_MEMORY = "shared memory is not offered here; send tensors in requests"
_MODEL = "/v2/models/{model}"
_VERSION = _MODEL + "/versions/{version}"


class HttpEndpoints:
    """Answers about the server, its models and settings; with `control`, changes to them, too."""

    def __init__(
        self, service: InferenceService, settings: Settings, limits: Limits, *, control: bool
    ) -> None:
        self._service = service
        self._settings = settings
        self._limits = limits
        self._control = control

    def routes(self) -> list[Route]:
        shared: list[Route] = []
        for kind in ("system", "cuda"):
            root = f"/v2/{kind}sharedmemory"
            shared += [
                Route(root + "/status", self.shared_memory_status),
                Route(root + "/region/{region}/status", self.shared_memory_region),
                Route(root + "/region/{region}/register", self.shared_memory_register, methods=["POST"]),
                Route(root + "/unregister", self.shared_memory_unregister, methods=["POST"]),
                Route(root + "/region/{region}/unregister", self.shared_memory_unregister, methods=["POST"]),
            ]
        return [
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            Route("/v2/models", self.models),
            Route("/v2/models/stats", self.statistics),
            *_with_version("/ready", self.model_ready),
            *_with_version("/config", self.config),
            *_with_version("/stats", self.statistics),
            *_with_version("", self.model),
            Route("/v2/repository/index", self.index, methods=["POST"]),
            Route("/v2/repository/models/{model}/load", self.load, methods=["POST"]),
            Route("/v2/repository/models/{model}/unload", self.unload, methods=["POST"]),
            Route("/v2/trace/setting", self.trace, methods=["GET", "POST"]),
            Route(_MODEL + "/trace/setting", self.trace, methods=["GET", "POST"]),
            Route("/v2/logging", self.logging, methods=["GET", "POST"]),
            *shared,
        ]

    async def server(self, request: Request) -> Response:
        return JSONResponse(descriptions.server_metadata())

    async def live(self, request: Request) -> Response:
        live = self._service.live()
        return JSONResponse({"live": live}, 200 if live else 503)

    async def ready(self, request: Request) -> Response:
        ready = self._service.ready()
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        model, version = _model_of(request)
        ready = self._service.model_ready(model, version)
        return JSONResponse({"name": model, "ready": ready}, 200 if ready else 503)

    async def models(self, request: Request) -> Response:
        return JSONResponse(descriptions.model_list(self._service.index()))

    async def model(self, request: Request) -> Response:
        return JSONResponse(descriptions.model_metadata(self._service.describe(*_model_of(request))))

    async def config(self, request: Request) -> Response:
        return JSONResponse(descriptions.model_config(self._service.describe(*_model_of(request))))

    async def statistics(self, request: Request) -> Response:
        return JSONResponse(descriptions.model_statistics(self._service.statistics(*_model_of(request))))

    async def index(self, request: Request) -> Response:
        only_ready = (await self._json(request)).get("ready", False)
        if type(only_ready) is not bool:
            raise invalid(f"ready is {shown(only_ready)}, true or false is accepted")
        return JSONResponse(descriptions.repository_index(self._service.index(only_ready=only_ready)))

    async def load(self, request: Request) -> Response:
        self._need_control(request, "loading a model")
        parameters = await self._parameters(request)
        for name in parameters:
            if name != "config" and not name.startswith(FILE_PREFIX):
                raise invalid(f"parameters: {shown(name)}: config and file:VERSION/FILE are accepted")
        files = await asyncio.to_thread(files_of, parameters)
        config = parameters.get("config")
        if config is not None and type(config) is not str:
            raise invalid(f"parameters: config is {shown(config)}, a string of JSON is accepted")
        await self._service.load(_model_of(request)[0], _key_of(request), config, files)
        return JSONResponse({})

    async def unload(self, request: Request) -> Response:
        self._need_control(request, "unloading a model")
        for name, value in (await self._parameters(request)).items():
            if name != "unload_dependents" or type(value) is not bool:
                raise invalid(
                    f"parameters: {shown(name)} is {shown(value)}; unload_dependents, true or false"
                )
        await self._service.unload(_model_of(request)[0], _key_of(request))
        return JSONResponse({})

    async def trace(self, request: Request) -> Response:
        model = request.path_params.get("model", "")
        if model:
            self._service.model_ready(model)  # raises for one that is unknown
        if request.method != "POST":
            return JSONResponse(self._settings.trace(model))
        self._need_control(request, "a change of trace settings")
        return JSONResponse(self._settings.change_trace(await self._json(request), model))

    async def logging(self, request: Request) -> Response:
        if request.method != "POST":
            return JSONResponse(self._settings.log())
        self._need_control(request, "a change of log settings")
        return JSONResponse(self._settings.change_log(await self._json(request)))

    async def shared_memory_status(self, request: Request) -> Response:
        return JSONResponse([])

    async def shared_memory_region(self, request: Request) -> Response:
        region = request.path_params["region"]
        raise Refusal(Cause.NOT_FOUND, f"no region {shown(region)} is registered: {NO_SHARED_MEMORY}")

    async def shared_memory_register(self, request: Request) -> Response:
        raise invalid(NO_SHARED_MEMORY)

    async def shared_memory_unregister(self, request: Request) -> Response:
        return JSONResponse({})  # nothing is registered, which is what was asked for

    def _need_control(self, request: Request, what: str) -> None:
        refuse_other_sites(request.headers)
        if not self._control:
            raise Refusal(Cause.FORBIDDEN, f"{what} {CONTROL_ELSEWHERE}")

    async def _json(self, request: Request) -> dict[str, object]:
        body = await request.body()
        if len(body) > self._limits.json_bytes:
            raise Refusal(Cause.TOO_LARGE, f"the body has over {self._limits.json_bytes} bytes, the limit")
        return json_object(body)

    async def _parameters(self, request: Request) -> Mapping[str, object]:
        return checked_parameters((await self._json(request)).get("parameters"), "parameters")


def _with_version(end: str, endpoint: Endpoint) -> list[Route]:
    return [Route(_MODEL + end, endpoint), Route(_VERSION + end, endpoint)]


def _model_of(request: Request) -> tuple[str, str]:
    return request.path_params.get("model", ""), request.path_params.get("version", "")


def _key_of(request: Request) -> str | None:
    return key_of(request.headers)


async def _refused(request: Request, refusal: Any) -> Response:
    return JSONResponse(
        {"error": refusal.message}, refusal.cause.http_status, headers=dict(refusal_headers(refusal))
    )


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "the server failed to answer this request; its log tells more"}, 500)


async def _http_error(request: Request, error: Any) -> Response:
    message = {
        404: f"there is no {shown(request.url.path)} here",
        405: f"{shown(request.method)} is not a method of {shown(request.url.path)}",
    }.get(error.status_code, str(error.detail))
    return JSONResponse({"error": message}, error.status_code, headers=error.headers)


def http_application(endpoints: HttpEndpoints, more_routes: Sequence[BaseRoute]) -> Starlette:
    """The endpoints and more routes as an ASGI application; all its errors are JSON."""
    application = Starlette(
        routes=[*endpoints.routes(), *more_routes],
        exception_handlers={Refusal: _refused, HTTPException: _http_error, Exception: _failed},
    )
    application.router.redirect_slashes = False
    return application
