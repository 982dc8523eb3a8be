"""The same requests to PyTriton, which has Triton's own front ends, and to Headway; their answers compared.

Both serve the same small models. Compared are statuses, and of good answers everything that the protocol
names: tensors with names, datatypes, shapes and values, ids, versions, which part is binary. Where Headway
answers otherwise on purpose, the reason stands beside it; any other difference ends with status 1.

    python bench/peers/conformance.py
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import http.client
import json
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper
from systems import Served
from ways import Answer, Headers, Outcome

from headway.serve.protocol import inference_pb2 as pb

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[0.5, -1, 2], [0, 0, 1e-3]], np.float32)
IDS = np.array([1, 2, 3, 0], np.int64)
NO_REPOSITORY = "PyTriton has no repository"
OURS = "a client's mistake is 400"
LENGTH = "Inference-Header-Content-Length"


def write_models(folder: Path) -> None:
    """`sum` adds two tensors of [2, 3]; `ids` looks four ids up in a table of ten rows."""
    numbers = helper.make_tensor_value_info
    adds = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "sum",
        [numbers("a", TensorProto.FLOAT, [2, 3]), numbers("b", TensorProto.FLOAT, [2, 3])],
        [numbers("y", TensorProto.FLOAT, [2, 3])],
    )
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    looks_up = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "ids",
        [numbers("ids", TensorProto.INT64, [4])],
        [numbers("y", TensorProto.FLOAT, [4, 2])],
        [numpy_helper.from_array(table, "table")],
    )
    for graph in (adds, looks_up):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, folder / f"{graph.name}.onnx")
    two = [[name, "float32", [2, 3]] for name in ("a", "b")]
    told = {
        "sum": {"inputs": two, "output": "y", "output_shape": [2, 3]},
        "ids": {"inputs": [["ids", "int64", [4]]], "output": "y", "output_shape": [4, 2]},
    }
    (folder / "models.json").write_text(json.dumps(told))


class _Ready:
    """Asks only whether all models are ready."""

    async def connect(self, port: int, models: Any) -> None:
        self._port = port

    def disconnect(self) -> None:
        """Nothing is open."""

    async def ask(self, tenant: str, headers: Headers) -> Answer:
        for model in ("sum", "ids"):
            status, _, _ = http_answer(self._port, Request("GET", f"/v2/models/{model}/ready"))
            if status != 200:
                raise OSError(f"{model}: {status}")
        return Answer(Outcome.DONE)


class Here(Served):
    """`headway serve` with the small models."""

    def _command(self, folder: Path) -> Sequence[str | Path]:
        config = {
            "hardware": "cpu-lanes",
            "listen": {"http": self.port, "grpc": self.port + 1, "control": None},
            "models": [
                {"name": name, "model": str(self.models.folder / f"{name}.onnx")} for name in ("sum", "ids")
            ],
        }
        file = folder / "serve.yaml"
        file.write_text(yaml.safe_dump(config))
        return [sys.executable, "-c", "from headway.cli import main; main()", "serve", file]

    def _variables(self, folder: Path) -> dict[str, str]:
        return {"PYTHONPATH": ""}


@dataclass(frozen=True)
class Folder:
    """What Served needs of models."""

    folder: Path


@dataclass(frozen=True)
class Request:
    """One request by HTTP; `otherwise` says why Headway's answer differs on purpose."""

    method: str
    path: str
    body: bytes = b""
    headers: Headers = ()
    otherwise: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def http_answer(port: int, request: Request) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, and the body, decompressed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(request.method, request.path, request.body or None, dict(request.headers))
        response = connection.getresponse()
        body = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        unpack: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}
        return response.status, headers, unpack.get(headers.get("content-encoding", ""), bytes)(body)
    finally:
        connection.close()


