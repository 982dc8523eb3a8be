"""A graph at another operand width."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto

from headway.core.errors import HeadwayError
from headway.models import Graph, at_width, load_model


@pytest.fixture
def embedded(models: Any) -> Graph:
    nodes = [models.node("Gather", ["table", "ids"], ["e"]), models.node("MatMul", ["e", "w"], ["y"])]
    weights = {"table": models.zeros(50, 8), "w": models.zeros(8, 4)}
    return load_model(models(nodes, {"ids": [1, 6]}, {"y": None}, weights, types={"ids": TensorProto.INT64}))


@pytest.mark.parametrize("width", [0.5, 1, 2, 4])
def test_float_tensors_narrow_and_integers_stay(embedded: Graph, width: float) -> None:
    graph = at_width(embedded, width)
    gather, product = graph.layers
    assert gather.operands[0].bytes == 48
    assert gather.output_bytes == product.operands[0].bytes == 48 * width
    assert product.weight_bytes == 32 * width
    assert product.output_bytes == 24 * width
    assert graph.weight_bytes == (400 + 32) * width
    assert (graph.macs, graph.params) == (embedded.macs, embedded.params)
    assert graph.precision != embedded.precision


def test_what_is_narrower_already_stays(embedded: Graph) -> None:
    assert at_width(embedded, 8).layers == embedded.layers


def test_other_widths_are_refused(embedded: Graph) -> None:
    with pytest.raises(HeadwayError, match=r"0\.5, 1, 2, 4 and 8"):
        at_width(embedded, 3)


def test_a_graph_is_narrowed_once(embedded: Graph) -> None:
    narrow = at_width(embedded, 1)
    assert at_width(narrow, 1) == narrow
    with pytest.raises(HeadwayError, match="brought to 8-bit operands; for 16-bit"):
        at_width(narrow, 2)
