"""What the control port takes beyond the protocol: a new configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headway.core.errors import HeadwayError
from headway.serve.causes import without_paths
from headway.serve.engine_service import EngineService
from headway.serve.http_messages import key_of, refuse_other_sites
from headway.serve.refusal import Cause, Refusal

RELOAD_PATH = "/v2/headway/reload"


def reload_route(service: EngineService, reload: Callable[[], None]) -> Route:
    """POST there reads the configuration again; answered when everything is as it says.

    `reload` raises HeadwayError if that cannot be; it may take its time, on a thread of its own.
    """

    async def endpoint(request: Request) -> Response:
        try:
            refuse_other_sites(request.headers)
            service.tenants.require_control(key_of(request.headers))
            await asyncio.to_thread(reload)
        except Refusal as refusal:
            return JSONResponse({"error": refusal.message}, refusal.cause.http_status)
        except HeadwayError as error:
            return JSONResponse({"error": without_paths(str(error))}, Cause.CONFLICT.http_status)
        return JSONResponse({})

    return Route(RELOAD_PATH, endpoint, methods=["POST"])
