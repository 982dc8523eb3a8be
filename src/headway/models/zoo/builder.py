"""A small builder of ONNX graphs that knows every tensor's shape as it goes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from headway.core.errors import HeadwayError
from headway.models.zoo.tensor import FLOAT, Tensor

OPSET = 17
IR_VERSION = 8
ABSENT_LOCATION = "absent"


class GraphBuilder:
    """Collects the nodes, parameters and shapes of one model; ``layers`` adds the usual operators to it.

    Names of parameters and nodes are prefixed by the scopes around them, so they say where they belong.
    """

    def __init__(self, model: str, *, seed: int = 0, weights: bool = True) -> None:
        self._model = model
        self._seed = seed
        self._weights = weights
        self._scopes: list[str] = []
        self._counts: Counter[str] = Counter()
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._values: list[Tensor] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._parameters: list[TensorProto] = []

    # ---- the graph itself

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of everything added inside."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def error(self, message: str) -> HeadwayError:
        """A user's mistake found while building, told with the model and the place in it."""
        place = f", at {'.'.join(self._scopes)}" if self._scopes else ""
        return HeadwayError(f"zoo model {self._model!r}{place}: {message}")

    def input(self, name: str, shape: tuple[int, ...], dtype: int = FLOAT) -> Tensor:
        """Declare an input of the model."""
        tensor = Tensor(name, shape, dtype)
        self._inputs.append(tensor)
        return tensor

    def output(self, x: Tensor, name: str) -> None:
        """Declare ``x``, which a node made, as the output ``name`` of the model."""
        for node in self._nodes:
            for names in (node.input, node.output):
                if x.name in names:
                    names[:] = [name if old == x.name else old for old in names]
        self._values = [value for value in self._values if value.name != x.name]
        self._outputs.append(Tensor(name, x.shape, x.dtype))

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor],
        shape: tuple[int, ...],
        *,
        dtype: int | None = None,
        name: str | None = None,
        **attributes: object,
    ) -> Tensor:
        """Add a node with one output of the given shape; its type is the first input's unless given."""
        made = dtype if dtype is not None else inputs[0].dtype
        return self.node_with_outputs(op, inputs, (shape,), dtype=made, name=name, **attributes)[0]

    def node_with_outputs(
        self,
        op: str,
        inputs: Sequence[Tensor],
        shapes: Sequence[tuple[int, ...]],
        *,
        dtype: int = FLOAT,
        name: str | None = None,
        **attributes: object,
    ) -> tuple[Tensor, ...]:
        """Add a node with one output per shape."""
        node_name = self._unique(name if name is not None else op)
        suffixes = [""] if len(shapes) == 1 else [f"_{index}" for index in range(len(shapes))]
        outputs = tuple(
            Tensor(f"{node_name}_out{suffix}", shape, dtype)
            for suffix, shape in zip(suffixes, shapes, strict=True)
        )
        if any(size < 1 for tensor in outputs for size in tensor.shape):
            raise self.error(f"{op} of {inputs[0].shape} leaves no output; the input is too small")
        node = helper.make_node(
            op, [x.name for x in inputs], [tensor.name for tensor in outputs], name=node_name
        )
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        self._values.extend(outputs)
        return outputs

    def parameter(self, name: str, shape: tuple[int, ...], *, std: float, mean: float = 0.0) -> Tensor:
        """A float32 parameter, normally distributed; without data in a graph built without weights."""
        full_name = self._unique(name)
        proto = TensorProto(name=full_name, data_type=TensorProto.FLOAT, dims=shape)
        if self._weights:
            values = _generator(self._seed, full_name).standard_normal(shape, dtype=np.float32)
            values *= np.float32(std)
            if mean:
                values += np.float32(mean)
            proto.raw_data = values.astype("<f4", copy=False).tobytes()
        else:
            proto.data_location = TensorProto.EXTERNAL
            proto.external_data.add(key="location", value=ABSENT_LOCATION)
        self._parameters.append(proto)
        return Tensor(full_name, shape)

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> Tensor:
        """A fixed value as a Constant node; equal ones share a node."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            proto = numpy_helper.from_array(array, name=name)
            self._nodes.append(helper.make_node("Constant", [], [name], name=f"{name}_node", value=proto))
            self._constants[key] = Tensor(name, array.shape, proto.data_type)
            self._values.append(self._constants[key])
        return self._constants[key]

    def finish(self, doc: str) -> onnx.ModelProto:
        """The model, with the shapes of all its values recorded."""
        graph = helper.make_graph(
            self._nodes,
            self._model,
            [_value_info(tensor) for tensor in self._inputs],
            [_value_info(tensor) for tensor in self._outputs],
            value_info=[_value_info(tensor) for tensor in self._values],
        )
        model = helper.make_model(
            graph, producer_name="headway", doc_string=doc, opset_imports=[helper.make_opsetid("", OPSET)]
        )
        model.ir_version = IR_VERSION
        # Last, since making a graph or a model copies what it is made of.
        model.graph.initializer.extend(self._parameters)
        return model

    def _unique(self, name: str) -> str:
        full_name = ".".join([*self._scopes, name])
        self._counts[full_name] += 1
        count = self._counts[full_name]
        return full_name if count == 1 else f"{full_name}_{count}"


def _value_info(tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.dtype, tensor.shape)


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
