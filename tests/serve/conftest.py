"""A server with the fake service behind it."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for fake_service and clients, beside the tests

from fake_service import FakeService

from headway.serve.frontends import Frontends, serve_frontends
from headway.serve.limits import Limits
from headway.serve.protocol import inference_pb2 as pb

HERE = ("127.0.0.1", 0)
LIMITS = Limits(body_bytes=4 << 20, json_bytes=1 << 20, elements=1 << 20, header_bytes=8 << 10)


@dataclass
class Running:
    """Front ends on all their ports, and ways to call them."""

    front: Frontends
    service: FakeService

    def http(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        control: bool = False,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers (in lower case) and body of one request."""
        port = self.front.control_port if control else self.front.http_port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
        finally:
            connection.close()

    def grpc(
        self, method: str, request: Any, *, control: bool = False, timeout: float = 20, metadata: Any = None
    ) -> Any:
        """A method's response; raises grpc.RpcError."""
        port = self.front.control_grpc_port if control else self.front.grpc_port
        name = type(request).__name__.removesuffix("Request")
        response = getattr(pb, f"{name}Response")
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Callable[..., Any] = channel.unary_unary(
                f"/inference.GRPCInferenceService/{method}",
                type(request).SerializeToString,
                response.FromString,
            )
            return call(request, timeout=timeout, metadata=metadata)


@pytest.fixture(scope="package")
def shared_server() -> Iterator[Running]:
    service = FakeService()
    with serve_frontends(
        service, http=HERE, grpc=HERE, control=("localhost", 0), control_grpc=("localhost", 0), limits=LIMITS
    ) as front:
        yield Running(front, service)


@pytest.fixture
def server(shared_server: Running) -> Running:
    """The server, with a service that remembers nothing yet."""
    service = shared_server.service
    service.requests.clear()
    service.tickets.clear()
    service.loaded.clear()
    service.unloaded.clear()
    service.submitted.clear()
    service.is_ready = True
    service.answer = service._echo
    return shared_server


@pytest.fixture(autouse=True)
def models_are_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other tests no processor is idle, and a server waits for that some seconds with each intake."""
    monkeypatch.setattr("headway.serve.intake.STEPS", ((0, 900.0),))
