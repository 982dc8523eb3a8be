"""Sums in place: which block's output may lie where an input of the block lay.

A convolution that adds a tensor to its result (ONNX Runtime's fused ones have it as fourth input) adds in
that tensor's own memory if the result lies there, and else copies the tensor first. ONNX Runtime lets the
result lie there only where neither is an input or output of the graph, so that between blocks both have to be
given the same memory. For ResNet-50 in 17 blocks that makes half of what boundaries cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.models.ordered_graph import OrderedGraph
from headway.models.partition import BlockPart
from headway.models.value_types import ValueType

if TYPE_CHECKING:
    from onnx import NodeProto

_SUMMAND: Final = 3
_SUMMING: Final = frozenset({("com.microsoft.nchwc", "Conv"), ("com.microsoft", "FusedConv")})


@dataclass(frozen=True, slots=True)
class Sum:
    """A node that adds `summand` to its `result`.

    `made_at` is the place of the node that makes the summand, `last_read_at` of the last that reads the
    result; behind all nodes if it is one of the model's.
    """

    place: int
    summand: str
    result: str
    made_at: int
    last_read_at: int


def sums_of(graph: OrderedGraph) -> tuple[Sum, ...]:
    """All sums of tensors that nodes make, in order of place."""
    made_at = {name: place for place, names in enumerate(graph.makes) for name in names}
    last_read = {name: place for place, names in enumerate(graph.reads) for name in names}
    last_read |= dict.fromkeys(graph.outputs, len(graph))
    return tuple(
        Sum(place, summand, result, made_at[summand], last_read.get(result, place))
        for place, node in enumerate(graph.nodes)
        for summand, result in _summed(node)
        if summand in made_at
    )


def _summed(node: NodeProto) -> Iterator[tuple[str, str]]:
    if (node.domain, node.op_type) in _SUMMING and len(node.input) > _SUMMAND:
        summand = node.input[_SUMMAND]
        if summand and list(node.input).count(summand) == 1:
            yield summand, node.output[0]


def takeovers(
    graph: OrderedGraph, parts: Sequence[BlockPart], types: Mapping[str, ValueType]
) -> dict[str, str]:
    """By the name of a block's output, that of the input of the same block whose memory it takes over.

    The input is a summand that nothing needs afterwards: no later block reads it, and whatever else reads it
    in this one must have run before the sum can.
    """
    results = set(graph.outputs)
    last_block = {name: index for index, part in enumerate(parts) for name in part.inputs}
    block_of = {place: index for index, part in enumerate(parts) for place in range(part.first, part.end)}
    found: dict[str, str] = {}
    for each in sums_of(graph):
        index = block_of[each.place]
        part = parts[index]
        fits = (
            each.summand in part.inputs
            and each.result in part.outputs
            and last_block[each.summand] == index
            and not results & {each.summand, each.result}
            and types[each.summand].bindable
            and types[each.summand] == types[each.result]
        )
        if fits and _read_before(graph, part, each):
            found[each.result] = each.summand
    return found


def _read_before(graph: OrderedGraph, part: BlockPart, each: Sum) -> bool:
    """Whether the sum needs what all other readers of its summand make."""
    needed = set(graph.reads[each.place])
    before = {each.place}
    for place in range(each.place - 1, part.first - 1, -1):
        if needed.intersection(graph.makes[place]):
            before.add(place)
            needed |= graph.reads[place]
    return all(place in before for place in range(part.first, part.end) if each.summand in graph.reads[place])
