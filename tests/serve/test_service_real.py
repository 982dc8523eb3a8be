"""The service over ONNX Runtime on this machine's lanes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from served_world import NOW

from headway.config.serving import Serving
from headway.live.executors.process import ProcessExecutor
from headway.record.log import read_log
from headway.record.metrics import summarise
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceRequest, InferenceResult
from headway.wiring.serving import Server

IDS = np.array([1, 2, 3, 4], np.int64)
LANE = {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is measured, kept for the tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def open_server(folder: Path, **more: Any) -> Server:
    root = folder / "models"
    data = {"hardware": LANE, "repository": {"path": "models"}, "tenants": [{"name": "a"}], **more}
    assert root.is_dir()
    return Server(Serving.from_mapping(data, folder), lambda words: None)


def infer(server: Server, model: str, inputs: Mapping[str, Any], **more: Any) -> InferenceResult | Refusal:
    answers: list[InferenceResult | Refusal] = []
    answered = threading.Event()

    def done(answer: InferenceResult | Refusal) -> None:
        answers.append(answer)
        answered.set()

    given = {"version": "", "outputs": (), "id": "", "key": None, "arrived_s": NOW, **more}
    try:
        server.service.submit(InferenceRequest(model, inputs=inputs, **given), done)
    except Refusal as refusal:
        return refusal
    assert answered.wait(30)
    return answers[0]


def result(server: Server, ids: np.ndarray, model: str = "lookup") -> np.ndarray:
    answer = infer(server, model, {"ids": ids})
    assert isinstance(answer, InferenceResult), answer
    made: np.ndarray = answer.outputs["y"]
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    root = folder / "models"
    tiny_models.put(root, "lookup", 1, tiny_models.lookup())
    tiny_models.put(root, "exclaim", 1, tiny_models.exclaim())
    tiny_models.put(root, "broken", 1, b"no model at all")
    truncated = tiny_models.lookup().SerializeToString()
    tiny_models.put(root, "truncated", 1, truncated[: len(truncated) // 2])
    return folder


@pytest.fixture(scope="module")
def server(cache: None, folder: Path) -> Iterator[Server]:
    made = open_server(folder, log={"folder": "events"})
    failures = made.load()
    assert len(failures) == 2
    yield made
    assert made.close(10.0)


def test_outputs_are_the_models_own(server: Server) -> None:
    made = result(server, IDS)
    np.testing.assert_array_equal(made, tiny_models.expected(IDS))
    again = result(server, IDS + 1)
    np.testing.assert_array_equal(made, tiny_models.expected(IDS), "an answer is not written over")
    np.testing.assert_array_equal(again, tiny_models.expected(IDS + 1))


def test_read_only_and_unaligned_inputs_are_taken(server: Server) -> None:
    body = memoryview(b"abc" + IDS.tobytes())
    ids = np.frombuffer(body, np.int64, offset=3)
    assert not ids.flags.aligned
    np.testing.assert_array_equal(result(server, ids), tiny_models.expected(IDS))


def test_texts_go_in_and_out_as_bytes(server: Server) -> None:
    texts = np.array([b"abc", "grün".encode()], dtype=object)
    answer = infer(server, "exclaim", {"x": texts})
    assert isinstance(answer, InferenceResult)
    assert list(answer.outputs["y"]) == [b"abc!", "grün!".encode()]
    wrong = infer(server, "exclaim", {"x": np.array([b"\xff", b""], dtype=object)})
    assert isinstance(wrong, Refusal)
    assert wrong.cause is Cause.INVALID


def test_ids_out_of_range_are_the_clients_fault(server: Server, folder: Path) -> None:
    answer = infer(server, "lookup", {"ids": np.array([1, 2, 3, 10**9], np.int64)})
    assert isinstance(answer, Refusal)
    assert answer.cause is Cause.INVALID
    assert str(folder) not in answer.message
    assert "/" not in answer.message
    np.testing.assert_array_equal(result(server, IDS), tiny_models.expected(IDS))


def test_corrupt_models_are_unavailable_with_a_reason_and_the_server_goes_on(
    server: Server, folder: Path
) -> None:
    entries = {entry.name: entry for entry in server.service.index()}
    assert {name: entry.state.value for name, entry in entries.items()} == {
        "lookup": "READY",
        "exclaim": "READY",
        "broken": "UNAVAILABLE",
        "truncated": "UNAVAILABLE",
    }
    for name in ("broken", "truncated"):
        assert entries[name].reason
        assert str(folder) not in entries[name].reason
    assert server.service.ready()


def test_a_model_that_kills_whoever_reads_it_is_unavailable(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server._intake._end_if_idle()
    monkeypatch.setattr(
        "headway.serve.intake._PROGRAM", "import os, sys; os.read(int(sys.argv[1]), 1); os.abort()"
    )
    tiny_models.put(folder / "models", "deadly", 1, tiny_models.lookup())
    with pytest.raises(Refusal, match="ended by it"):
        server.models.load("deadly").result(30)
    monkeypatch.undo()
    server.models.load("deadly").result(30)
    np.testing.assert_array_equal(result(server, IDS, "deadly"), tiny_models.expected(IDS))
    server.models.unload("deadly").result(30)


def test_descriptions_are_those_of_the_file(server: Server) -> None:
    described = server.service.describe("lookup")
    assert [(each.name, each.datatype, each.shape) for each in described.inputs] == [("ids", "INT64", (4,))]
    assert [(each.name, each.datatype, each.shape) for each in described.outputs] == [("y", "FP32", (8,))]
    assert described.versions == ("1",)


def test_another_file_takes_over_under_load(server: Server, folder: Path) -> None:
    root = folder / "models"
    tiny_models.put(root, "swapped", 1, tiny_models.lookup())
    asyncio.run(server.service.load("swapped", None))
    stop = threading.Event()
    seen: list[float] = []

    def ask() -> None:
        while not stop.is_set():
            seen.append(float(result(server, IDS, "swapped")[0]))

    asker = threading.Thread(target=ask)
    asker.start()
    tiny_models.put(root, "swapped", 1, tiny_models.lookup(2.0))
    asyncio.run(server.service.load("swapped", None))
    after = len(seen)
    while len(seen) < after + 3:
        time.sleep(1e-3)
    stop.set()
    asker.join()
    one = float(tiny_models.expected(IDS)[0])
    assert set(seen) == {one, 2 * one}
    assert seen == sorted(seen), "once the new one is there the old one serves nothing more"
    asyncio.run(server.service.unload("swapped", None))
    refused = infer(server, "swapped", {"ids": IDS})
    assert isinstance(refused, Refusal)
    assert refused.cause is Cause.NOT_FOUND
    assert not [key for key in server._installation._in_use if key.startswith("swapped/")]
    assert not [key for key in server._executor._sessions if key[0].startswith("swapped/")]  # type: ignore[attr-defined]


def test_answers_do_not_wait_for_a_model_that_is_being_loaded(server: Server, folder: Path) -> None:
    tiny_models.put(folder / "models", "late", 1, tiny_models.lookup(3.0))
    loading = server.models.load("late")
    answered = 0
    while not loading.done():
        result(server, IDS)
        answered += 1
    loading.result()
    assert answered > 3
    server.models.unload("late").result()


def test_configuration_is_taken_again_without_dropping_requests(cache: None, tmp_path: Path) -> None:
    model = tmp_path / "own.onnx"
    model.write_bytes(tiny_models.lookup().SerializeToString())

    def serving(*names: str, **more: Any) -> Serving:
        models = [{"name": name, "model": "own.onnx"} for name in names]
        return Serving.from_mapping({"hardware": LANE, "models": models, **more}, tmp_path)

    server = Server(serving("one"), lambda words: None)
    try:
        assert server.load() == []
        np.testing.assert_array_equal(result(server, IDS, "one"), tiny_models.expected(IDS))
        server.reload(serving("two", tenants=[{"name": "b", "models": ["two"]}]))
        np.testing.assert_array_equal(result(server, IDS, "two"), tiny_models.expected(IDS))
        assert isinstance(infer(server, "one", {"ids": IDS}), Refusal)
        assert [door.settings.name for door in server.service.tenants.doors] == ["b"]
        with pytest.raises(Exception, match="policy: changed; accepted: a restart"):
            server.reload(serving("two", policy="fcfs"))
        (tmp_path / "own.onnx").write_bytes(b"broken")
        with pytest.raises(Exception, match=r"models\[0\]: model 'three'"):
            server.reload(serving("three"))
        np.testing.assert_array_equal(result(server, IDS, "two"), tiny_models.expected(IDS))
    finally:
        server.close(10.0)


def test_a_crash_of_the_lanes_costs_what_runs_and_nothing_else(cache: None, folder: Path) -> None:
    server = open_server(
        folder, hardware={**LANE, "isolation": "process"}, repository={"path": "models", "load": ["lookup"]}
    )
    try:
        server.load()
        np.testing.assert_array_equal(result(server, IDS), tiny_models.expected(IDS))
        executor = server._executor
        assert isinstance(executor, ProcessExecutor)
        os.kill(executor.process_id, signal.SIGKILL)
        while executor.deaths < 1:
            time.sleep(1e-3)
        np.testing.assert_array_equal(result(server, IDS), tiny_models.expected(IDS))
        assert server.service.live()
        asyncio.run(server.service.load("exclaim", None))
        asyncio.run(server.service.unload("lookup", None))
        assert isinstance(
            infer(server, "exclaim", {"x": np.array([b"a", b"b"], dtype=object)}), InferenceResult
        )
    finally:
        server.close(10.0)


def test_the_event_log_can_be_read(cache: None, folder: Path, tmp_path: Path) -> None:
    server = open_server(
        folder,
        log={"folder": str(tmp_path / "log")},
        repository={"path": "models", "load": ["lookup"]},
        tenants=[{"name": "a", "sla": {"deadline": "5 s"}}],
    )
    server.load()
    for _ in range(5):
        result(server, IDS)
    server.close(10.0)
    (part,) = (tmp_path / "log").iterdir()
    summary = summarise(read_log(part))
    assert summary.tenants["a"].requests == 5