def infer(
    model: str,
    inputs: dict[str, Any],
    *,
    binary: bool,
    outputs: Sequence[dict[str, Any]] | None = None,
    path: str = "",
    pack: str = "",
    accept: str = "",
    changed: dict[str, Any] | None = None,
    otherwise: str = "",
    **more: Any,
) -> Request:
    """An inference request; `changed` goes over the first input's fields."""
    entries, raw = [], b""
    for name, array in inputs.items():
        datatype = {"float32": "FP32", "int64": "INT64"}[array.dtype.name]
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if binary:
            entry["parameters"] = {"binary_data_size": array.nbytes}
            raw += array.tobytes()
        else:
            entry["data"] = array.ravel().tolist()
        entries.append(entry)
    entries[0].update(changed or {})
    asks = {"inputs": entries, **more}
    if outputs is not None:
        asks["outputs"] = list(outputs)
    head = json.dumps(asks).encode()
    body = head + raw
    headers = [(LENGTH, str(len(head)))] if binary else [("Content-Type", "application/json")]
    if pack:
        body = {"gzip": gzip.compress, "deflate": zlib.compress}[pack](body)
        headers.append(("Content-Encoding", pack))
    if accept:
        headers.append(("Accept-Encoding", accept))
    return Request("POST", path or f"/v2/models/{model}/infer", body, headers, otherwise)


def requests() -> dict[str, Request]:
    """All requests by HTTP, by a short name."""
    both = {"a": A, "b": B}
    wants = {"name": "y", "parameters": {"binary_data": True}}
    found = {
        "live": Request("GET", "/v2/health/live"),
        "ready": Request("GET", "/v2/health/ready"),
        "model ready": Request("GET", "/v2/models/sum/ready"),
        "version ready": Request("GET", "/v2/models/sum/versions/1/ready"),
        "unknown model ready": Request("GET", "/v2/models/none/ready", otherwise="as for all else, 404"),
        "server metadata": Request("GET", "/v2"),
        "metadata": Request("GET", "/v2/models/sum"),
        "metadata of a version": Request("GET", "/v2/models/sum/versions/1"),
        "metadata of no version": Request("GET", "/v2/models/sum/versions/7"),
        "config": Request("GET", "/v2/models/sum/config"),
        "statistics": Request("GET", "/v2/models/sum/stats"),
        "index": Request("POST", "/v2/repository/index", otherwise=NO_REPOSITORY),
        "index of ready ones": Request(
            "POST", "/v2/repository/index", b'{"ready": true}', otherwise=NO_REPOSITORY
        ),
        "trace settings": Request("GET", "/v2/trace/setting"),
        "log settings": Request("GET", "/v2/logging"),
        "shared memory": Request("GET", "/v2/systemsharedmemory/status"),
        "json": infer("sum", both, binary=False),
        "json with an id": infer("sum", both, binary=False, id="seven"),
        "json, an output asked for": infer("sum", both, binary=False, outputs=[{"name": "y"}]),
        "json in, binary out": infer("sum", both, binary=False, outputs=[wants]),
        "binary in, json out": infer("sum", both, binary=True),
        "binary": infer("sum", both, binary=True, outputs=[wants]),
        "binary by the request": infer("sum", both, binary=True, parameters={"binary_data_output": True}),
        "a version": infer("sum", both, binary=True, path="/v2/models/sum/versions/1/infer"),
        "integers": infer("ids", {"ids": IDS}, binary=True),
        "nested json": infer("sum", both, binary=False, changed={"data": A.tolist()}),
        "gzip": infer("sum", both, binary=False, pack="gzip"),
        "deflate": infer("sum", both, binary=True, pack="deflate"),
        "gzip back": infer("sum", both, binary=True, outputs=[wants], accept="gzip"),
        "classes": infer(
            "sum",
            both,
            binary=False,
            outputs=[{"name": "y", "parameters": {"classification": 2}}],
        ),
        "priority and timeout": infer(
            "sum", both, binary=False, parameters={"priority": 1, "timeout": 5_000_000}
        ),
        "unknown model": infer("none", both, binary=False),
        "unknown version": infer("sum", both, binary=False, path="/v2/models/sum/versions/9/infer"),
        "unknown path": Request("GET", "/v2/nothing"),
        "no inputs": Request("POST", "/v2/models/sum/infer", b"{}", otherwise=OURS),
        "an input missing": infer("sum", {"a": A}, binary=False),
        "an unknown input": infer("sum", {"a": A, "c": B}, binary=False),
        "an unknown output": infer("sum", both, binary=False, outputs=[{"name": "z"}]),
        "wrong datatype": infer("sum", both, binary=False, changed={"datatype": "INT64", "data": [1] * 6}),
        "wrong shape": infer("sum", both, binary=False, changed={"shape": [3, 2]}),
        "too few elements": infer("sum", both, binary=False, changed={"data": [1.0]}, otherwise=OURS),
        "bytes of another size": infer(
            "sum", both, binary=True, changed={"parameters": {"binary_data_size": 8}}
        ),
        "no json": Request("POST", "/v2/models/sum/infer", b"{nonsense", otherwise=OURS),
        "negative shape": infer(
            "sum",
            both,
            binary=False,
            changed={"shape": [-2, 3]},
            otherwise=OURS,
        ),
        "ids out of range": infer("ids", {"ids": IDS + 100}, binary=False, otherwise=OURS),
        "shared memory registered": Request(
            "POST",
            "/v2/systemsharedmemory/region/r/register",
            json.dumps({"key": "/none", "offset": 0, "byte_size": 8}).encode(),
            otherwise="shared memory is not offered",
        ),
    }
    return found


