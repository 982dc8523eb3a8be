"""The life of `headway serve`: start, signals, a new configuration, the end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.serve.control import reload_route
from headway.serve.dashboard.routes import PATH as DASHBOARD_PATH
from headway.serve.dashboard.routes import dashboard_routes
from headway.serve.frontends import Frontends, serve_frontends
from headway.serve.limits import Limits
from headway.serve.metrics_page import MetricsPage, metrics_route

if TYPE_CHECKING:
    from headway.config.serving import Serving
    from headway.wiring.serving import Server

EXIT_DONE: Final = 0
EXIT_GIVEN_UP: Final = 1
"""The engine ended by a defect, or not everything could be answered within the limit."""

EXIT_INTERRUPTED: Final = 130
ANSWERS_OUT_S: Final = 1.0
"""For front ends to send the last answers, which are there."""

Read = Callable[[], "Serving"]


def run(serving: Serving, read: Read | None) -> int:
    """Serve until a signal ends it, and return the exit status.

    Args:
        serving: what to serve.
        read: reads the configuration again; None if there is no file.

    Raises:
        HeadwayError: as the server and its `load`, or for an address that cannot be listened on.
    """
    from headway.wiring.serving import Server

    life = _Life(read)
    with _Signals(life.events.put):
        server = Server(serving, _say, lambda: life.events.put("broken"))
        life.server = server
        frontends: Frontends | None = None
        try:
            frontends = front_ends_of(serving, server, life.reload)
            _say(_where(serving, frontends))
            threading.Thread(target=life.load, name="headway start", daemon=True).start()
            return life.until_the_end(serving.drain)
        finally:
            if frontends is not None:
                frontends.close(ANSWERS_OUT_S)
            server.close(0.0)


class _Life:
    """What happens to a server, one event after the other."""

    def __init__(self, read: Read | None) -> None:
        self.events: SimpleQueue[str] = SimpleQueue()
        self.server: Server
        self._read = read
        self._failure: Exception | None = None
        self._reloading = threading.Lock()

    def load(self) -> None:
        """Load all models, and say which of the repository's are not served."""
        try:
            for failure in self.server.load():
                print(f"not served: {failure}", file=sys.stderr, flush=True)
        except Exception as error:  # the main thread says it and ends
            self._failure = error
            self.events.put("failed")
        else:
            self.events.put("loaded")

    def reload(self) -> None:
        """Read the configuration again and go on with it. Raises HeadwayError if that cannot be."""
        if self._read is None:
            raise HeadwayError("the server was started without a scenario; accepted: a restart")
        with self._reloading:
            self.server.reload(self._read())
        _say("configuration reloaded")

    def until_the_end(self, drain_s: float) -> int:
        """Heed events until the server shall end, and answer what is there. Returns the exit status."""
        while True:
            event = self.events.get()
            if event == "loaded":
                _say("ready")
            elif event == "reload":
                threading.Thread(target=self._try_reload, name="headway reload", daemon=True).start()
            elif event == "failed":
                assert self._failure is not None
                raise self._failure
            elif event == "broken":
                return EXIT_GIVEN_UP
            elif event == "stop":
                return self._drain(drain_s)

    def _drain(self, limit_s: float) -> int:
        _say(f"draining for at most {limit_s:g} s")

        def drain() -> None:
            in_time = self.server.service.drain(limit_s)
            self.events.put("drained" if in_time else "given up")

        threading.Thread(target=drain, name="headway drain", daemon=True).start()
        while True:
            event = self.events.get()
            if event == "drained":
                return EXIT_DONE
            if event in ("given up", "broken"):
                return EXIT_GIVEN_UP
            if event == "stop":
                self.server.service.drain(0.0)
                return EXIT_INTERRUPTED

    def _try_reload(self) -> None:
        try:
            self.reload()
        except HeadwayError as error:
            print(f"configuration not reloaded: {error}", file=sys.stderr, flush=True)


class _Signals:
    """SIGINT and SIGTERM mean stop, SIGHUP reload, while in the main thread; elsewhere Python allows none."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        meanings = {signal.SIGINT: "stop", signal.SIGTERM: "stop"}
        if hasattr(signal, "SIGHUP"):
            meanings[signal.SIGHUP] = "reload"
        for number, meaning in meanings.items():
            self._before[number] = signal.signal(number, self._handler(meaning))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handler(self, meaning: str) -> Callable[[int, Any], None]:
        return lambda number, frame: self._put(meaning)


def front_ends_of(serving: Serving, server: Server, reload: Callable[[], None]) -> Frontends:
    """Have a server answer on its ports; `reload` reads its configuration again.

    Raises HeadwayError for an address that cannot be listened on.
    """
    listen = serving.listen

    def address(host: str, port: int | None) -> tuple[str, int] | None:
        return None if port is None else (host, port)

    metrics = metrics_route(MetricsPage(server.telemetry, server.visits))
    return serve_frontends(
        server.service,
        http=address(listen.host, listen.http),
        grpc=address(listen.host, listen.grpc),
        control=address(listen.control_host, listen.control),
        control_grpc=address(listen.control_host, listen.control_grpc),
        control_limits=_control_limits(serving.upload_bytes),
        settings=server.settings,
        visits=server.visits,
        http_routes=[metrics] if listen.http_metrics else (),
        control_routes=[
            reload_route(server.service, reload),
            metrics,
            *dashboard_routes(server.shown()),
        ],
    )


def _control_limits(upload_bytes: int) -> Limits:
    """Files come as base64 in JSON, or in one message of gRPC."""
    usual = Limits()
    if not upload_bytes:
        return usual
    most_bytes = usual.json_bytes + upload_bytes // 3 * 4 + 4
    body_bytes = max(usual.body_bytes, most_bytes)
    return replace(
        usual,
        json_bytes=most_bytes,
        body_bytes=body_bytes,
        all_bodies_bytes=max(usual.all_bodies_bytes, 2 * body_bytes),
    )


def _where(serving: Serving, frontends: Frontends) -> str:
    listen = serving.listen
    places = (
        ("http", "http://", listen.host, frontends.http_port),
        ("grpc", "", listen.host, frontends.grpc_port),
        ("control", "http://", listen.control_host, frontends.control_port),
        ("control by grpc", "", listen.control_host, frontends.control_grpc_port),
    )
    lines = [f"{name}: {scheme}{host}:{port}" for name, scheme, host, port in places if port is not None]
    if frontends.control_port is not None:
        lines.append(f"dashboard: http://{listen.control_host}:{frontends.control_port}{DASHBOARD_PATH}")
    if not serving.has_keys:
        lines.append("no tenant has a key: everybody who can connect is served")
        if not serving.control_keys and frontends.control_port is not None:
            lines.append("no control keys: everybody who reaches the control port may load and unload")
    return "\n".join(lines)


def _say(words: str) -> None:
    print(words, flush=True)
