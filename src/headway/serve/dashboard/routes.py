"""The page's files and its data, for the control port."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from headway.serve.dashboard.snapshot import Shown
from headway.serve.dashboard.stream import Snapshots
from headway.serve.refusal import Cause, Refusal

PATH: Final = "/ui"

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def dashboard_routes(shown: Shown) -> list[Route]:
    """`/ui`, its files, `/ui/snapshot` (JSON) and `/ui/events` (server-sent events)."""
    return routes_of(Snapshots(shown))


def routes_of(snapshots: Snapshots) -> list[Route]:
    """The same for snapshots that are there."""
    contents = _contents()

    def file(name: str) -> Response:
        content = contents.get(name)
        if content is None:
            raise Refusal(
                Cause.NOT_FOUND, f"the page has no file of that name; accepted: {', '.join(contents)}"
            )
        return Response(content, headers={**_HEADERS, "content-type": _TYPES[name.rpartition(".")[2]]})

    async def page(request: Request) -> Response:
        return file("index.html")

    async def page_file(request: Request) -> Response:
        return file(request.path_params["name"])

    async def to_page(request: Request) -> Response:
        return RedirectResponse("../ui", headers=_HEADERS)

    async def snapshot(request: Request) -> Response:
        moment = await snapshots.latest()
        return Response(
            await snapshots.whole(moment), headers={**_HEADERS, "content-type": "application/json"}
        )

    async def events(request: Request) -> Response:
        snapshots.require_room()
        headers = {**_HEADERS, "cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(snapshots.events(), media_type="text/event-stream", headers=headers)

    return [
        Route(PATH, page),
        Route(PATH + "/", to_page),
        Route(PATH + "/snapshot", snapshot),
        Route(PATH + "/events", events),
        Route(PATH + "/{name}", page_file),
    ]


def _contents() -> dict[str, bytes]:
    folder = files("headway.serve.dashboard") / "page"
    return {
        each.name: each.read_bytes()
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.name.rpartition(".")[2] in _TYPES
    }
