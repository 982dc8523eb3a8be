"""Symbolic dimensions: given, defaulted and said, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from headway.core.errors import HeadwayError
from headway.models import load_model


def bound(models: Any, shape: list[int | str | None], dims: dict[str, int] | None = None) -> Any:
    return load_model(models([models.node("Relu", ["x"], ["y"])], {"x": shape}, {"y": None}), dims=dims)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (["batch", 3, "height", "width"], (1, 3, 224, 224)),
        (["N", "seq_len"], (1, 128)),
        (["batch_size", "sequence_length", 8], (1, 128, 8)),
        ([None, 3, None, None], (1, 3, 224, 224)),
        ([None, None, None, None], (1, 3, 224, 224)),
        (["T", 1, 4], (128, 1, 4)),
        (["anything", 7], (1, 7)),
    ],
)
def test_defaults_follow_names_and_places(
    models: Any, shape: list[int | str | None], expected: tuple[int, ...]
) -> None:
    graph = bound(models, shape)
    assert graph.inputs["x"] == expected
    assert set(graph.dims_assumed) == set(graph.dims_bound)
    assert graph.dims_assumed
    for name in graph.dims_assumed:
        assert f"{name}={graph.dims_bound[name]}" in graph.warnings[0]


def test_integer_inputs_take_a_sequence_length(models: Any) -> None:
    nodes = [models.node("Gather", ["table", "ids"], ["y"])]
    model = models(
        nodes,
        {"ids": [None, None]},
        {"y": None},
        {"table": models.zeros(50, 4)},
        types={"ids": TensorProto.INT64},
    )
    assert load_model(model).inputs["ids"] == (1, 128)


def test_given_sizes_are_taken_and_not_called_assumed(models: Any) -> None:
    graph = bound(models, ["batch", None], {"batch": 4, "x.1": 9})
    assert graph.inputs["x"] == (4, 9)
    assert graph.dims_bound == {"batch": 4, "x.1": 9}
    assert graph.dims_assumed == ()
    assert graph.warnings == ()


def test_a_named_dimension_answers_to_its_place_too(models: Any) -> None:
    assert bound(models, ["batch", 3], {"x.0": 4}).dims_bound == {"batch": 4}


def test_one_name_is_one_size_everywhere(models: Any) -> None:
    nodes = [models.node("Add", ["a", "b"], ["y"])]
    graph = load_model(models(nodes, {"a": ["n", "m"], "b": ["n", "m"]}, {"y": None}), dims={"m": 5, "n": 2})
    assert graph.inputs == {"a": (2, 5), "b": (2, 5)}


def test_a_question_mark_is_no_name(models: Any) -> None:
    """As Paddle's exporter writes it, for sizes that have nothing to do with each other."""
    assert bound(models, [1, 3, "?", "?"], {"x.2": 48, "x.3": 320}).inputs["x"] == (1, 3, 48, 320)


def test_sums_of_bound_names_follow(models: Any) -> None:
    nodes = [models.node("Neg", ["a"], ["c"]), models.node("Neg", ["b"], ["d"])]
    shapes = {"a": ["past", "step"], "b": ["past + step", 4]}
    graph = load_model(models(nodes, shapes, {"c": None, "d": None}), dims={"past": 10, "step": 2})
    assert graph.inputs["b"] == (12, 4)
    assert graph.dims_assumed == ()


def test_channels_of_a_convolution_come_from_its_weight(models: Any) -> None:
    nodes = [models.node("Conv", ["x", "w"], ["y"])]
    graph = load_model(models(nodes, {"x": [None] * 4}, {"y": None}, {"w": models.zeros(2, 5, 3, 3)}))
    assert graph.inputs["x"] == (1, 5, 224, 224)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"bacth": 4}, "no symbolic dimension 'bacth'; the file has batch, x.1"),
        ({"batch": 0}, "from 1 on"),
        ({"x.2": 4}, "fixed at 3"),
        ({"batch": 4, "x.0": 5}, "given as 4 and as 5"),
    ],
)
def test_impossible_sizes_are_refused(models: Any, dims: dict[str, int], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        bound(models, ["batch", None, 3], dims)


def test_a_fixed_size_may_be_confirmed(models: Any) -> None:
    assert bound(models, [2, 3], {"x.0": 2}).inputs["x"] == (2, 3)


def test_a_batch_baked_into_the_model_is_named(models: Any) -> None:
    nodes = [models.node("Reshape", ["x", "s"], ["y"], name="fold")]
    model = models(nodes, {"x": ["N", 4]}, {"y": None}, {"s": np.array([1, 2, 2])})
    assert load_model(model).outputs["y"] == (1, 2, 2)
    with pytest.raises(HeadwayError, match=r"'fold' .*8 elements.*4 elements"):
        load_model(model, dims={"N": 2})
