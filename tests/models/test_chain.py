"""Running a chain of blocks: sessions, buffers, several requests, cancelling, memory."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from headway.core.errors import HeadwayError
from headway.models.boundary_buffers import plan_buffers
from headway.models.prepared import prepare
from headway.models.recomposition import recompose
from headway.models.split import split
from headway.models.value_types import parse_type

# pytest's importlib mode does not let tests import their neighbours.
_SPEC = importlib.util.spec_from_file_location(
    "cuttable_graphs", Path(__file__).with_name("cuttable_graphs.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
cuttable = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cuttable)


def test_blocks_are_files_that_run_by_themselves() -> None:
    chain = split(cuttable.wide_products(2, 64), cuts=[1])
    first, second = (
        onnxruntime.InferenceSession(str(block.path), providers=["CPUExecutionProvider"])
        for block in chain.blocks
    )
    x = np.ones((8, 64), dtype=np.float32)
    (between,) = first.run(None, {chain.blocks[0].request_inputs[0]: x})
    (y,) = second.run(None, {chain.blocks[1].inputs[0]: between})
    assert np.array_equal(y, chain.run({"t0": x})["t2"])


def test_bytes_across_and_alive_are_those_of_the_cut() -> None:
    chain = split(cuttable.outputs_inside_and_skips(), [2], optimise=False)
    first = chain.blocks[0]
    assert first.crossing_bytes == 2 * 16  # a and b
    assert first.live_bytes == 3 * 16  # and x
    assert chain.blocks[1].crossing_bytes == 0


def test_requests_side_by_side_do_not_mix_and_buffers_are_used_again() -> None:
    chain = split(cuttable.chain_of(4), cuts=[1, 2, 3], optimise=False)
    sessions = chain.open()
    a, b = (np.full((1, 4), value, dtype=np.float32) for value in (0.5, -2.0))
    one, other = chain.bind({"t0": a}), chain.bind({"t0": b})
    for index in range(4):
        sessions.run_block(index, one)
        sessions.run_block(index, other)
    expected = [np.tanh(np.tanh(np.tanh(np.tanh(value)))) for value in (a, b)]
    assert np.allclose(chain.finish(one)["t4"], expected[0])
    results = chain.finish(other)["t4"]
    assert np.allclose(results, expected[1])
    assert chain.bind({"t0": a}) in (one, other)
    sessions.run(chain.bind({"t0": a}))
    assert np.allclose(results, expected[1]), "results must outlive the buffers"


def test_large_results_are_handed_over_and_the_next_request_has_memory_of_its_own() -> None:
    width = 70_000  # more than 256 KiB
    chain = split(cuttable.chain_of(3, width), cuts=[1, 2], optimise=False)
    narrow, wide = chain.open(), chain.open(threads=2)
    results = []
    for turn, value in enumerate((0.5, -2.0, 1.0)):
        buffers = chain.bind({"t0": np.full((1, width), value, dtype=np.float32)})
        made = buffers.array("t3")
        for index in range(3):
            (wide if (turn + index) % 2 else narrow).run_block(index, buffers)
        result = chain.finish(buffers)["t3"]
        assert np.shares_memory(result, made), "the result was copied"
        results.append((np.tanh(np.tanh(np.tanh(np.float32(value)))), result))
    for expected, result in results:
        assert np.allclose(result, expected), "a later request wrote over it"


def test_blocks_of_one_request_may_run_in_different_sets_of_sessions() -> None:
    prepared = prepare(cuttable.wide_products(4, 128))
    chain = split(prepared, [cut.position for cut in prepared.cuts])
    narrow, wide = chain.open(threads=1), chain.open(threads=2)
    x = np.ones((8, 128), dtype=np.float32)
    expected = chain.run({"t0": x})["t4"]
    buffers = chain.bind({"t0": x})
    for block in chain.blocks:
        (narrow, wide)[block.index % 2].run_block(block.index, buffers)
    assert np.allclose(chain.finish(buffers)["t4"], expected, atol=1e-5)
    narrow.close()
    wide.close()


def test_threads_may_run_blocks_at_once() -> None:
    chain = split(cuttable.wide_products(4, 256), cuts=[2, 4])
    sessions = chain.open()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((8, 256)).astype(np.float32) for _ in range(16)]
    expected = [chain.run({"t0": x})["t4"] for x in inputs]
    found: dict[int, np.ndarray] = {}

    def serve(first: int) -> None:
        for index in range(first, 16, 4):
            buffers = chain.bind({"t0": inputs[index]})
            sessions.run(buffers)
            found[index] = chain.finish(buffers)["t4"]

    threads = [threading.Thread(target=serve, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[index], expected[index]) for index in range(16))


def test_terminated_block_fails_that_request_only() -> None:
    chain = split(cuttable.chain_of(3), cuts=[1])
    sessions = chain.open()
    x = np.ones((1, 4), dtype=np.float32)
    buffers = chain.bind({"t0": x})
    options = onnxruntime.RunOptions()
    options.terminate = True
    with pytest.raises(HeadwayError, match=r"block 0 of 2.*terminate"):
        sessions.run_block(0, buffers, options)
    chain.release(buffers)
    again = chain.bind({"t0": x})
    assert again is buffers
    sessions.run(again, onnxruntime.RunOptions())
    assert np.allclose(chain.finish(again)["t3"], np.tanh(np.tanh(np.tanh(x))))


def test_weights_may_be_replaced_for_one_request() -> None:
    chain = split(cuttable.weights_that_may_be_replaced(), cuts=[1, 2])
    sessions = chain.open()
    x, twos = np.full((1, 4), 3, dtype=np.float32), np.full(4, 2, dtype=np.float32)

    def run(inputs: dict[str, Any]) -> np.ndarray:
        buffers = chain.bind(inputs)
        sessions.run(buffers)
        return chain.finish(buffers)["y"]

    own = run({"x": x})
    replaced = run({"x": x, "scale": twos})
    shift = numpy_helper.to_array(cuttable.weights_that_may_be_replaced().graph.initializer[1])
    assert np.allclose(replaced, 2 * (6 + shift))
    assert np.array_equal(run({"x": x}), own)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 't0' is missing"),
        ({"t0": np.ones((1, 4), dtype=np.float32), "u": 1}, "no input 'u'"),
        ({"t0": np.ones((1, 4))}, "float64; accepted: float32"),
        ({"t0": np.ones((1, 5), dtype=np.float32)}, r"\[1, 5\]; accepted: \[1, 4\]"),
        ({"t0": np.ones(4, dtype=np.float32)}, r"accepted: \[1, 4\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        split(cuttable.chain_of(2), cuts=[]).bind(inputs)


def test_inputs_in_any_memory_order_are_taken() -> None:
    chain = split(cuttable.wide_products(1, 16), cuts=[])
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32))
    x.setflags(write=False)
    assert np.array_equal(chain.run({"t0": x})["t1"], chain.run({"t0": np.ascontiguousarray(x)})["t1"])


def test_sizes_left_open_vary_from_request_to_request() -> None:
    chain = split(cuttable.sizes_computed_from_sizes(), cuts=[1, 3], optimise=False)
    for batch in (1, 4, 2):
        x = np.ones((batch, 6), dtype=np.float32)
        assert chain.run({"x": x})["y"].shape == (2 * batch, 3)


def test_weights_packed_for_kernels_are_shared_and_copies_are_measured() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not tell a process's private memory")
    weight_bytes = 4 * 4 * 1024**2
    shared = split(cuttable.wide_products(), cuts=[2, 4])
    first, second = shared.open(), shared.open()
    copies = split(cuttable.wide_products(), cuts=[2, 4], optimise=False).open()
    assert first.private_bytes is not None
    assert second.private_bytes is not None
    assert copies.private_bytes is not None
    assert first.private_bytes + second.private_bytes < 0.25 * weight_bytes
    assert copies.private_bytes > 0.75 * weight_bytes


def test_chain_can_be_sent_to_another_process() -> None:
    chain = split(cuttable.wide_products(2, 64), cuts=[1, 2])
    x = np.ones((8, 64), dtype=np.float32)
    expected = chain.run({"t0": x})["t2"]
    child = (
        "import pickle, sys, numpy\n"
        "chain, x = pickle.load(sys.stdin.buffer)\n"
        "sys.stdout.buffer.write(pickle.dumps(chain.run({'t0': x})['t2']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", child], input=pickle.dumps((chain, x)), capture_output=True, check=True
    )
    assert np.array_equal(pickle.loads(done.stdout), expected)
    assert chain.blocks[0].path.exists(), "the copy does not own the files"


def test_files_go_when_the_chain_goes() -> None:
    chain = split(cuttable.chain_of(2), cuts=[1])
    folder = chain.workspace.folder
    assert folder.exists()
    del chain
    assert not folder.exists()


def test_buffers_share_memory_only_where_lives_do_not_meet() -> None:
    kinds = [parse_type("tensor(float)", [elements]) for elements in (64, 32, 64, 16)]
    lives = [("a", kinds[0], 0, 1), ("b", kinds[1], 1, 2), ("c", kinds[2], 2, 3), ("d", kinds[3], 0, 3)]
    plan = plan_buffers(lives)
    place = {slot.name: slot for slot in plan.slots}
    assert place["a"].offset == place["c"].offset  # a is done with when c is made
    for one in plan.slots:
        for other in plan.slots:
            meet = one.made_in <= other.last_used_in and other.made_in <= one.last_used_in
            apart = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            assert one is other or apart or not meet
    assert plan.total_bytes == 256 + 128 + 64


def test_forked_child_leaves_the_files_to_its_parent() -> None:
    script = (
        "import os, sys\n"
        "from headway.models.weight_store import Workspace\n"
        "workspace = Workspace()\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "there = workspace.folder.exists()\n"
        "workspace.close()\n"
        "print(there, workspace.folder.exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_chain_outlives_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    onnx.save_model(cuttable.chain_of(3), "m.onnx")
    chain = split("m.onnx", cuts=[1])
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert recompose(chain).bit_equal


def test_output_of_a_type_that_python_lacks_is_fetched_where_its_size_is_fixed() -> None:
    import ml_dtypes

    half = cuttable.TensorProto.BFLOAT16
    nodes = [
        cuttable.node("Cast", ["x"], ["a"], to=cuttable.FLOAT),
        cuttable.node("Tanh", ["a"], ["b"]),
        cuttable.node("Cast", ["b"], ["y"], to=half),
    ]
    x = np.full((1, 4), 0.5, dtype=ml_dtypes.bfloat16)
    for size in (4, "n"):
        ends = cuttable.info("x", [1, size], half), cuttable.info("y", [1, size], half)
        chain = split(cuttable.model(nodes, ends[:1], ends[1:]), cuts=[1])
        assert "bfloat16" in recompose(chain, {"x": x}).skipped
        if size == 4:
            y = chain.run({"x": x})["y"]
            assert np.allclose(y.astype(np.float32), np.tanh(0.5), atol=4e-3)
        else:
            with pytest.raises(HeadwayError, match="'y' cannot be fetched"):
                chain.run({"x": x})
