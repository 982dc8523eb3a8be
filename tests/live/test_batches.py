"""Batches for real: ONNX Runtime under the live driver, in this process and in another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headway.core.block import Mode
from headway.core.engine import Engine
from headway.core.messages import Cancel, Decision, Dispatch, Preempt, Reply
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How
from headway.cost.contention import OverlapLoss
from headway.live.cache import ProfileCache
from headway.live.clock import WallClock
from headway.live.driver import LiveDriver
from headway.live.executors.makers import OnnxRuntimeLanes
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor
from headway.live.executors.process import ProcessExecutor
from headway.live.processors import available
from headway.live.profiler import take_in
from headway.models.prepared import prepare
from headway.models.split import split
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.testing import Listed, toy_lane_table, toy_lanes

LIMIT_S = 30.0


def model() -> onnx.ModelProto:
    """Products with a row for each request, and a row of a table, of which there are four."""
    draw = np.random.default_rng(0)
    weights = {name: draw.standard_normal((16, 16)).astype(np.float32) for name in "abc"}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "b"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=-1),
        helper.make_node("MatMul", ["s", "c"], ["t"]),
        # Fails for a request whose index is beyond the table.
        helper.make_node("Gather", ["table", "at"], ["u"], axis=0),
        helper.make_node("Add", ["t", "u"], ["y"]),
    ]
    table = draw.standard_normal((4, 16)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "rows",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16]),
            helper.make_tensor_value_info("at", TensorProto.INT64, ["n"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])],
        [numpy_helper.from_array(value, name) for name, value in {**weights, "table": table}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def chain() -> Any:
    prepared = prepare(model(), dims={}, batches=True)
    return split(prepared, [cut.position for cut in prepared.cuts][::2])


class Batches(Policy):
    """Runs all that wait at the same block together, stopping at every block end for as long as it may."""

    needs = frozenset({Capability.BATCH, Capability.PREEMPT})

    def __init__(self, stops: int = 0) -> None:
        self.stops = stops

    def decide(self, view: View) -> Iterator[Decision]:
        groups: dict[int, list[Request]] = {}
        alone = [request for request in view.ready if request.most_batch == 1]
        for request in view.ready:
            if request.most_batch > 1:
                groups.setdefault(request.next_block, []).append(request)
        waiting = [[request] for request in alone] + list(groups.values())
        for core, requests in zip(view.idle, waiting, strict=False):
            first = requests[0]
            # In turns in order and reversed, so that those that parted join others in another order.
            order = requests if self.stops % 2 == 0 else requests[::-1]
            yield Dispatch(tuple(order), range(first.next_block, first.blocks), (core,), Mode.SERIAL)
        for run in view.running:
            if self.stops > 0 and run.stopping is None:
                self.stops -= 1
                yield Preempt(run, How.DRAIN)


class World:
    """Requests that arrive together, an executor on one lane, and what came of it."""

    def __init__(self, chain: Any, count: int, *, bad: frozenset[int] = frozenset(), isolated: bool) -> None:
        draw = np.random.default_rng(1)
        self.chain, self.count = chain, count
        self.inputs = {
            id: {
                "x": draw.standard_normal((1, 16)).astype(np.float32),
                "at": np.array([9 if id in bad else id % 4], np.int64),
            }
            for id in range(count)
        }
        self.results: dict[int, dict[str, Any]] = {}
        self.replies: dict[int, Reply] = {}
        self.lanes = [available()[:1]]
        self.isolated = isolated
        device = toy_lanes(1)
        blocks = [1e-3] * len(chain.blocks)
        tables = {"m": toy_lane_table(device, {1: blocks}, batches={2: 1.2, 8: 2.0}, name="m")}
        self.log = MemoryLog({"device": {"cores": []}})
        rule = OverlapLoss(0.0)
        self.make_engine = lambda policy: Engine(
            device, policy, AnalyticEstimator(device, tables, rule), rule, self.log
        )
        self.requests = [
            Request(id, "t", id, "m", 0.0, 10.0, len(blocks), 1e-3, most_batch=8) for id in range(count)
        ]

    def run(self, policy: Policy, cancelled: int | None = None) -> None:
        def result(request: Request, made: dict[str, Any]) -> None:
            self.results[request.id] = made

        def inputs(request: Request) -> dict[str, Any]:
            return self.inputs[request.id]

        if self.isolated:
            executor: Any = ProcessExecutor(
                OnnxRuntimeLanes({"m": self.chain}, self.lanes, pin=False), inputs=inputs, on_result=result
            )
        else:
            executor = OnnxRuntimeExecutor({"m": self.chain}, self.lanes, inputs, on_result=result, pin=False)
        engine = self.make_engine(policy)
        clock = WallClock()
        driver = LiveDriver(
            engine,
            Listed(self.requests),
            executor,
            clock,
            on_reply=lambda reply: self.replies.setdefault(reply.request.id, reply),
        )
        try:
            executor.prepare("m", engine.device.cores, 8)
            if cancelled is not None:
                threading.Timer(0.0, lambda: clock.post(Cancel(cancelled))).start()
            timer = threading.Timer(LIMIT_S, driver.interrupt)
            timer.start()
            driver.run()
            timer.cancel()
            if not self.isolated:
                assert executor.held == 0
        finally:
            executor.close()
        assert check_conservation(self.log.table()) == []

    def check(self, ids: Any) -> None:
        for id in ids:
            assert self.replies[id].outcome == "done"
            expected = self.chain.run(self.inputs[id])["y"]
            np.testing.assert_allclose(self.results[id]["y"], expected, rtol=1e-4, atol=1e-5)
            assert self.results[id]["y"].shape == (1, 16)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("stops", [0, 3])
def test_a_batch_gives_each_request_what_it_gives_alone(chain: Any, isolated: bool, stops: int) -> None:
    world = World(chain, 5, isolated=isolated)
    world.run(Batches(stops))
    world.check(range(5))
    assert max(_sizes(world.log).values()) == 5


@pytest.mark.parametrize("isolated", [False, True])
def test_a_batch_that_fails_is_run_one_by_one_and_only_the_bad_one_fails(chain: Any, isolated: bool) -> None:
    world = World(chain, 4, bad=frozenset({2}), isolated=isolated)
    world.run(Batches())
    world.check([0, 1, 3])
    assert world.replies[2].outcome == "failed"
    assert sorted(_sizes(world.log).values()) == [1, 1, 1, 1, 4]


@pytest.mark.parametrize("isolated", [False, True])
def test_who_is_cancelled_leaves_the_others_alone(chain: Any, isolated: bool) -> None:
    world = World(chain, 4, isolated=isolated)
    world.run(Batches(stops=2), cancelled=1)
    world.check([0, 2, 3])
    assert world.replies[1].outcome in ("cancelled", "done")  # it may have been faster


def _sizes(log: MemoryLog) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for row in log.table().table.to_pylist():
        if row["event"] == "start":
            sizes[row["run"]] = sizes.get(row["run"], 0) + 1
    return sizes


def test_intake_measures_batches_and_finds_them_again(tmp_path: Any) -> None:
    cache = ProfileCache(tmp_path)
    widths = {1: available()[:1]}
    first = take_in(model(), widths, name="m", cache=cache, most_batch=4)
    assert first.profile.most_batch == 4
    assert set(first.profile.blocks[0].batch_seconds) == {2, 4}
    again = take_in(model(), widths, name="m", cache=cache, most_batch=4)
    alone = take_in(model(), widths, name="m", cache=cache)
    assert alone.profile.most_batch == 1
    assert not alone.split.rows
    if first.profile.unsteady == "":
        assert again.cached
    assert again.split.rows == first.split.rows
