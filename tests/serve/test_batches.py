"""A real server that runs requests together: answers, rows that a client brings, what it says of itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import tiny_models
from onnx import TensorProto, helper, numpy_helper
from served_world import NOW

from headway.config.serving import Serving
from headway.core.errors import HeadwayError
from headway.cost.contention import OverlapLoss
from headway.policies import make
from headway.record.columns import batches_of
from headway.record.conservation import check_conservation
from headway.record.log import read_log
from headway.serve import descriptions
from headway.serve.admission import Admission
from headway.serve.joint import Joint, rows_of
from headway.serve.refusal import Cause, Refusal
from headway.serve.repository import Repository
from headway.serve.service import InferenceRequest, InferenceResult
from headway.testing import play, toy_lane_table, toy_lanes, toy_request
from headway.wiring.serving import Server

LANE = {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}}
WIDTH = 8


def rows_model(batch: int | str = "n") -> onnx.ModelProto:
    """Twenty products, a row for each request."""
    draw = np.random.default_rng(0)
    weights = {f"w{at}": (draw.standard_normal((WIDTH, WIDTH)) / 3).astype(np.float32) for at in range(20)}
    nodes = [
        helper.make_node("MatMul", [f"x{at}" if at else "x", f"w{at}"], [f"x{at + 1}" if at < 19 else "y"])
        for at in range(20)
    ]
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, WIDTH])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(x: np.ndarray) -> np.ndarray:
    draw = np.random.default_rng(0)
    for _ in range(20):
        x = x @ (draw.standard_normal((WIDTH, WIDTH)) / 3).astype(np.float32)
    return x


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWAY_CACHE", str(folder / "cache"))
        (folder / "rows.onnx").write_bytes(rows_model().SerializeToString())
        made = Server(
            Serving.from_mapping(
                {
                    "hardware": LANE,
                    "models": [
                        {
                            "name": "rows",
                            "model": "rows.onnx",
                            "batching": {"max_size": 4, "delay": "20 ms"},
                        }
                    ],
                    "tenants": [{"name": "a"}],
                    "log": {"folder": "events"},
                },
                folder,
            ),
            lambda words: None,
        )
        made.load()
        yield made
        assert made.close(10.0)
    (part,) = sorted((folder / "events").iterdir())
    log = read_log(part)
    assert check_conservation(log) == []
    assert max(len(members) for members in batches_of(log).values()) > 1


class Client:
    """Asks without waiting, and collects answers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answers: dict[int, InferenceResult | Refusal] = {}
        self.left = threading.Semaphore(0)
        self.asked = 0

    def ask(self, x: np.ndarray) -> Any:
        number = self.asked
        self.asked += 1

        def done(answer: InferenceResult | Refusal) -> None:
            self.answers[number] = answer
            self.left.release()

        request = InferenceRequest(
            "rows", inputs={"x": x}, version="", outputs=(), id="", key=None, arrived_s=NOW
        )
        return self.server.service.submit(request, done)

    def wait(self) -> None:
        for _ in range(self.asked):
            assert self.left.acquire(timeout=30)

    def output(self, number: int) -> np.ndarray:
        answer = self.answers[number]
        assert isinstance(answer, InferenceResult), answer
        made: np.ndarray = answer.outputs["y"]
        return made


def test_requests_that_come_together_have_the_answers_that_they_have_alone(server: Server) -> None:
    client = Client(server)
    inputs = np.random.default_rng(1).standard_normal((24, WIDTH)).astype(np.float32)
    for row in inputs:
        client.ask(row[None])
    client.wait()
    for number, row in enumerate(inputs):
        np.testing.assert_allclose(client.output(number), expected(row[None]), rtol=1e-3, atol=1e-5)


def test_statistics_count_a_batch_as_one_execution(server: Server) -> None:
    client = Client(server)
    client.ask(np.zeros((4, WIDTH), np.float32))
    client.wait()
    (told,) = server.service.statistics("rows")
    assert told.execution_count < told.inference_count
    assert max(told.batches) > 1
    assert sum(count.count for count in told.batches.values()) == told.execution_count


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_request_may_bring_several_rows(server: Server, rows: int) -> None:
    client = Client(server)
    x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
    client.ask(x)
    client.wait()
    np.testing.assert_allclose(client.output(0), expected(x), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, WIDTH), (0, WIDTH), (2, WIDTH + 1)])
def test_too_many_rows_none_and_wrong_ones_are_refused(server: Server, shape: tuple[int, int]) -> None:
    with pytest.raises(Refusal) as refused:
        Client(server).ask(np.zeros(shape, np.float32))
    assert refused.value.cause is Cause.INVALID
    assert "accepted" in refused.value.message


def test_a_client_that_goes_away_withdraws_all_its_rows(server: Server) -> None:
    client = Client(server)
    ticket = client.ask(np.zeros((4, WIDTH), np.float32))
    ticket.cancel()
    client.wait()
    assert len(client.answers) == 1


def test_what_it_says_of_itself(server: Server) -> None:
    described = server.service.describe("rows")
    assert described.max_batch_size == 4
    assert described.inputs[0].shape == (-1, WIDTH)
    config = descriptions.model_config(described)
    assert config["max_batch_size"] == 4
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [WIDTH]}]
    assert descriptions.model_metadata(described)["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [-1, WIDTH]}
    ]


