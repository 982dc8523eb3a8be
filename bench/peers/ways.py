"""The ways to a server: HTTP in one of several forms, or gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import grpc
import wire
from connections import HttpClient
from tenants import TENANTS, Models

from headway.serve.protocol import inference_pb2 as pb

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_NO_LIMIT = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_WARM_CONNECTIONS = 8

Headers = Sequence[tuple[str, str]]


class Outcome(StrEnum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"  # the server said in so many words that it would not
    FAILED = "failed"


class Answer(NamedTuple):
    """An outcome, what was sent (bytes that end with the output, or an array), and an error's words."""

    outcome: Outcome
    content: Any = None
    words: str = ""

    def output(self, like: Any) -> Any:
        """The output as an array like another one."""
        return wire.output_in(self.content, like) if isinstance(self.content, bytes) else self.content


class Way(Protocol):
    """How requests get to a server."""

    async def connect(self, port: int, models: Models) -> None:
        """Make all requests and open connections; raises OSError."""

    def disconnect(self) -> None:
        """Close the connections."""

    async def ask(self, tenant: str, headers: Headers) -> Answer:
        """Send a tenant's request with more headers (or metadata); raises OSError without an answer."""


class ByHttp:
    """HTTP, in a form of `wire`."""

    def __init__(self, form: wire.MakeForm) -> None:
        self._make = form

    async def connect(self, port: int, models: Models) -> None:
        self._client = HttpClient(port)
        self._forms = {
            name: self._make(name, models.inputs[name], tenant.output, models.answers[name])
            for name, tenant in TENANTS.items()
        }
        await self._client.warm(_WARM_CONNECTIONS)

    def disconnect(self) -> None:
        self._client.close()

    async def ask(self, tenant: str, headers: Headers) -> Answer:
        form = self._forms[tenant]
        status, body = await self._client.call(form.parts(headers))
        if status == 200 and len(body) >= form.output_bytes:
            return Answer(Outcome.DONE, body)
        words = f"{status} {body[:300].decode(errors='replace')}"
        return Answer(Outcome.REFUSED if status in (429, 504) else Outcome.FAILED, words=words)


class ByGrpc:
    """The Open Inference Protocol by gRPC, on a port beside the one that is given."""

    def __init__(self, beside: int = 1) -> None:
        self._beside = beside
        self._channel: Any = None

    async def connect(self, port: int, models: Models) -> None:
        if self._channel is not None:
            return
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port + self._beside}", options=_NO_LIMIT)
        self._call = self._channel.unary_unary(_METHOD, response_deserializer=_output_bytes)
        self._messages = {
            name: wire.grpc_message(name, models.inputs[name], tenant.output)
            for name, tenant in TENANTS.items()
        }

    def disconnect(self) -> None:
        """Nothing: gRPC opens its connection again if a server has closed it."""

    async def ask(self, tenant: str, headers: Headers) -> Answer:
        metadata = tuple((name.lower(), value) for name, value in headers)
        try:
            return Answer(Outcome.DONE, await self._call(self._messages[tenant], metadata=metadata))
        except grpc.aio.AioRpcError as error:
            words = f"{error.code()} {error.details()}"[:300]
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise ConnectionError(words) from None
            refused = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)
            return Answer(Outcome.REFUSED if error.code() in refused else Outcome.FAILED, words=words)


def _output_bytes(message: bytes) -> bytes:
    return bytes(pb.ModelInferResponse.FromString(message).raw_output_contents[0])
