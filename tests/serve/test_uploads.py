"""Load requests that bring a model's files: taken where that is switched on, gone when it is unloaded."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tiny_models
from served_world import NOW, ServedWorld

from headway.cli.serve_loop import front_ends_of
from headway.config.serving import Serving
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceRequest, InferenceResult
from headway.serve.uploads import files_of
from headway.wiring.serving import Server

LANE = {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}}
IDS = np.array([1, 2, 3, 0], np.int64)


def asked(server: Server, model: str) -> np.ndarray:
    answers: list[InferenceResult | Refusal] = []
    there = threading.Event()

    def done(answer: InferenceResult | Refusal) -> None:
        answers.append(answer)
        there.set()

    server.service.submit(InferenceRequest(model, "", {"ids": IDS}, (), "", None, NOW), done)
    assert there.wait(30)
    (answer,) = answers
    assert isinstance(answer, InferenceResult), answer
    made: np.ndarray = answer.outputs["y"]
    return made


@pytest.mark.slow
def test_uploads_serve_until_they_are_unloaded_and_leave_the_repository_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    tiny_models.put(tmp_path / "models", "lookup", 1, tiny_models.lookup())
    before = sorted((tmp_path / "models").rglob("*"))
    serving = Serving.from_mapping(
        {
            "hardware": LANE,
            "repository": {"path": "models", "uploads": True, "upload_size": "10 kB"},
            "listen": {"http": None, "grpc": None, "control": 0, "control_grpc": 0},
        },
        tmp_path,
    )
    server = Server(serving, lambda words: None)
    try:
        server.load()
        with front_ends_of(serving, server, lambda: None) as front:
            assert front.control_port is not None

            def post(model: str, action: str, **parameters: Any) -> tuple[int, Any]:
                connection = http.client.HTTPConnection("127.0.0.1", front.control_port or 0, timeout=60)
                body = json.dumps({"parameters": parameters})
                connection.request("POST", f"/v2/repository/models/{model}/{action}", body)
                answer = connection.getresponse()
                found = answer.status, json.loads(answer.read())
                connection.close()
                return found

            content = base64.b64encode(tiny_models.lookup(2.0).SerializeToString()).decode()
            assert post("lookup", "load", **{"config": "{}", "file:1/model.onnx": content}) == (200, {})
            np.testing.assert_array_equal(asked(server, "lookup"), tiny_models.expected(IDS, 2.0))
            assert post("lookup", "load") == (200, {})
            np.testing.assert_array_equal(asked(server, "lookup"), tiny_models.expected(IDS))

            load = pb.RepositoryModelLoadRequest(model_name="new")
            load.parameters["file:7/model.onnx"].bytes_param = tiny_models.lookup(3.0).SerializeToString()
            with grpc.insecure_channel(f"127.0.0.1:{front.control_grpc_port}") as channel:
                call = channel.unary_unary(
                    "/inference.GRPCInferenceService/RepositoryModelLoad",
                    pb.RepositoryModelLoadRequest.SerializeToString,
                    pb.RepositoryModelLoadResponse.FromString,
                )
                call(load, timeout=60)
            np.testing.assert_array_equal(asked(server, "new"), tiny_models.expected(IDS, 3.0))
            assert server.service.describe("new").version == "7"

            status, told = post("bad", "load", **{"file:1/model.onnx": base64.b64encode(b"none").decode()})
            assert status == 400
            assert "bad" in told["error"]
            assert str(tmp_path) not in told["error"]
            assert "headway-upload" not in told["error"]
            status, told = post("big", "load", **{"file:1/model.onnx": "A" * 20_000})
            assert (status, "accepted: at most 10000" in told["error"]) == (413, True)
            assert post("new", "unload") == (200, {})
            assert {entry.name for entry in server.service.index(only_ready=True)} == {"lookup"}
        assert sorted((tmp_path / "models").rglob("*")) == before
    finally:
        server.close(10.0)


def test_without_the_switch_files_are_refused() -> None:
    world = ServedWorld([{"name": "a"}])
    with pytest.raises(Refusal, match=r"unless repository\.uploads is switched on") as refused:
        asyncio.run(world.service.load("short", None, "{}", {"1/model.onnx": b"x"}))
    assert refused.value.cause is Cause.FORBIDDEN
    world.service.upload_bytes = 10
    with pytest.raises(Refusal, match="one of the configuration's own"):
        asyncio.run(world.service.load("short", None, "{}", {"1/model.onnx": b"x"}))
    world.play()


@pytest.mark.parametrize(
    "place",
    ["", "../x", "/etc/x", "1/../x", "1/2/x", "01/x", ".hidden", "1/.hidden", "a b", "1/", "x/y", "x\n"],
)
def test_files_stay_in_the_models_folder(place: str) -> None:
    with pytest.raises(Refusal, match="accepted: file:VERSION/FILE"):
        files_of({f"file:{place}": b""})


def test_contents_are_bytes_or_base64() -> None:
    content = bytes(range(256)) * 10_000
    told = base64.b64encode(content).decode()
    assert files_of({"file:1/m.onnx": told, "file:labels.txt": b"a", "config": "{}"}) == {
        "1/m.onnx": content,
        "labels.txt": b"a",
    }
    for wrong in ("QQ=", "?", 7, True):
        with pytest.raises(Refusal, match="base64"):
            files_of({"file:1/m.onnx": wrong})
    with pytest.raises(Refusal, match="at most 64"):
        files_of({f"file:{at}": b"" for at in range(65)})
