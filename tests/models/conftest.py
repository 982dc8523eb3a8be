"""Small ONNX models made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Node = onnx.NodeProto


class Models:
    """Builds small models: `models(nodes, inputs, outputs, weights)`."""

    float32 = TensorProto.FLOAT

    def __call__(
        self,
        nodes: Sequence[Node],
        inputs: dict[str, Sequence[int | str | None]],
        outputs: dict[str, Sequence[int | str | None] | None],
        weights: dict[str, Any] | None = None,
        *,
        opset: int = 17,
        ir_version: int = 8,
        functions: Sequence[onnx.FunctionProto] = (),
        domains: Sequence[str] = (),
        types: dict[str, int] | None = None,
    ) -> onnx.ModelProto:
        kinds = types or {}
        initialisers = [
            value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), name)
            for name, value in (weights or {}).items()
        ]
        graph = helper.make_graph(
            list(nodes),
            "small",
            [self.value(name, shape, kinds.get(name, TensorProto.FLOAT)) for name, shape in inputs.items()],
            [self.value(name, shape, kinds.get(name, TensorProto.FLOAT)) for name, shape in outputs.items()],
            initialisers,
        )
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=ir_version, functions=list(functions)
        )

    @staticmethod
    def value(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    @staticmethod
    def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Node:
        return helper.make_node(op, inputs, outputs, **attributes)

    @staticmethod
    def body(
        nodes: Sequence[Node], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))

    @staticmethod
    def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype=dtype)


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def single(models: Models) -> Callable[..., onnx.ModelProto]:
    """A model of one node: `single(op, inputs, weights, outputs=1, domain="", **attributes)`."""

    def build(
        op: str,
        inputs: dict[str, Sequence[int]],
        weights: dict[str, Any] | None = None,
        *,
        order: Sequence[str] | None = None,
        outputs: int = 1,
        opset: int = 17,
        domain: str = "",
        types: dict[str, int] | None = None,
        **attributes: Any,
    ) -> onnx.ModelProto:
        names = list(order) if order is not None else [*inputs, *(weights or {})]
        made = [f"y{number}" for number in range(outputs)]
        node = helper.make_node(op, names, made, domain=domain, **attributes)
        ir_version = 11 if opset >= 21 else 8
        return models(
            [node],
            inputs,
            dict.fromkeys(made),
            weights,
            opset=opset,
            ir_version=ir_version,
            domains=[domain] if domain else [],
            types=types,
        )

    return build
