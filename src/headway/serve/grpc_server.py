"""A port of gRPC: the Open Inference Protocol's service, and gRPC's health service."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from headway.serve.grpc_calls import abort, message_of, metadata_of, refusal_of
from headway.serve.grpc_codec import (
    LARGE_TYPED_BYTES,
    GrpcRequest,
    RequestReader,
    ResponseWriter,
    request_without_tensors,
)
from headway.serve.grpc_methods import GrpcMethods
from headway.serve.grpc_wire import as_stream_response, split_request
from headway.serve.http_messages import key_of
from headway.serve.inflight import result_of
from headway.serve.limits import Limits
from headway.serve.protocol import health_pb2
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.protocol.terms import DEADLINE_HEADER, priority_of, timeout_of
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceRequest, InferenceService
from headway.serve.settings import Settings
from headway.serve.tensors import Buffer, invalid, shown
from headway.serve.visits import Visit, Visits

SERVICE = "inference.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"

_HEALTH_EVERY_S = 0.5
_MESSAGE_OVERHEAD_BYTES = 64 << 10
_CORE_LIMIT = 2
"""Times what is accepted: gRPC itself refuses what is larger, and tells neither us nor the figures why."""

Answer = Callable[[bytes, Any, Visit], Awaitable[bytes]]
Call = Callable[[Any, Any], Awaitable[bytes]]


class GrpcServer:
    """Listens on one address. With `control` it takes what changes the server, with `infer` inference."""

    def __init__(
        self,
        service: InferenceService,
        settings: Settings,
        limits: Limits,
        visits: Visits,
        *,
        control: bool,
        infer: bool,
    ) -> None:
        self._service = service
        self._visits = visits
        self._limits = limits
        self._infer = infer
        self._most_bytes = limits.body_bytes + _MESSAGE_OVERHEAD_BYTES
        self._reader, self._writer = RequestReader(limits), ResponseWriter()
        self._methods = GrpcMethods(service, settings, control=control)
        self._server: Any = None
        self._stopping = asyncio.Event()

    async def start(self, host: str, port: int) -> int:
        """Begin to listen; returns the port, which the system chooses for 0. Raises RuntimeError."""
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", _CORE_LIMIT * self._most_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", self._limits.header_bytes),
                ("grpc.absolute_max_metadata_size", 2 * self._limits.header_bytes),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=self._limits.connections,
        )
        self._server.add_generic_rpc_handlers((self._inference_handlers(), self._health_handlers()))
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        bound = int(self._server.add_insecure_port(address))
        await self._server.start()
        return bound

    async def stop(self, drain_s: float) -> None:
        """Take no more calls, let those under way end for so many seconds, and cancel the rest."""
        self._stopping.set()  # who watches the health would be waited for, and never goes
        if self._server is not None:
            await self._server.stop(drain_s)

    def _inference_handlers(self) -> Any:
        handlers = {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(
                self._answered("ModelInfer", self._model_infer, infer=True)
            ),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._model_stream_infer),
        }
        for name in pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name:
            if name not in handlers:
                answer = self._answered(name, self._message_method(name))
                handlers[name] = grpc.stream_unary_rpc_method_handler(answer)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _health_handlers(self) -> Any:
        handlers = {
            "Check": grpc.stream_unary_rpc_method_handler(self._answered("Check", self._health_check)),
            "Watch": grpc.stream_stream_rpc_method_handler(self._health_watch),
        }
        return grpc.method_handlers_generic_handler(HEALTH, handlers)

    def _answered(self, method: str, answer: Answer, *, infer: bool = False) -> Call:
        """An answer whose refusals and defects end the call with their status."""

        async def call(_: Any, context: Any) -> bytes:
            visit = None
            try:
                data = await message_of(context)
                visit = self._begin(method, data, context, infer=infer)
                self._check_size(data)
                response = await answer(data, context, visit)
            except BaseException as error:
                self._visits.failed(visit or self._begin(method, b"", context, infer=infer), error)
                await abort(context, refusal_of(error))
                raise AssertionError("abort returned") from None
            self._visits.answered(visit, "OK", len(response))
            return response

        return call

    def _begin(self, method: str, data: bytes, context: Any, *, infer: bool) -> Visit:
        arrived_s = time.perf_counter()
        return self._visits.begin("grpc", context.peer(), method, arrived_s, len(data), infer=infer)

    def _check_size(self, data: bytes) -> None:
        if len(data) > self._most_bytes:
            raise Refusal(
                Cause.TOO_LARGE,
                f"the message has {len(data)} bytes, at most {self._most_bytes} are accepted",
            )

    def _message_method(self, name: str) -> Answer:
        method = getattr(self._methods, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
        request_type = getattr(pb, f"{name}Request")

        async def call(data: bytes, context: Any, visit: Visit) -> bytes:
            try:
                request = request_type.FromString(data)
            except DecodeError:
                raise invalid(f"the message is not a {name}Request") from None
            response: bytes = (await method(request, key_of(metadata_of(context)))).SerializeToString()
            return response

        return call

    # Inference

    async def _model_infer(self, data: bytes, context: Any, visit: Visit) -> bytes:
        return b"".join(await self._answer(data, context, metadata_of(context), visit, streamed=False))

    async def _decoded(self, data: bytes) -> GrpcRequest:
        split = split_request(data)
        if len(split.head) > LARGE_TYPED_BYTES:
            # Numbers become a tensor one by one, which another thread does beside those who are answered.
            return await asyncio.to_thread(self._reader.read, split)
        return self._reader.read(split)

    async def _answer(
        self, data: bytes, context: Any, metadata: dict[str, str], visit: Visit, *, streamed: bool
    ) -> list[Buffer]:
        if not self._infer:
            raise Refusal(Cause.FORBIDDEN, "inference is not taken on the control port")
        try:
            request = await self._decoded(data)
            head = request.head
            visit.asks(head.model, head.version, request.id)
            timeout_s = timeout_of(head.parameters, metadata.get(DEADLINE_HEADER), context.time_remaining())
            priority = priority_of(head.parameters)
        except Refusal as refusal:
            self._note_refused(data, metadata, refusal, visit)
            raise
        self._visits.trace(visit, metadata)
        result = await result_of(
            self._service,
            InferenceRequest(
                model=head.model,
                version=head.version,
                inputs=request.inputs,
                outputs=head.wanted,
                id=request.id,
                key=key_of(metadata),
                arrived_s=visit.arrived_s,
                timeout_s=timeout_s,
                priority=priority,
                peer=visit.peer,
                body_bytes=len(data),
                visit=visit,
            ),
        )
        visit.result(result.queue_s, result.compute_s)
        description = self._service.describe(result.model, result.version) if head.wants_classes else None
        final = streamed and head.wants_final_response
        return self._writer.parts(result, request.id, head.outputs, description, final=final)

    def _note_refused(self, data: bytes, metadata: dict[str, str], refusal: Refusal, visit: Visit) -> None:
        """Have a request counted that the service will not see."""
        if not visit.model:
            named = request_without_tensors(data)
            visit.model, visit.version, visit.id = named.model_name, named.model_version, named.id
        self._service.refused(visit.model, visit.version, key_of(metadata), refusal, visit)

    async def _model_stream_infer(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Answers in the order of the requests, of which several are under way at once."""
        metadata = metadata_of(context)
        under_way: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(self._limits.streamed_at_once)
        started: set[asyncio.Task[bytes]] = set()

        async def read() -> None:
            async for data in requests:
                task = asyncio.create_task(self._stream_answer(data, context, metadata))
                started.add(task)
                task.add_done_callback(started.discard)
                await under_way.put(task)
            await under_way.put(None)

        reader = asyncio.create_task(read())
        try:
            while (task := await under_way.get()) is not None:
                yield await task
        finally:
            for unfinished in (reader, *started):
                unfinished.cancel()

    async def _stream_answer(self, data: bytes, context: Any, metadata: dict[str, str]) -> bytes:
        """An answer, or a message that tells why there is none: the stream goes on after either."""
        visit = self._begin("ModelStreamInfer", data, context, infer=True)
        try:
            self._check_size(data)
            parts = await self._answer(data, context, metadata, visit, streamed=True)
            answer = b"".join(as_stream_response(parts))
        except BaseException as error:
            self._visits.failed(visit, error)
            message = refusal_of(error).message
        else:
            self._visits.answered(visit, "OK", len(answer))
            return answer
        response = pb.ModelStreamInferResponse(error_message=message)
        response.infer_response.id = request_without_tensors(data).id
        told: bytes = response.SerializeToString()
        return told

    # Health

    def _health(self, data: bytes) -> tuple[bool, bytes]:
        try:
            name = health_pb2.HealthCheckRequest.FromString(data).service
        except DecodeError:
            raise invalid("the message is not a HealthCheckRequest") from None
        known = name in ("", SERVICE, HEALTH)
        status = "SERVICE_UNKNOWN" if not known else "SERVING" if self._service.ready() else "NOT_SERVING"
        response: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
        return known, response

    async def _health_check(self, data: bytes, context: Any, visit: Visit) -> bytes:
        known, response = self._health(data)
        if not known:
            raise Refusal(Cause.NOT_FOUND, f"there is no such service here; {shown(SERVICE)} is")
        return response

    async def _health_watch(self, _: Any, context: Any) -> AsyncIterator[bytes]:
        last = b"-"
        data: bytes | None = None
        while not self._stopping.is_set():
            try:
                if data is None:
                    data = await message_of(context)
                _, response = self._health(data)
            except Refusal as refusal:
                await abort(context, refusal)
                return
            if response != last:
                last = response
                yield response
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _HEALTH_EVERY_S)
