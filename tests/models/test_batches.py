"""Requests together in one run of a split model give what each gives alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from headway.core.errors import HeadwayError
from headway.models import zoo
from headway.models.batch_axis import batch_axes, batch_sizes, with_open_batch
from headway.models.prepared import PreparedModel, prepare
from headway.models.split import split

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolutions(models: Any, batch: int | str = "batch") -> onnx.ModelProto:
    """Two convolutions, a mask that all share, and a sum over places."""
    node = models.node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        node("Mul", ["c", "mask"], ["d"]),
        node("Relu", ["d"], ["e"]),
        node("ReduceMean", ["e"], ["y"], axes=[2, 3], keepdims=0),
    ]
    named = {"w1": weights(8, 3, 3, 3), "w2": weights(8, 8, 3, 3), "mask": weights(1, 8, 1, 1)}
    return models(nodes, {"x": (batch, 3, 10, 10)}, {"y": (batch, 8)}, named)


def folded(models: Any) -> onnx.ModelProto:
    """Its batch is a constant of a Reshape, though its input says that it is open."""
    node = models.node
    nodes = [node("Reshape", ["x", "shape"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    named = {"shape": np.array([1, 12], np.int64), "w": weights(12, 4)}
    return models(nodes, {"x": ("batch", 3, 4)}, {"y": (None, 4)}, named)


def mixing(models: Any) -> onnx.ModelProto:
    """Runs with any batch, but each row depends on all others."""
    node = models.node
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[0]), node("Sub", ["x", "mean"], ["y"])]
    return models(nodes, {"x": ("batch", 4)}, {"y": ("batch", 4)})


def transposed(models: Any) -> onnx.ModelProto:
    """The batch is the second axis in the middle, where a batch may not be cut."""
    node = models.node
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[1, 0, 2]),
        node("Softmax", ["b"], ["c"], axis=0),
        node("Transpose", ["c"], ["d"], perm=[1, 0, 2]),
        node("MatMul", ["d", "w"], ["y"]),
    ]
    return models(nodes, {"x": ("batch", 5, 4)}, {"y": ("batch", 5, 4)}, {"w": weights(4, 4)})


def requests(prepared: PreparedModel, count: int) -> list[dict[str, Any]]:
    return [prepared.sample(seed=seed) for seed in range(count)]


def close(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert one[name].shape == other[name].shape
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_batch_gives_what_its_requests_give_alone(models: Any, size: int) -> None:
    prepared = prepare(convolutions(models), dims={}, batches=True)
    chain = split(prepared, [cut.position for cut in prepared.cuts])
    assert len(chain.blocks) > 2
    inputs = requests(prepared, size)
    alone = [chain.run(each) for each in inputs]
    close(alone, [split(prepare(convolutions(models), dims={}), ()).run(each) for each in inputs])
    sessions = chain.open()
    buffers = chain.bind_batch(inputs)
    sessions.run(buffers)
    close(chain.finish_batch(buffers, size), alone)
    sessions.close()


def test_requests_part_ways_and_join_others_at_any_cut(models: Any) -> None:
    prepared = prepare(convolutions(models), dims={}, batches=True)
    chain = split(prepared, [cut.position for cut in prepared.cuts])
    inputs = requests(prepared, 3)
    expected = [chain.run(each) for each in inputs]
    sessions = chain.open()
    for block in range(1, len(chain.blocks)):
        pair, single = chain.bind_batch(inputs[:2]), chain.bind(inputs[2])
        for at in range(block):
            sessions.run_block(at, pair)
            sessions.run_block(at, single)
        joint = chain.regroup(block, [inputs[2], inputs[0]], [(single, 0), (pair, 0)])
        left = chain.regroup(block, [inputs[1]], [(pair, 1)])
        for at in range(block, len(chain.blocks)):
            sessions.run_block(at, joint)
            sessions.run_block(at, left)
        close(chain.finish_batch(joint, 2), [expected[2], expected[0]])
        close([chain.finish(left)], [expected[1]])
    sessions.close()


def test_outputs_of_a_batch_are_not_changed_by_the_next_one(models: Any) -> None:
    prepared = prepare(convolutions(models), dims={}, batches=True)
    chain = split(prepared, ())
    sessions = chain.open()
    inputs = requests(prepared, 4)
    first = chain.bind_batch(inputs[:2])
    sessions.run(first)
    results = chain.finish_batch(first, 2)
    kept = results[0]["y"].copy()
    second = chain.bind_batch(inputs[2:])
    assert second is first  # its buffers are used again
    sessions.run(second)
    chain.finish_batch(second, 2)
    np.testing.assert_array_equal(results[0]["y"], kept)
    sessions.close()


@pytest.mark.parametrize(
    ("build", "cause"),
    [
        (lambda models: convolutions(models, 1), "first dimension of 1"),
        (folded, "not what it is of each alone|do not run together"),
        (mixing, "not what it is of each alone"),
    ],
)
def test_a_model_that_cannot_is_refused(models: Any, build: Any, cause: str) -> None:
    with pytest.raises(HeadwayError, match=cause):
        prepare(build(models), dims={}, batches=True)


def test_dims_that_fix_the_batch_are_refused(models: Any) -> None:
    with pytest.raises(HeadwayError, match="dims fixes 'batch'"):
        prepare(convolutions(models), dims={"batch": 1}, batches=True)


def test_a_batch_is_not_cut_where_its_requests_do_not_lie_one_after_the_other(models: Any) -> None:
    model = transposed(models)
    every = prepare(model, dims={}, optimise=False).cuts
    some = prepare(model, dims={}, optimise=False, batches=True).cuts
    assert {cut.tensors for cut in every} - {cut.tensors for cut in some} == {("b",), ("c",)}


@pytest.mark.parametrize("name", ["kws_res8", "squeezenet"])
def test_the_zoo_opens_where_its_batch_is_in_no_constant(name: str) -> None:
    prepared = prepare(with_open_batch(zoo.build(name)), dims={}, batches=True)
    chain = split(prepared, ())
    inputs = requests(prepared, 2)
    sessions = chain.open()
    buffers = chain.bind_batch(inputs)
    sessions.run(buffers)
    close(chain.finish_batch(buffers, 2), [chain.run(each) for each in inputs])
    sessions.close()


def test_sizes_that_are_priced_and_axes() -> None:
    assert batch_sizes(8) == (2, 4, 8)
    assert batch_sizes(6) == (2, 4, 6)
    assert batch_sizes(2) == (2,)
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])
    assert batch_axes([value], {}, "m") == ("x.0",)
