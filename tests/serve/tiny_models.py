"""ONNX models that take no time to load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS = 10
IDS = 4


def lookup(scale: float = 1.0) -> onnx.ModelProto:
    """Adds up `IDS` rows of a table: output y[j] is scale x the sum of 100 i + j over the ids i."""
    table = np.arange(ROWS, dtype=np.float32)[:, None] * 100 + np.arange(8, dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0),
        helper.make_node("ReduceSum", ["rows", "axes"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [IDS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])],
        [
            numpy_helper.from_array(table * np.float32(scale), "table"),
            numpy_helper.from_array(np.array([0], np.int64), "axes"),
        ],
    )
    return _model(graph)


def expected(ids: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return np.float32(scale) * (100.0 * ids.sum() + IDS * np.arange(8)).astype(np.float32)


def exclaim() -> onnx.ModelProto:
    """Texts with an exclamation mark."""
    graph = helper.make_graph(
        [helper.make_node("StringConcat", ["x", "mark"], ["y"])],
        "exclaim",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
        [helper.make_tensor("mark", TensorProto.STRING, [1], [b"!"])],
    )
    return _model(graph, 20)


def spin() -> onnx.ModelProto:
    """Adds 1 to 0 `n` times, which takes as long as a client wants."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes_on"]),
            helper.make_node("Add", ["before", "one"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, [1]),
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Squeeze", ["n"], ["count"]),
            helper.make_node("Loop", ["count", "always", "zero"], ["y"], body=body),
        ],
        "spin",
        [helper.make_tensor_value_info("n", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [
            numpy_helper.from_array(np.array(True), "always"),
            numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
            numpy_helper.from_array(np.ones(1, np.float32), "one"),
        ],
    )
    return _model(graph)


def put(root: Path, name: str, version: int, model: onnx.ModelProto | bytes) -> Path:
    """Lay a model into a repository."""
    folder = root / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    content = model if isinstance(model, bytes) else model.SerializeToString()
    (folder / "model.onnx").write_bytes(content)
    return root / name


def _model(graph: onnx.GraphProto, opset: int = 17) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
