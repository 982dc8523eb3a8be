"""A tenant's request in the forms that the servers take, made once, and the output of an answer's body."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from headway.serve.protocol import inference_pb2 as pb

_DATATYPES = {"float32": "FP32", "int64": "INT64"}


class HttpForm(NamedTuple):
    """The lines of a head that every request has, its body, and how many bytes an answer ends with."""

    head: bytes
    body: bytes
    output_bytes: int

    def parts(self, headers: Iterable[tuple[str, str]] = ()) -> tuple[bytes, bytes]:
        """Head and body of a request with more headers."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return self.head + more.encode() + b"\r\n", self.body


def _form(path: str, headers: Mapping[str, str], body: bytes, answer: Any) -> HttpForm:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return HttpForm(("\r\n".join(lines) + "\r\n").encode(), body, answer.nbytes)


def open_inference(tenant: str, inputs: Mapping[str, Any], output: str, answer: Any) -> HttpForm:
    """The Open Inference Protocol with binary tensors in and out."""
    entries = [
        {
            "name": name,
            "datatype": _DATATYPES[array.dtype.name],
            "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in inputs.items()
    ]
    asked = {"inputs": entries, "outputs": [{"name": output, "parameters": {"binary_data": True}}]}
    head = json.dumps(asked).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return _form(f"/v2/models/{tenant}/infer", headers, head + _raw(inputs), answer)


def raw_bytes(tenant: str, inputs: Mapping[str, Any], output: str, answer: Any) -> HttpForm:
    """Nothing but the tensors' bytes."""
    return _form(f"/{tenant}", {"Content-Type": "application/octet-stream"}, _raw(inputs), answer)


def base64_json(tenant: str, inputs: Mapping[str, Any], output: str, answer: Any) -> HttpForm:
    """The tensors' bytes as base64 in JSON."""
    body = json.dumps({"tensors": base64.b64encode(_raw(inputs)).decode()}).encode()
    return _form(f"/{tenant}", {"Content-Type": "application/json"}, body, answer)


MakeForm = Callable[[str, Mapping[str, Any], str, Any], HttpForm]


def grpc_message(tenant: str, inputs: Mapping[str, Any], output: str) -> bytes:
    """A ModelInferRequest with raw contents."""
    message = pb.ModelInferRequest(model_name=tenant)
    for name, array in inputs.items():
        message.inputs.add(name=name, datatype=_DATATYPES[array.dtype.name], shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    message.outputs.add(name=output)
    return message.SerializeToString()


def _raw(inputs: Mapping[str, Any]) -> bytes:
    return b"".join(array.tobytes() for array in inputs.values())


def output_in(body: bytes, like: Any) -> Any:
    """The output, which is the last thing in a body."""
    return np.frombuffer(body[len(body) - like.nbytes :], like.dtype).reshape(like.shape)