def essence(name: str, status: int, headers: dict[str, str], body: bytes) -> Any:
    """Of an answer, what the protocol says and no server may choose."""
    if status != 200:
        return status
    if name in ("live", "ready") or name.endswith(" ready"):
        return status
    length = int(headers.get(LENGTH.lower(), len(body)))
    told = json.loads(body[:length])
    if "outputs" in told and "model_name" in told:
        return _inference(told, body[length:])
    if "inputs" in told:
        return {key: told[key] for key in ("name", "versions", "inputs", "outputs")}
    if name == "config":
        both = {key: [_port(entry) for entry in told[key]] for key in ("input", "output")}
        return {"name": told["name"], "max_batch_size": told["max_batch_size"], **both}
    if name == "statistics":
        return {key: sorted(told["model_stats"][0][key]) for key in ("inference_stats",)}
    if name.startswith("index"):
        return sorted((entry["name"], entry["version"], entry["state"]) for entry in told)
    if name == "server metadata":
        return sorted({"name", "version", "extensions"} - set(told))
    if name.endswith("settings"):
        return sorted(told)
    return told


def _port(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["name"], entry["data_type"], tuple(map(int, entry["dims"]))


def _inference(told: dict[str, Any], raw: bytes) -> Any:
    outputs = []
    for output in told["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        value: Any = output.get("data")
        if size is not None:
            value, raw = raw[:size].hex(), raw[size:]
        outputs.append((output["name"], output["datatype"], output["shape"], size, value))
    return told["model_name"], told["model_version"], told.get("id"), outputs, len(raw)


def grpc_answer(port: int, message: Any, method: str) -> Any:
    """A method's answer in its essence, or its status."""
    name = type(message).__name__.removesuffix("Request")
    response = getattr(pb, f"{name}Response")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            type(message).SerializeToString,
            response.FromString,
        )
        try:
            answer = call(message, timeout=30)
        except grpc.RpcError as error:
            return error.code().name  # type: ignore[attr-defined]
    if method == "ModelInfer":
        outputs = [(one.name, one.datatype, list(one.shape)) for one in answer.outputs]
        raw = [content.hex() for content in answer.raw_output_contents]
        return answer.model_name, answer.model_version, answer.id, outputs, raw
    if method == "ModelMetadata":
        ports = [
            [(one.name, one.datatype, list(one.shape)) for one in entries]
            for entries in (answer.inputs, answer.outputs)
        ]
        return answer.name, list(answer.versions), ports
    return str(answer).strip()


def messages() -> dict[str, tuple[Any, str, str]]:
    """By gRPC: a message, its method, and why Headway's answer differs on purpose."""

    def asks(model: str = "sum", version: str = "", raw: bool = True, **fields: Any) -> Any:
        message = pb.ModelInferRequest(model_name=model, model_version=version, **fields)
        for name, array in (("a", A), ("b", B)):
            entry = message.inputs.add(name=name, datatype="FP32", shape=array.shape)
            if raw:
                message.raw_input_contents.append(array.tobytes())
            else:
                entry.contents.fp32_contents.extend(array.ravel().tolist())
        return message

    both_ways = asks()
    both_ways.inputs[0].contents.fp32_contents.extend(A.ravel().tolist())
    short = asks()
    short.raw_input_contents[0] = short.raw_input_contents[0][:-4]
    missing = asks()
    del missing.inputs[1], missing.raw_input_contents[1]
    shape = asks()
    shape.inputs[0].shape[:] = [3, 2]
    output = asks()
    output.outputs.add(name="z")
    datatype = asks()
    datatype.inputs[0].datatype = "INT32"
    return {
        "live": (pb.ServerLiveRequest(), "ServerLive", ""),
        "ready": (pb.ServerReadyRequest(), "ServerReady", ""),
        "model ready": (pb.ModelReadyRequest(name="sum"), "ModelReady", ""),
        "metadata": (pb.ModelMetadataRequest(name="sum"), "ModelMetadata", ""),
        "metadata of none": (pb.ModelMetadataRequest(name="none"), "ModelMetadata", ""),
        "raw": (asks(), "ModelInfer", ""),
        "typed": (asks(raw=False, id="x"), "ModelInfer", ""),
        "a version": (asks(version="1"), "ModelInfer", ""),
        "unknown version": (asks(version="9"), "ModelInfer", ""),
        "unknown model": (asks("none"), "ModelInfer", ""),
        "raw and typed": (both_ways, "ModelInfer", ""),
        "too few bytes": (short, "ModelInfer", ""),
        "an input missing": (missing, "ModelInfer", ""),
        "wrong shape": (shape, "ModelInfer", ""),
        "wrong datatype": (datatype, "ModelInfer", ""),
        "unknown output": (output, "ModelInfer", ""),
    }


async def compare() -> int:
    """Start both, ask both, print a table; the number of differences that are not meant."""
    unexplained = 0
    with tempfile.TemporaryDirectory() as name:
        write_models(Path(name))
        oracle = Served("pytriton", "PyTriton", _Ready(), "pytriton", "pytriton_server.py", ports=3)
        here = Here("headway", "Headway", _Ready(), ports=2)
        started: list[Served] = []
        try:
            for server in (oracle, here):
                server.start(Folder(Path(name)))  # type: ignore[arg-type]
                started.append(server)
                await server.wait_until_ready()
            print("| by | request | PyTriton | Headway | |\n|" + " --- |" * 5)
            for what, request in requests().items():
                answers = [http_answer(server.port, request) for server in (oracle, here)]
                found = [essence(what, *answer) for answer in answers]
                unexplained += _print_row("HTTP", what, found, request.otherwise)
            for what, (message, method, otherwise) in messages().items():
                found = [grpc_answer(server.port + 1, message, method) for server in (oracle, here)]
                unexplained += _print_row("gRPC", what, found, otherwise)
        finally:
            for server in started:
                server.end()
    return unexplained


def _print_row(by: str, what: str, found: Sequence[Any], otherwise: str) -> bool:
    same = found[0] == found[1]
    shown = [one if isinstance(one, int | str) and len(str(one)) < 40 else "answer" for one in found]
    verdict = "same" if same else otherwise or "DIFFERENT"
    print(f"| {by} | {what} | {shown[0]} | {shown[1]} | {verdict} |", flush=True)
    if not same and not otherwise:
        print(f"{by} {what}:\n  PyTriton: {found[0]}\n  Headway:  {found[1]}", file=sys.stderr)
        return True
    return False


def main() -> None:
    """Compare, and end with status 1 if anything differs that is not meant to."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    differences = asyncio.run(compare())
    print(f"\n{differences} difference(s) that are not meant.")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
