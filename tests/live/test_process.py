"""Lanes in a process of their own, and what its death costs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.messages import Arrive, Cancel, Failed, SafePoint
from headway.core.run import How, Run
from headway.live.clock import WallClock
from headway.live.executors.makers import NullLanes, OnnxRuntimeLanes
from headway.live.executors.onnxruntime import ReplayInputs
from headway.live.executors.process import MOST_FAILED_STARTS, ProcessExecutor
from headway.live.executors.tensors import TensorReader, TensorWriter
from headway.live.processors import available
from headway.models import zoo
from headway.models.prepared import PreparedModel, prepare
from headway.models.split import split
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog

World = Any  # the class in conftest.py

ENDLESS = 60.0
LIMIT_S = 30.0
BLOCKS = {
    "short": (1e-3,),
    "long": (2e-3,) * 4,
    "slow": (1e-3, 0.5, 1e-3, 1e-3),
    "stuck": (1e-3, ENDLESS, 1e-3),
}
LANES = [[number] for number in available()[:2]]


@pytest.fixture
def world(make_world: Any) -> World:
    return make_world(2, BLOCKS)


@pytest.fixture
def executor() -> Iterator[ProcessExecutor]:
    made = ProcessExecutor(NullLanes(BLOCKS, [[0], [1]]))
    yield made
    made.close()


def kill(executor: ProcessExecutor) -> None:
    os.kill(executor.process_id, signal.SIGKILL)


def wait_for_deaths(executor: ProcessExecutor, count: int) -> None:
    until_s = time.monotonic() + LIMIT_S
    while executor.deaths < count and time.monotonic() < until_s:
        time.sleep(1e-3)
    assert executor.deaths >= count


def test_a_run_there_is_as_a_run_here(world: World, executor: ProcessExecutor) -> None:
    for core in world.device.cores:
        executor.prepare("long", (core,))
    requests = [world.request(id, "long" if id % 2 else "short", at=1e-3 * id) for id in range(10)]
    world.driver("edf", requests, executor, WallClock()).run()
    assert world.outcomes == dict.fromkeys(range(10), "done")
    log = MemoryLog({})
    for row in world.rows:
        log.add(row)
    assert check_conservation(log.table()) == []
    assert executor.deaths == 0


def test_a_death_fails_what_runs_and_nothing_else(
    world: World, executor: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        world.request(0, "stuck"),
        world.request(1, "stuck"),
        world.request(2),
        world.request(3, at=0.3),
    ]
    clock = WallClock()
    driver = world.driver("fcfs", requests, executor, clock)
    before = executor.process_id
    start = executor.start

    def start_and_kill_after_both(run: Run) -> None:
        start(run)
        if run.request.id == 1:
            kill(executor)

    monkeypatch.setattr(executor, "start", start_and_kill_after_both)
    driver.run()
    assert world.outcomes == {0: "failed", 1: "failed", 2: "done", 3: "done"}
    assert world.reasons[0] == "the process that ran it was ended by SIGKILL"
    assert executor.deaths == 1
    assert executor.process_id != before


def test_a_request_that_lost_its_beginning_fails_when_it_goes_on(
    world: World, executor: ProcessExecutor
) -> None:
    clock = WallClock()
    executor.connect(clock.post, clock)
    executor.prepare("slow", world.device.cores[:1])
    request = world.request(0, "slow")
    run = world.engine("fcfs").handle([Arrive(request)], clock.now())[0].run
    executor.start(run)
    (first,) = clock.wait(clock.now() + LIMIT_S)
    executor.stop(run, How.DRAIN)  # amid the second block, which takes long enough for that
    (second,) = clock.wait(clock.now() + LIMIT_S)
    assert isinstance(first, SafePoint)
    assert isinstance(second, SafePoint)
    assert (first.stopped, second.stopped, second.end_block) == (False, True, 2)
    kill(executor)
    wait_for_deaths(executor, 1)
    run.blocks = range(second.end_block, 4)
    executor.start(run)
    lost = Failed(run.id, "request 0: what its earlier blocks made is lost")
    assert clock.wait(clock.now() + LIMIT_S) == [lost]


def test_stops_and_kills_reach_it(world: World, executor: ProcessExecutor) -> None:
    clock = WallClock()
    executor.connect(clock.post, clock)
    run = world.engine("fcfs").handle([Arrive(world.request(0, "stuck"))], clock.now())[0].run
    executor.start(run)
    (first,) = clock.wait(None)
    executor.stop(run, How.KILL)
    (last,) = clock.wait(None)
    assert isinstance(first, SafePoint)
    assert isinstance(last, SafePoint)
    assert (last.first_block, last.stopped, last.lost) == (1, True, True)
    assert last.start_s == first.end_s
    assert 0.0 < first.start_s < last.end_s <= clock.now()  # type: ignore[operator]


def test_a_client_may_cancel_there(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor = ProcessExecutor(NullLanes(BLOCKS, [[0]]))
    clock = WallClock()
    driver = world.driver("fcfs", [world.request(0, "long"), world.request(1)], executor, clock)
    threading.Timer(0.0, clock.post, [Cancel(1)]).start()
    driver.run()
    executor.close()
    assert world.outcomes[0] == "done"
    assert world.outcomes[1] in ("cancelled", "done")  # whichever came first


def test_a_process_that_hangs_is_ended(make_world: Any) -> None:
    world = make_world(1, BLOCKS)
    executor = ProcessExecutor(NullLanes(BLOCKS, [[0]]), hang_s=0.4)
    executor.prepare("short", world.device.cores)
    world.driver("fcfs", [world.request(0, "stuck"), world.request(1)], executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "failed", 1: "done"}
    assert world.reasons[0] == "no block ended for 0.4 s, so its process was ended"


def test_a_refusal_there_is_a_refusal_here(executor: ProcessExecutor) -> None:
    with pytest.raises(HeadwayError, match=r"no block times for 'x'"):
        executor.prepare("x", [Core.lane(0, 1)])
    with pytest.raises(HeadwayError, match=r"has no processors"):
        ProcessExecutor(NullLanes(BLOCKS, [[]]))


def test_a_process_that_dies_at_every_start_is_given_up(
    world: World, executor: ProcessExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    executor._make = int  # type: ignore[assignment]  # int(None, None) raises
    clock = WallClock()
    executor.connect(clock.post, clock)
    run = world.engine("fcfs").handle([Arrive(world.request(0))], clock.now())[0].run
    kill(executor)
    wait_for_deaths(executor, MOST_FAILED_STARTS)
    executor.start(run)
    assert clock.wait(None) == [Failed(run.id, "the lanes' process does not start any more")]
    with pytest.raises(HeadwayError, match="does not start any more"):
        executor.prepare("short", world.device.cores[:1])
    assert "TypeError" in capfd.readouterr().err


def test_nothing_is_left_behind() -> None:
    executor = ProcessExecutor(NullLanes(BLOCKS, [[0]]))
    folder, process = Path(executor._folder.name), executor._process
    assert folder.is_dir()
    executor.close()
    assert not folder.exists()
    assert process.returncode == 0


_KILLED = """
import os, signal
from headway.live.executors.makers import NullLanes
from headway.live.executors.process import ProcessExecutor
executor = ProcessExecutor(NullLanes({"m": (0.0,)}, [[0]]))
print(executor._folder.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_behind_by_one_that_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    deadline = time.monotonic() + 30.0
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder.exists()


def test_what_was_shared_goes_with_who_can_hear_no_more(tmp_path: Path) -> None:
    """The pipe of one that is killed closes before it stops being the parent."""
    folder = tmp_path / "shared"
    folder.mkdir()
    ours, theirs = socket.socketpair()
    program = "from headway.live.executors.child import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    connection = Connection(ours.detach())
    connection.send((NullLanes(BLOCKS, [[0]]), str(folder), 0, False, False))
    assert connection.poll(LIMIT_S)
    assert connection.recv() == ("ready", None)
    connection.close()
    assert process.wait(LIMIT_S) == 0
    assert not folder.exists()


def test_ctrl_c_does_not_reach_it(executor: ProcessExecutor) -> None:
    """A terminal sends it to all processes of a group."""
    assert os.getpgid(executor.process_id) != os.getpgid(0)


# --- tensors ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared() -> PreparedModel:
    return prepare(zoo.build("squeezenet", image_size=64, seed=1), dims={})


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "replayed"])
def test_outputs_are_the_models_own(make_world: Any, prepared: PreparedModel, sent: bool) -> None:
    positions = [cut.position for cut in prepared.cuts]
    chain = split(prepared, positions[:: len(positions) // 4][1:4])
    world = make_world(len(LANES), {"m": (1e-3,) * len(chain.blocks)})
    results: dict[int, Any] = {}
    samples = {id: prepared.sample(seed=id if sent else 0) for id in range(6)}
    executor = ProcessExecutor(
        OnnxRuntimeLanes({"m": chain}, LANES, replay=None if sent else ReplayInputs({"m": samples[0]})),
        inputs=(lambda request: samples[request.id]) if sent else None,
        on_result=lambda request, outputs: results.__setitem__(request.id, outputs),
    )
    executor.prepare("m", world.device.cores[:1])
    world.driver(
        "fcfs", [world.request(id, "m", at=1e-3 * id) for id in samples], executor, WallClock()
    ).run()
    executor.close()
    assert set(world.outcomes.values()) == {"done"}
    for id, sample in samples.items():
        expected = chain.run(sample)
        assert results[id].keys() == expected.keys()
        assert all(np.array_equal(results[id][name], value) for name, value in expected.items())


def test_inputs_that_cannot_be_made_fail_their_request_only(make_world: Any, prepared: PreparedModel) -> None:
    world = make_world(1, {"m": (1e-3,)})

    def inputs(request: Any) -> Any:
        return prepared.sample() if request.id else {}["missing"]

    executor = ProcessExecutor(OnnxRuntimeLanes({"m": split(prepared, ())}, LANES[:1]), inputs=inputs)
    world.driver("fcfs", [world.request(0, "m"), world.request(1, "m")], executor, WallClock()).run()
    executor.close()
    assert world.outcomes == {0: "failed", 1: "done"}
    assert world.reasons[0] == "its inputs: KeyError: 'missing'"


def test_lanes_without_inputs_are_refused() -> None:
    with pytest.raises(HeadwayError, match="need inputs"):
        ProcessExecutor(OnnxRuntimeLanes({}, LANES))


TENSORS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(7, dtype=np.int64),
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
    "empty": np.empty((0, 4), dtype=np.float16),
    "flags": np.array([True, False]),
    "strings": np.array(["a", "b"], dtype=object),
    "sequence": [np.ones(2)],
}


def test_tensors_come_over_as_they_are(tmp_path: Path) -> None:
    writer, reader = TensorWriter(tmp_path, "x"), TensorReader(tmp_path)
    read = reader.read(writer.write(TENSORS))
    assert read.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        if name == "sequence":
            assert np.array_equal(read[name][0], value[0])
            continue
        assert np.array_equal(read[name], value)
        assert (read[name].dtype, read[name].shape) == (value.dtype, value.shape)


def test_files_are_reused_once_they_are_free(tmp_path: Path) -> None:
    writer, reader = TensorWriter(tmp_path, "x"), TensorReader(tmp_path)
    first = writer.write({"a": np.ones(1000)})
    second = writer.write({"a": np.full(1000, 2.0)})
    assert np.array_equal(reader.read(first)["a"], np.ones(1000))
    writer.free(first)
    third = writer.write({"a": np.full(10, 3.0)})
    assert third.file == first.file != second.file
    assert np.array_equal(reader.read(third)["a"], np.full(10, 3.0))
    assert np.array_equal(reader.read(second)["a"], np.full(1000, 2.0))
    writer.free(second)
    larger = writer.write({"a": np.zeros(2000)})
    assert larger.file not in (first.file, second.file)
    assert len(list(tmp_path.iterdir())) == 3


def test_no_tensors_need_no_file(tmp_path: Path) -> None:
    writer, reader = TensorWriter(tmp_path, "x"), TensorReader(tmp_path)
    ticket = writer.write({})
    assert reader.read(ticket) == {}
    writer.free(ticket)
    assert list(tmp_path.iterdir()) == []
