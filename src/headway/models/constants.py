"""Constants of a model: initialisers and Constant nodes, their values for shapes, and what they weigh."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from headway.models.dtypes import bytes_of, dtype_name
from headway.models.inference import MAX_FOLDED_ELEMENTS, evaluate
from headway.models.operators import Node, Work
from headway.models.tensors import Tensor

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, NodeProto, TensorProto


@dataclass(frozen=True, slots=True)
class Root:
    """A constant that layers read. It counts as a weight unless it is a single number in a Constant node."""

    elements: int
    bytes: int
    dtype: str
    counted: bool


def initialiser_tensor(
    proto: TensorProto, root: str, folder: str, roots: MutableMapping[str, Root], counted: bool = True
) -> Tensor:
    """A constant for an initialiser; its value is read when a shape needs it, and only if it is small."""
    from onnx import TensorProto, numpy_helper

    shape = tuple(proto.dims)
    dtype = dtype_name(proto.data_type)
    roots[root] = Root(prod(shape), bytes_of(prod(shape), dtype), dtype, counted)

    def read() -> np.ndarray | None:
        external = proto.data_location == TensorProto.EXTERNAL
        if prod(shape) > MAX_FOLDED_ELEMENTS or (external and not folder):
            return None
        try:
            return numpy_helper.to_array(proto, folder)
        except Exception:
            # Absent or short data: the graph is still good for its shapes.
            return None

    return Tensor(name=proto.name, dtype=dtype, shape=shape, constant=True, roots=(root,), read_value=read)


def initialisers(
    graph: GraphProto, prefix: str, folder: str, roots: MutableMapping[str, Root]
) -> dict[str, Tensor]:
    """All initialisers of a graph by name, sparse ones as the dense tensors that nodes see."""
    own = {
        proto.name: initialiser_tensor(proto, prefix + proto.name, folder, roots)
        for proto in graph.initializer
    }
    for sparse in graph.sparse_initializer:
        name, stored = sparse.values.name, prod(sparse.values.dims)
        dtype = dtype_name(sparse.values.data_type)
        size = bytes_of(stored, dtype) + bytes_of(prod(sparse.indices.dims), "int64")
        roots[prefix + name] = Root(stored, size, dtype, True)
        own[name] = Tensor(name, dtype, tuple(sparse.dims), constant=True, roots=(prefix + name,))
    return own


def constant_tensor(
    proto: NodeProto, version: int, prefix: str, folder: str, roots: MutableMapping[str, Root]
) -> Tensor | None:
    """What a Constant node gives, or None if it cannot be read. A single number is no weight."""
    from onnx import AttributeProto, numpy_helper

    name = proto.output[0]
    if proto.attribute and proto.attribute[0].type == AttributeProto.TENSOR:
        stored = proto.attribute[0].t
    else:
        made = evaluate(proto, [], version)
        if made is None:
            return None
        stored = numpy_helper.from_array(made[0])
    tensor = initialiser_tensor(stored, prefix + name, folder, roots, counted=prod(stored.dims) > 1)
    tensor.name = name
    return tensor


def inherited_roots(proto: NodeProto, inputs: Sequence[Tensor | None]) -> tuple[str, ...]:
    """Weights that a constant result stands for: not the shapes, axes and scales that led to it."""
    quantised = proto.op_type in ("QuantizeLinear", "DequantizeLinear")
    return tuple(
        dict.fromkeys(
            root
            for position, tensor in enumerate(inputs)
            if tensor is not None and (position == 0 or not (quantised or tensor.dtype == "int64"))
            for root in tensor.roots
        )
    )


def weight_roots(node: Node, work: Work) -> list[str]:
    """Initialisers that a node reads as data, each once.

    Left out are its settings, and integers and flags after the first input: those steer a node
    (indices, sizes, masks) rather than weigh.
    """
    return list(
        dict.fromkeys(
            root
            for position, tensor in enumerate(node.inputs)
            if tensor is not None and tensor.constant and position not in work.settings
            if position == 0 or tensor.dtype not in ("int64", "bool")
            for root in tensor.roots
        )
    )