def test_a_model_whose_batch_is_fixed_is_refused(tmp_path: Path, server: Server) -> None:
    (tmp_path / "fixed.onnx").write_bytes(rows_model(1).SerializeToString())
    serving = Serving.from_mapping(
        {
            "hardware": LANE,
            "models": [{"name": "fixed", "model": "fixed.onnx", "batching": {"max_size": 2}}],
            "tenants": [{"name": "a"}],
        },
        tmp_path,
    )
    made = Server(serving, lambda words: None)
    try:
        with pytest.raises(HeadwayError, match="first dimension of 1"):
            made.load()
    finally:
        made.close(5.0)


@pytest.mark.parametrize(
    ("file", "text", "most", "delay_s"),
    [
        ("headway.yaml", "batching: {max_size: 8, delay: 2 ms}", 8, 2e-3),
        (
            "config.pbtxt",
            "max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 500 }",
            16,
            5e-4,
        ),
        ("config.pbtxt", "max_batch_size: 16\ndynamic_batching { preferred_batch_size: [4, 8] }", 16, 0.0),
    ],
)
def test_a_repository_says_it_its_way(
    tmp_path: Path, file: str, text: str, most: int, delay_s: float
) -> None:
    tiny_models.put(tmp_path, "rows", 1, rows_model())
    (tmp_path / "rows" / file).write_text(text)
    (source,) = Repository(tmp_path).sources("rows")
    assert source.batching is not None
    assert (source.batching.max_size, source.batching.delay) == (most, pytest.approx(delay_s))


def test_a_repository_without_batching_and_with_nonsense(tmp_path: Path) -> None:
    tiny_models.put(tmp_path, "rows", 1, rows_model())
    config = tmp_path / "rows" / "config.pbtxt"
    config.write_text("max_batch_size: 16")
    assert Repository(tmp_path).sources("rows")[0].batching is None
    config.write_text("max_batch_size: 1000\ndynamic_batching { }")
    with pytest.raises(HeadwayError, match="max_batch_size: max_size"):
        Repository(tmp_path).sources("rows")


def test_inputs_must_agree_on_their_rows() -> None:
    assert rows_of({"a": np.zeros((2, 3)), "b": np.zeros((2, 1))}, 4, "m") == 2
    with pytest.raises(Refusal, match="the same for all inputs"):
        rows_of({"a": np.zeros((2, 3)), "b": np.zeros((3, 1))}, 4, "m")


@pytest.mark.parametrize(
    ("deadline_s", "one_by_one", "in_batches"),
    [
        (45e-3, 4, 0),
        (33e-3, 5, 0),  # the last ends with its batch, not behind it
        (31e-3, 5, 1),  # two of four take 32 ms, one of four and one of three 30 ms
    ],
)
def test_admission_regards_what_runs_together(deadline_s: float, one_by_one: int, in_batches: int) -> None:
    device = toy_lanes(1)
    tables = {"m": toy_lane_table(device, {1: [10e-3]}, batches={4: 1.6}, name="m")}

    def refused(most_batch: int) -> int:
        requests = [
            toy_request(at, "m", tables, arrival_s=0.0, deadline_s=deadline_s, most_batch=most_batch)
            for at in range(8)
        ]
        policy = Admission(make("headway"), lambda request: 10e-3, 1.0)
        log = play(policy, device, tables, requests, contention=OverlapLoss(0.0))
        return sum(row.outcome == "dropped" for row in log.of("reply"))

    assert refused(1) == one_by_one
    assert refused(4) == in_batches


class Ticketed:
    """A service whose answers are given by hand."""

    def __init__(self) -> None:
        self.dones: list[Any] = []
        self.cancelled: list[int] = []

    def submit(self, request: InferenceRequest, done: Any) -> Any:
        number = len(self.dones)
        self.dones.append(done)
        assert request.inputs["x"].shape == (1, 2)
        return SimpleNamespace(cancel=lambda: self.cancelled.append(number))


def joint(service: Ticketed, submit: Any = None) -> list[InferenceResult | Refusal]:
    answers: list[InferenceResult | Refusal] = []
    request = InferenceRequest(
        "m", inputs={"x": np.zeros((3, 2))}, version="", outputs=(), id="", key=None, arrived_s=NOW
    )
    Joint(3, ("y",), answers.append).submit(request, submit or service.submit)
    return answers


def test_rows_are_answered_together_in_their_order() -> None:
    service = Ticketed()
    answers = joint(service)
    for row in (2, 0, 1):
        assert not answers
        service.dones[row](InferenceResult("m", "1", {"y": np.full((1, 2), row)}))
    (answer,) = answers
    assert isinstance(answer, InferenceResult)
    np.testing.assert_array_equal(answer.outputs["y"][:, 0], [0, 1, 2])


def test_the_first_refusal_of_a_row_is_the_answer_and_withdraws_the_others() -> None:
    service = Ticketed()
    answers = joint(service)
    service.dones[0](InferenceResult("m", "1", {"y": np.zeros((1, 2))}))
    service.dones[1](Refusal(Cause.LATE, "too late"))
    service.dones[2](Refusal(Cause.CANCELLED, "withdrawn"))
    (answer,) = answers
    assert isinstance(answer, Refusal)
    assert answer.cause is Cause.LATE
    assert set(service.cancelled) == {0, 1, 2}


def test_a_row_that_is_refused_at_once_withdraws_those_before_it() -> None:
    service = Ticketed()

    def submit(request: InferenceRequest, done: Any) -> Any:
        if len(service.dones) == 2:
            raise Refusal(Cause.LIMITED, "over the rate")
        return service.submit(request, done)

    with pytest.raises(Refusal, match="over the rate"):
        joint(service, submit)
    assert service.cancelled == [0, 1]
