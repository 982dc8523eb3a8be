"""A model's nodes in an order in which they can run, with what each one reads and makes.

This is what cutting works on. Constant nodes have become initialisers, nodes that lead nowhere are gone, and
nodes are known by their place, since names may be missing or given twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.models.node_order import bodies_of, live_nodes, names_read, node_label, sorted_nodes

if TYPE_CHECKING:
    from onnx import (
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        ValueInfoProto,
    )

_OVERRIDABLE_SINCE_IR: Final = 4
_CONSTANT_ATTRIBUTES: Final = frozenset(
    {"value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"}
)
_RANDOM_OPS: Final = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


@dataclass(frozen=True, eq=False)
class OrderedGraph:
    """Nodes in topological order, and the names around them.

    `inputs` are what a request must bring; `overridable` are initialisers that it may replace (listed among
    the graph's inputs, IR version 4 on). `listed` are all that the file lists as inputs, which IR versions
    below 4 demand of initialisers too. `outputs` are in the model's order, duplicates left out.
    """

    model: ModelProto
    nodes: tuple[NodeProto, ...]
    places: tuple[int, ...]  # of each node in the file
    reads: tuple[frozenset[str], ...]  # captures of bodies included
    makes: tuple[tuple[str, ...], ...]
    inputs: Mapping[str, ValueInfoProto]
    overridable: frozenset[str]
    listed: Mapping[str, ValueInfoProto]
    outputs: tuple[str, ...]
    initialisers: Mapping[str, TensorProto]
    sparse: Mapping[str, SparseTensorProto]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def made(self) -> frozenset[str]:
        """Names of all tensors that nodes make."""
        return frozenset(name for names in self.makes for name in names)

    @property
    def random_nodes(self) -> tuple[str, ...]:
        """Labels of the nodes that draw random numbers, themselves or in their bodies or functions."""
        functions = {(f.domain, f.name): f for f in self.model.functions}
        off = {name for name, tensor in self.initialisers.items() if _is_false(tensor)} - self.overridable
        return tuple(
            node_label(node, place)
            for node, place in zip(self.nodes, self.places, strict=True)
            if _draws(node, functions, off, 0)
        )


def ordered_graph(model: ModelProto, where: str) -> OrderedGraph:
    """Put a model's graph in order. The model is not changed; its protos are shared.

    Args:
        model: weights may be absent.
        where: how messages name the model.

    Raises:
        HeadwayError: a tensor made twice or nowhere, or one that depends on itself.
    """
    graph = model.graph
    initialisers = {tensor.name: tensor for tensor in graph.initializer}
    sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
    plain: list[tuple[int, NodeProto]] = []
    for index, node in enumerate(graph.node):
        constant = _constant(node)
        if constant is None:
            plain.append((index, node))
        elif constant.name in initialisers:
            raise HeadwayError(
                f"{where}: {node_label(node, index)} makes tensor {constant.name!r}, which exists already"
            )
        else:
            initialisers[constant.name] = constant
    listed = {value.name: value for value in graph.input}
    stored = set(initialisers) | set(sparse)
    order = sorted_nodes([node for _, node in plain], set(listed) | stored, where)
    outputs = tuple(dict.fromkeys(value.name for value in graph.output))
    live = _weights_last(live_nodes(order, outputs), stored)
    nodes = tuple(node for _, node in live)
    ordered = OrderedGraph(
        model=model,
        nodes=nodes,
        places=tuple(plain[index][0] for index, _ in live),
        reads=tuple(frozenset(names_read(node)) for node in nodes),
        makes=tuple(tuple(name for name in node.output if name) for node in nodes),
        inputs=MappingProxyType({name: value for name, value in listed.items() if name not in stored}),
        overridable=frozenset(listed) & stored if model.ir_version >= _OVERRIDABLE_SINCE_IR else frozenset(),
        listed=MappingProxyType(listed),
        outputs=outputs,
        initialisers=MappingProxyType(initialisers),
        sparse=MappingProxyType(sparse),
    )
    for name in outputs:
        if name not in ordered.made and name not in listed and name not in stored:
            raise HeadwayError(f"{where}: output {name!r} is made by no node")
    return ordered


def functions_called(nodes: Iterator[NodeProto], model: ModelProto) -> list[FunctionProto]:
    """The model's local functions that the nodes call, through bodies and other functions too."""
    known = {(function.domain, function.name): function for function in model.functions}
    found: dict[tuple[str, str], FunctionProto] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        for body in bodies_of(node):
            waiting.extend(body.node)
        key = (node.domain, node.op_type)
        if key in known and key not in found:
            found[key] = known[key]
            waiting.extend(known[key].node)
    return [function for key, function in known.items() if key in found]


def bodies_within(graph: GraphProto) -> Iterator[GraphProto]:
    """All bodies of a graph's nodes, at any depth."""
    for node in graph.node:
        for body in bodies_of(node):
            yield body
            yield from bodies_within(body)


def _weights_last(order: list[tuple[int, NodeProto]], stored: set[str]) -> list[tuple[int, NodeProto]]:
    """The same order, but nodes that only prepare weights stand just before the first node that needs them.

    A weight that is dequantised or transposed first then crosses no cut before its reader.
    """
    known = set(stored)
    waiting: dict[str, tuple[int, NodeProto]] = {}  # by each name that it makes
    placed: list[tuple[int, NodeProto]] = []
    done: set[int] = set()

    def place(entry: tuple[int, NodeProto]) -> None:
        stack = [entry]
        while stack:
            top = stack[-1]
            needed = [waiting[name] for name in sorted(names_read(top[1])) if name in waiting]
            missing = [before for before in needed if before[0] not in done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top[0] not in done:
                done.add(top[0])
                placed.append(top)

    for entry in order:
        names = names_read(entry[1])
        made = [name for name in entry[1].output if name]
        if names and names <= known:
            known.update(made)
            waiting.update(dict.fromkeys(made, entry))
        else:
            place(entry)
    for entry in order:
        place(entry)  # what is left makes outputs from weights alone
    return placed


def _is_false(tensor: TensorProto) -> bool:
    return tensor.data_type == tensor.BOOL and not any(tensor.int32_data) and not any(tensor.raw_data)


def _draws(
    node: NodeProto, functions: Mapping[tuple[str, str], FunctionProto], off: set[str], depth: int
) -> bool:
    if not node.domain and node.op_type in _RANDOM_OPS:
        return True
    if not node.domain and node.op_type == "Dropout" and len(node.input) > 2:
        return bool(node.input[2]) and node.input[2] not in off
    function = functions.get((node.domain, node.op_type))
    inner = [inner for body in bodies_of(node) for inner in body.node]
    if function is not None and depth <= len(functions):
        inner += function.node
        depth += 1
    return any(_draws(child, functions, off, depth) for child in inner)


def _constant(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant node holds; None for other nodes and for sparse constants."""
    from onnx import TensorProto, helper

    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name not in _CONSTANT_ATTRIBUTES:
        return None
    name = node.output[0]
    if attribute.name == "value":
        tensor = TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        return tensor
    value = helper.get_attribute_value(attribute)
    many = attribute.name.endswith("s")
    kinds = {"float": TensorProto.FLOAT, "int": TensorProto.INT64, "string": TensorProto.STRING}
    kind = kinds[attribute.name.removeprefix("value_").removesuffix("s")]
    values = list(value) if many else [value]
    return helper.make_tensor(name, kind, [len(values)] if many else [], values)
