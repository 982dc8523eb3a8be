"""The ports that clients talk to, all answered by one thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headway.core.errors import HeadwayError
from headway.live.thread_ranks import answering_soon
from headway.serve.http_server import control_server, data_server
from headway.serve.json_worker import JsonWorker
from headway.serve.limits import Limits
from headway.serve.memory import keep_heap
from headway.serve.service import InferenceService
from headway.serve.settings import Settings
from headway.serve.visits import Visits

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

Address = tuple[str, int]
_Value = TypeVar("_Value")
_STOP_S = 5.0


class _Server(Protocol):
    async def start(self, host: str, port: int) -> int: ...

    async def stop(self, drain_s: float) -> None: ...


class Frontends:
    """Front ends that run; made by serve_frontends.

    `http_port`, `grpc_port`, `control_port` and `control_grpc_port` are where they listen, None for those
    that were not asked for. `settings` are what clients set of traces and logs.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.http_port: int | None = None
        self.grpc_port: int | None = None
        self.control_port: int | None = None
        self.control_grpc_port: int | None = None
        self._worker = JsonWorker()
        self._servers: list[_Server] = []
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="headway-frontends", daemon=True)
        self._closed = False

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with answering_soon():
            self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, _Value]) -> Future[_Value]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, drain_s: float = 0.0) -> None:
        """Take no more requests, let those under way end for so many seconds, and close everything.

        May be called again, and from any thread but the front ends' own.
        """
        if self._closed:
            return
        self._closed = True
        self._call(self._stop(drain_s)).result(drain_s + _STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._worker.close()

    async def _stop(self, drain_s: float) -> None:
        await asyncio.gather(*(server.stop(drain_s) for server in self._servers))
        own = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not own]
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1.0) if left else None

    def __enter__(self) -> Frontends:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def serve_frontends(
    service: InferenceService,
    *,
    http: Address | None = None,
    grpc: Address | None = None,
    control: Address | None = None,
    control_grpc: Address | None = None,
    limits: Limits | None = None,
    control_limits: Limits | None = None,
    settings: Settings | None = None,
    visits: Visits | None = None,
    http_routes: Sequence[BaseRoute] = (),
    control_routes: Sequence[BaseRoute] = (),
) -> Frontends:
    """Answer clients on addresses (host, port; port 0 is any free one) until the result is closed.

    `http` and `grpc` take inference, and say what models there are. What changes the server - loading and
    unloading models, trace and log settings - is taken on `control` (HTTP) and `control_grpc` alone; one that
    equals the address of `http` or `grpc` adds it there instead (port 0 never does). `control_limits` are for
    ports of its own. `http_routes` and `control_routes` are more endpoints for the HTTP ports. `visits` hears
    of every request. The service's `load` and `unload` run on the front ends' event loop. The process's heap
    is told to keep what is freed.

    Raises HeadwayError for an address that cannot be listened on.
    """
    keep_heap()
    limits, visits = limits or Limits(), visits or Visits()
    control_limits = control_limits or limits
    front = Frontends(settings or Settings())
    worker = front._worker
    front._thread.start()
    try:
        if http is not None:
            same = _is_same(control, http)
            routes = [*http_routes, *(control_routes if same else ())]
            server = data_server(service, front.settings, limits, worker, visits, routes, control=same)
            front.http_port = _listen(front, server, "http", http)
            if same:
                front.control_port = front.http_port
        if control is not None and not _is_same(control, http):
            control_http = control_server(service, front.settings, control_limits, visits, control_routes)
            front.control_port = _listen(front, control_http, "control", control)
        if grpc is not None or control_grpc is not None:
            from headway.serve.grpc_server import GrpcServer

            if grpc is not None:
                same = _is_same(control_grpc, grpc)
                rpc = GrpcServer(service, front.settings, limits, visits, control=same, infer=True)
                front.grpc_port = _listen(front, rpc, "grpc", grpc)
                if same:
                    front.control_grpc_port = front.grpc_port
            if control_grpc is not None and not _is_same(control_grpc, grpc):
                rpc = GrpcServer(service, front.settings, control_limits, visits, control=True, infer=False)
                front.control_grpc_port = _listen(front, rpc, "control_grpc", control_grpc)
    except BaseException:
        front.close()
        raise
    return front


def _is_same(one: Address | None, other: Address | None) -> bool:
    """Whether two servers would listen at one place; any free port is one of its own each time."""
    return one is not None and one == other and one[1] != 0


def _listen(front: Frontends, server: _Server, name: str, address: Address) -> int:
    host, port = address
    front._servers.append(server)
    try:
        return front._call(server.start(host, port)).result()
    except (OSError, RuntimeError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HeadwayError(f"{name}: cannot listen on {host}:{port}: {reason}") from None
