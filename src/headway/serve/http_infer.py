"""POST v2/models/MODEL[/versions/VERSION]/infer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headway.serve.codec import (
    RequestHead,
    attach_binary,
    decode_head,
    encode_answer,
    wishes_for,
)
from headway.serve.compression import accepted_encoding, compressed, decompressed
from headway.serve.http_messages import INFERENCE_HEADER, HttpAnswer, HttpRequest, key_of
from headway.serve.inflight import result_of
from headway.serve.json_worker import LARGE_BYTES, LARGE_ELEMENTS, JsonWorker
from headway.serve.limits import Limits
from headway.serve.protocol.terms import DEADLINE_HEADER, OutputWish, priority_of, timeout_of
from headway.serve.refusal import Refusal
from headway.serve.service import InferenceRequest, InferenceResult, InferenceService
from headway.serve.tensors import Array, Buffer, invalid, shown
from headway.serve.visits import Visit

_BODY_TYPES = ("", "application/json", "application/octet-stream", "application/x-www-form-urlencoded")
_JOINED_BYTES = 16 << 10


class InferEndpoint:
    """Takes inference requests to the service and its results back."""

    def __init__(self, service: InferenceService, limits: Limits, worker: JsonWorker) -> None:
        self._service = service
        self._limits = limits
        self._worker = worker

    async def answer(self, request: HttpRequest, model: str, version: str, visit: Visit) -> HttpAnswer:
        """The answer to a request for that model; `visit` is told how far it is.

        Raises Refusal for whatever keeps the request from a result.
        """
        headers = request.headers
        try:
            head, inputs = await self._decoded(request)
            timeout_s = timeout_of(head.parameters, headers.get(DEADLINE_HEADER), None)
            priority = priority_of(head.parameters)
        except Refusal as refusal:
            self.refused(refusal, headers, visit)
            raise
        visit.asks(model, version, head.id)
        result = await result_of(
            self._service,
            InferenceRequest(
                model=model,
                version=version,
                inputs=inputs,
                outputs=tuple(wish.name for wish in head.outputs),
                id=head.id,
                key=key_of(headers),
                arrived_s=request.arrived_s,
                timeout_s=timeout_s,
                priority=priority,
                peer=f"{request.peer[0]}:{request.peer[1]}",
                body_bytes=len(request.body),
                visit=visit,
            ),
        )
        visit.result(result.queue_s, result.compute_s)
        return await self._encoded(result, head, headers.get("accept-encoding", ""))

    def refused(self, refusal: Refusal, headers: Mapping[str, str], visit: Visit) -> None:
        """Have a request counted that the service will not see; `visit` knows its model."""
        self._service.refused(visit.model, visit.version, key_of(headers), refusal, visit)

    async def _decoded(self, request: HttpRequest) -> tuple[RequestHead, dict[str, Array]]:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in _BODY_TYPES:
            raise invalid(
                f"Content-Type: {shown(content_type)} is not application/json (all of the body is JSON) or "
                "application/octet-stream (tensors follow the JSON)"
            )
        body = await self._body(request)
        head_length = _json_length(request.headers.get(INFERENCE_HEADER), len(body))
        head = await self._head(body[:head_length])
        return head, attach_binary(head, body[head_length:], self._limits)

    async def _body(self, request: HttpRequest) -> memoryview:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return request.body
        # zlib gives up the interpreter's lock, so that others are answered meanwhile.
        return memoryview(
            await asyncio.to_thread(decompressed, request.body, encoding, self._limits.body_bytes)
        )

    async def _head(self, text: memoryview) -> RequestHead:
        if LARGE_BYTES < len(text) <= self._limits.json_bytes:
            return await self._worker.call(decode_head, bytes(text), self._limits)
        return decode_head(text, self._limits)

    async def _encoded(self, result: InferenceResult, head: RequestHead, accepts: str) -> HttpAnswer:
        wishes = wishes_for(head, result)
        description = None
        if any(wish.classes for wish in wishes):
            description = self._service.describe(result.model, result.version)
        if _elements_as_json(result, wishes) > LARGE_ELEMENTS:
            text, buffers = await self._worker.call(_encode_whole, result, head.id, wishes, description)
        else:
            text, buffers = encode_answer(result, head.id, wishes, description)
        answer_headers = [("content-type", "application/octet-stream" if buffers else "application/json")]
        if buffers:
            answer_headers.append((INFERENCE_HEADER, str(len(text))))
        parts: list[Buffer] = [text, *buffers]
        encoding = accepted_encoding(accepts) if accepts else None
        if encoding is not None:
            parts = [await asyncio.to_thread(compressed, parts, encoding)]
            answer_headers += [("content-encoding", encoding), ("vary", "accept-encoding")]
        elif len(parts) > 1 and sum(map(len, parts)) < _JOINED_BYTES:
            parts = [b"".join(parts)]  # cheaper than a system call's vector of small parts
        return HttpAnswer(200, answer_headers, parts)


def _encode_whole(
    result: InferenceResult, request_id: str, wishes: tuple[OutputWish, ...], description: object
) -> tuple[bytes, list[Buffer]]:
    """encode_answer, with parts that can be pickled."""
    text, buffers = encode_answer(result, request_id, wishes, description)  # type: ignore[arg-type]
    return text, [bytes(buffer) for buffer in buffers]


def _elements_as_json(result: InferenceResult, wishes: tuple[OutputWish, ...]) -> int:
    return sum(result.outputs[wish.name].size for wish in wishes if not wish.binary and not wish.classes)


def _json_length(header: str | None, body_length: int) -> int:
    if header is None:
        return body_length
    text = header.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise invalid(f"Inference-Header-Content-Length: {shown(header)} is not a number of bytes")
    if int(text) > body_length:
        raise invalid(f"Inference-Header-Content-Length: {text} is more than the body's {body_length} bytes")
    return int(text)


def infer_target(path: str) -> tuple[str, str] | None:
    """Model and version of an inference path, or None for another path."""
    parts = path.split("/")
    if len(parts) == 5 and parts[1:3] == ["v2", "models"] and parts[4] == "infer":
        return parts[3], ""
    if len(parts) == 7 and parts[1:3] == ["v2", "models"] and parts[4] == "versions" and parts[6] == "infer":
        return parts[3], parts[5]
    return None
