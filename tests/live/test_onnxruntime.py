"""Real models on lanes: outputs, failures, time-outs, and what is given back."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.messages import Arrive, Failed, Finish, SafePoint
from headway.core.request import Request
from headway.core.run import How
from headway.live.clock import WallClock
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor, ReplayInputs
from headway.live.processors import available
from headway.live.thread_ranks import GIVE_WAY
from headway.models import zoo
from headway.models.chain import SplitModel
from headway.models.prepared import PreparedModel, prepare
from headway.models.split import split
from headway.models.takeovers import sums_of
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog

World = Any  # the class in conftest.py

LANES = [[number] for number in available()[:2]]
needs_two = pytest.mark.skipif(len(LANES) < 2, reason="needs two processors")


@pytest.fixture(scope="module")
def prepared() -> PreparedModel:
    return prepare(zoo.build("squeezenet", image_size=64, seed=1), dims={})


@pytest.fixture(scope="module")
def chain(prepared: PreparedModel) -> SplitModel:
    """A small model in four blocks."""
    positions = [cut.position for cut in prepared.cuts]
    return split(prepared, positions[:: len(positions) // 4][1:4])


@pytest.fixture(scope="module")
def expected(prepared: PreparedModel, chain: SplitModel) -> dict[str, np.ndarray]:
    return chain.run(prepared.sample())


def world_of(make_world: Any, chain: SplitModel, cores: int = 1) -> World:
    return make_world(cores, {"m": (1e-3,) * len(chain.blocks)})


def same(results: Any, expected: Any) -> bool:
    return results.keys() == expected.keys() and all(
        np.array_equal(results[name], expected[name]) for name in expected
    )


def test_the_chain_has_blocks_to_stop_between(chain: SplitModel) -> None:
    assert len(chain.blocks) == 4


@needs_two
@pytest.mark.parametrize("policy", ["fcfs", "edf"])
def test_outputs_are_the_models_own(
    make_world: Any, prepared: PreparedModel, chain: SplitModel, expected: Any, policy: str
) -> None:
    world = world_of(make_world, chain, 2)
    results: dict[int, Any] = {}
    executor = OnnxRuntimeExecutor(
        {"m": chain},
        LANES,
        ReplayInputs({"m": prepared.sample()}),
        on_result=lambda request, outputs: results.__setitem__(request.id, outputs),
    )
    for core in world.device.cores:
        executor.prepare("m", (core,))
    requests = [world.request(id, "m", at=1e-3 * id, within=0.9 - 0.03 * id) for id in range(20)]
    world.driver(policy, requests, executor, WallClock()).run()
    assert set(world.outcomes.values()) == {"done"}
    assert sorted(results) == list(range(20))
    assert all(same(outputs, expected) for outputs in results.values())
    assert executor.held == 0
    log = MemoryLog({})
    for row in world.rows:
        log.add(row)
    assert check_conservation(log.table()) == []
    executor.close()


@needs_two
def test_a_request_moves_between_narrow_and_wide_sessions(
    make_world: Any, prepared: PreparedModel, chain: SplitModel, expected: Any
) -> None:
    results: list[Any] = []
    executor = OnnxRuntimeExecutor(
        {"m": chain},
        LANES,
        ReplayInputs({"m": prepared.sample()}),
        on_result=lambda request, outputs: results.append(outputs),
    )
    world = world_of(make_world, chain, 2)
    clock = WallClock()
    executor.connect(clock.post, clock)
    run = world.engine("fcfs").handle([Arrive(world.request(0, "m"))], clock.now())[0].run
    cores = world.device.cores
    for blocks, lanes in ((range(2), cores), (range(2, 3), cores[1:]), (range(3, 4), cores)):
        run.blocks, run.cores = blocks, lanes
        executor.start(run)
        event = clock.wait(None)
        while not isinstance(event[-1], Finish):
            assert all(isinstance(point, SafePoint) for point in event)
            event = clock.wait(None)
    executor.close()
    (outputs,) = results
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)


@needs_two
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_all_threads_that_compute_give_way(prepared: PreparedModel, chain: SplitModel) -> None:
    before = set(os.listdir("/proc/self/task"))
    executor = OnnxRuntimeExecutor({"m": chain}, LANES, ReplayInputs({"m": prepared.sample()}))
    clock = WallClock()
    executor.prepare("m", [Core.lane(index, 1) for index in range(2)])
    executor.connect(clock.post, clock)
    pools = len(chain.blocks)  # a thread each beside the lane's own
    deadline_s = clock.now() + 5.0
    computing: list[int] = []
    while len(computing) < pools + 2 and clock.now() < deadline_s:
        threads = set(os.listdir("/proc/self/task")) - before
        computing = [
            thread for thread in map(int, threads) if os.getpriority(os.PRIO_PROCESS, thread) == GIVE_WAY
        ]
    executor.close()
    assert len(computing) == pools + 2


def test_narrow_lanes_share_their_sessions(prepared: PreparedModel, chain: SplitModel) -> None:
    executor = OnnxRuntimeExecutor({"m": chain}, LANES, ReplayInputs({"m": prepared.sample()}))
    lanes = [Core.lane(index, 1) for index in range(len(LANES))]
    for lane in lanes:
        executor.prepare("m", (lane,))
    assert len(executor._sessions) == 1
    if len(lanes) > 1:
        executor.prepare("m", lanes)
        assert {sessions.threads for sessions in executor._sessions.values()} == {1, len(lanes)}
    executor.close()
    assert not executor._sessions


def test_what_a_dropped_request_held_is_given_back(
    make_world: Any, prepared: PreparedModel, chain: SplitModel
) -> None:
    world = world_of(make_world, chain)
    executor = OnnxRuntimeExecutor({"m": chain}, LANES[:1], ReplayInputs({"m": prepared.sample()}))
    clock = WallClock()
    executor.connect(clock.post, clock)
    request = world.request(0, "m")
    run = world.engine("fcfs").handle([Arrive(request)], clock.now())[0].run
    run.blocks = range(2)
    executor.start(run)
    while not isinstance(clock.wait(None)[-1], Finish):
        pass
    assert executor.held == 1
    executor.release(request)
    assert executor.held == 0
    executor.close()


def test_inputs_that_do_not_fit_fail_the_request_and_the_lane_goes_on(
    make_world: Any, prepared: PreparedModel, chain: SplitModel
) -> None:
    world = world_of(make_world, chain)
    good = prepared.sample()
    (name,) = good

    def inputs(request: Any) -> dict[str, Any]:
        return {name: good[name][:, :1]} if request.id == 1 else good

    executor = OnnxRuntimeExecutor({"m": chain}, LANES[:1], inputs)
    world.driver("fcfs", [world.request(id, "m") for id in range(3)], executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "done", 1: "failed", 2: "done"}
    assert f"input {name!r} has shape" in world.reasons[1]


def looping() -> onnx.ModelProto:
    """A model that loops as often as its input says; ONNX Runtime looks between operators for a stop."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["twice"]),
            helper.make_node("Sub", ["twice", "x"], ["y"]),
            helper.make_node("Identity", ["go"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [8]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [8]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["times", "", "start"], ["end"], body=body)],
        "looping",
        [
            helper.make_tensor_value_info("times", TensorProto.INT64, []),
            helper.make_tensor_value_info("start", TensorProto.FLOAT, [8]),
        ],
        [helper.make_tensor_value_info("end", TensorProto.FLOAT, [8])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def loops() -> SplitModel:
    return split(prepare(looping(), dims={}), ())


def loop_inputs(request: Any) -> dict[str, np.ndarray]:
    times = 10**12 if request.id == 1 else 3
    return {"times": np.array(times), "start": np.ones(8, dtype=np.float32)}


def test_a_block_that_takes_too_long_is_terminated(make_world: Any, loops: SplitModel) -> None:
    world = make_world(1, {"m": (1e-3,)})
    executor = OnnxRuntimeExecutor({"m": loops}, LANES[:1], loop_inputs, timeout_s=0.3)
    world.driver("fcfs", [world.request(id, "m") for id in range(3)], executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "done", 1: "failed", 2: "done"}
    assert world.reasons[1] == "block 0 of m ran for more than 0.3 s"


def test_a_killed_run_ends_within_its_block(make_world: Any, loops: SplitModel) -> None:
    world = make_world(1, {"m": (1e-3,)})
    executor = OnnxRuntimeExecutor({"m": loops}, LANES[:1], loop_inputs)
    clock = WallClock()
    executor.connect(clock.post, clock)
    run = world.engine("fcfs").handle([Arrive(world.request(1, "m"))], clock.now())[0].run
    executor.start(run)
    threading.Timer(0.05, executor.stop, [run, How.KILL]).start()
    (event,) = clock.wait(None)
    executor.close()
    assert isinstance(event, SafePoint)
    assert (event.stopped, event.lost, event.share) == (True, True, 0.0)


def test_a_kill_waits_for_the_end_of_a_block_that_may_have_overwritten_its_inputs(make_world: Any) -> None:
    prepared = prepare(zoo.build("resnet18", image_size=32))
    places = {at for each in sums_of(prepared.graph) for at in (each.place, each.place + 1)}
    chain = split(prepared, sorted(places & {cut.position for cut in prepared.cuts}))

    class KilledAtOnce(OnnxRuntimeExecutor):
        def _run_block(self, job: Any, block: int, active: Any) -> None:
            self.stop(active.run, How.KILL)
            super()._run_block(job, block, active)

    executor = KilledAtOnce({"m": chain}, LANES[:1], ReplayInputs({"m": prepared.sample()}))
    world, clock = world_of(make_world, chain), WallClock()
    executor.connect(clock.post, clock)
    executor.start(world.engine("fcfs").handle([Arrive(world.request(1, "m"))], clock.now())[0].run)
    (event,) = clock.wait(None)
    executor.close()
    assert isinstance(event, SafePoint)
    assert (event.stopped, event.lost) == (True, False)


def test_rehearsing_gives_the_seconds_of_each_block(prepared: PreparedModel, chain: SplitModel) -> None:
    executor = OnnxRuntimeExecutor({"m": chain}, LANES[:1], ReplayInputs({"m": prepared.sample()}))
    request = Request(0, "t", 0, "m", 0.0, 1.0, len(chain.blocks), 0.0)
    seconds = executor.rehearse(request, [Core.lane(0, 1)])
    executor.close()
    assert len(seconds) == len(chain.blocks)
    assert all(second > 0.0 for second in seconds)
    assert executor.held == 0


def test_what_cannot_be_prepared_is_refused(prepared: PreparedModel, chain: SplitModel) -> None:
    executor = OnnxRuntimeExecutor({"m": chain}, LANES[:1], ReplayInputs({"m": prepared.sample()}))
    with pytest.raises(HeadwayError, match=r"no model 'x'; accepted: m"):
        executor.prepare("x", [Core.lane(0, 1)])
    with pytest.raises(HeadwayError, match=r"a batch of 2 requests; accepted: 1"):
        executor.prepare("m", [Core.lane(0, 1)], 2)
    executor.close()


def test_failures_tell_which_block(make_world: Any, prepared: PreparedModel, chain: SplitModel) -> None:
    world = world_of(make_world, chain)
    executor = OnnxRuntimeExecutor({"m": chain}, LANES[:1], ReplayInputs({"m": prepared.sample()}))
    clock = WallClock()
    executor.connect(clock.post, clock)
    request = world.request(0, "m")
    run = world.engine("fcfs").handle([Arrive(request)], clock.now())[0].run
    executor.prepare("m", run.cores)
    (sessions,) = executor._sessions.values()
    sessions._sessions[2] = "no session"
    executor.start(run)
    events = []
    while not events or not isinstance(events[-1], (Failed, Finish)):
        events += clock.wait(None)
    executor.close()
    assert isinstance(events[-1], Failed)
    assert "block 2 of 4" in events[-1].cause
