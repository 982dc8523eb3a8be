"""How often a tensor's bytes are copied between the network and ONNX Runtime."""

from __future__ import annotations

import json
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from fake_service import FakeService
from onnx import TensorProto, helper

from headway.config.serving import Serving
from headway.serve.frontends import Frontends, serve_frontends
from headway.serve.grpc_codec import RequestReader, ResponseWriter
from headway.serve.grpc_wire import split_request
from headway.serve.limits import Limits
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.service import InferenceResult
from headway.wiring.serving import Server

SIZE = 8 << 20
"""Of the tensor, in bytes: all else that a request needs is small beside it."""
HERE = ("127.0.0.1", 0)


def held_at_most(call: Callable[[], object]) -> float:
    """How many such tensors Python held at once while it was called, beside those from before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return (tracemalloc.get_traced_memory()[1] - before) / SIZE
    finally:
        tracemalloc.stop()


def http_call(port: int, model: str, array: Any, connections: list[socket.socket]) -> Callable[[], None]:
    """A request with a binary tensor in and out, whose bytes are there already, and room for the answer."""
    entry = {"name": "x", "datatype": "FP32", "shape": array.shape}
    entry["parameters"] = {"binary_data_size": array.nbytes}
    asks = {"inputs": [entry], "parameters": {"binary_data_output": True}}
    head = json.dumps(asks).encode()
    lines = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(head) + array.nbytes}\r\n"
    )
    lines += f"Inference-Header-Content-Length: {len(head)}\r\n\r\n"
    body = lines.encode() + head + array.tobytes()
    room = memoryview(bytearray(array.nbytes + 4096))
    connection = socket.create_connection((HERE[0], port), timeout=30)
    connections.append(connection)

    def call() -> None:
        connection.sendall(body)
        got = 0
        while got < array.nbytes:
            more = connection.recv_into(room[got:])
            assert more, "closed"
            got += more
        assert bytes(room[:15]) == b"HTTP/1.1 200 OK"
        whole = bytes(room[:2048]).split(b"\r\n\r\n")[0].lower()
        length = int(whole.split(b"content-length: ")[1].split(b"\r\n")[0])
        while got < len(whole) + 4 + length:
            got += connection.recv_into(room[got:])

    return call


@pytest.fixture
def connections() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for connection in opened:
        connection.close()


@pytest.fixture
def front() -> Iterator[Frontends]:
    with serve_frontends(FakeService(), http=HERE) as made:
        yield made


ARRAY = np.arange(SIZE // 4, dtype=np.float32)


def test_http_holds_a_tensor_once_from_its_arrival_to_its_answer(
    front: Frontends, connections: list[socket.socket]
) -> None:
    assert front.http_port is not None
    call = http_call(front.http_port, "echo-FP32", ARRAY, connections)
    call()
    assert held_at_most(call) == pytest.approx(1.0, abs=0.1)


def test_a_message_of_grpc_is_copied_once_for_its_tensor_and_once_for_the_answer() -> None:
    """Beside what gRPC itself does, which hands over and takes strings of bytes."""
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=ARRAY.shape)
    message.raw_input_contents.append(ARRAY.tobytes())
    data = message.SerializeToString()
    answers: list[bytes] = []

    def read() -> Any:
        return RequestReader(Limits()).read(split_request(data)).inputs["x"]

    def write() -> None:
        result = InferenceResult("m", "1", {"y": ARRAY})
        answers.append(b"".join(ResponseWriter().parts(result, "", (), None, final=False)))

    assert held_at_most(read) < 1.1  # nothing where the tensor happens to lie aligned
    assert held_at_most(write) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_array_equal(read(), ARRAY)
    assert pb.ModelInferResponse.FromString(answers[0]).raw_output_contents[0] == ARRAY.tobytes()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A model that negates a tensor in two blocks' worth of nodes."""
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Neg", ["m"], ["y"])],
        "twice",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ARRAY.size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ARRAY.size])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "twice.onnx").write_bytes(model.SerializeToString())
    config = {
        "hardware": {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}},
        "models": [{"name": "twice", "model": "twice.onnx"}],
    }
    made = Server(Serving.from_mapping(config, tmp_path), lambda words: None)
    assert made.load() == []
    yield made
    assert made.close(10.0)


@pytest.mark.slow
def test_from_the_network_to_the_runtime_and_back_nothing_is_copied(
    server: Server, connections: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[int] = []
    given: list[int] = []
    sent: list[int] = []
    real, submit = onnxruntime.OrtValue.ortvalue_from_numpy, server.service.submit

    def noted(array: Any, *more: Any) -> Any:
        value = real(array, *more)
        assert value.data_ptr() == array.ctypes.data, "ONNX Runtime has memory of its own"
        bound.append(value.data_ptr())
        return value

    def noted_submit(request: Any, done: Any) -> Any:
        given.append(request.inputs["x"].ctypes.data)

        def noted_done(answer: Any) -> None:
            sent.append(answer.outputs["y"].ctypes.data)
            done(answer)

        return submit(request, noted_done)

    with serve_frontends(server.service, http=HERE) as front:
        assert front.http_port is not None
        call = http_call(front.http_port, "twice", ARRAY, connections)
        with monkeypatch.context() as patch:
            patch.setattr(server.service, "submit", noted_submit)
            patch.setattr(onnxruntime.OrtValue, "ortvalue_from_numpy", staticmethod(noted))
            for _ in range(3):
                call()
        assert len(given) == len(sent) == 3
        assert set(given) <= set(bound), "an input was copied before it was bound"
        assert set(sent) <= set(bound), "a result was copied after it was made"
        # The body, and the result.
        assert held_at_most(call) < 2.1
