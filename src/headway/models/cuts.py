"""Where a graph may be cut, and what crosses there.

A cut lies between two nodes of the topological order. What crosses is every tensor that was made before and
is needed after: read by a later node, or captured by the body of one (If, Loop, Scan). Inputs of the
request that are needed later and outputs made already stay with the request; they do not cross, but they
are alive.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.models.model_file import read_model
from headway.models.ordered_graph import OrderedGraph, ordered_graph

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a model may be cut: `position` nodes of the topological order lie before it.

    `tensors` are made before and read after. `inputs` are the request's own tensors that are still read
    after, `outputs` the results that exist already and that nothing after reads. Bytes are None where the
    size of some tensor is not known.
    """

    position: int
    tensors: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    crossing_bytes: int | None  # of `tensors`
    live_bytes: int | None  # of all three


def legal_cuts(
    source: str | os.PathLike[str] | ModelProto, sizes_bytes: Mapping[str, int] | None = None
) -> tuple[Cut, ...]:
    """All places where a model may be cut.

    Positions count the nodes in topological order (the file's order where that is one), Constant nodes and
    nodes that lead to no output left out. They hold for the graph as it is; `prepare` gives the positions
    of the graph as ONNX Runtime optimises it, with sizes.

    Args:
        source: a file or a model; weights may be absent.
        sizes_bytes: bytes of tensors by name, as far as known.

    Raises:
        HeadwayError: the file cannot be read, or its graph is not well formed.
    """
    file = read_model(source)
    return cuts_of(ordered_graph(file.model, file.where), sizes_bytes or {})


def cuts_of(graph: OrderedGraph, sizes_bytes: Mapping[str, int]) -> tuple[Cut, ...]:
    """All cuts of an ordered graph, in order of position."""
    made_at = {name: place for place, names in enumerate(graph.makes) for name in names}
    last_read: dict[str, int] = {}
    for place, names in enumerate(graph.reads):
        for name in names:
            last_read[name] = place
    tensors: dict[str, None] = {}
    outputs: dict[str, None] = {}
    inputs = {name: None for name in (*graph.inputs, *sorted(graph.overridable)) if name in last_read}
    results = set(graph.outputs)
    cuts = []
    for position in range(1, len(graph)):
        done = position - 1
        for name in graph.makes[done]:
            if name in last_read:
                tensors[name] = None
            elif name in results:
                outputs[name] = None
        for name in graph.reads[done]:
            if last_read[name] == done:
                inputs.pop(name, None)
                if name in tensors:
                    del tensors[name]
                    if name in results:
                        outputs[name] = None
        crossing = tuple(sorted(tensors, key=made_at.__getitem__))
        cuts.append(
            Cut(
                position=position,
                tensors=crossing,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                crossing_bytes=_total(crossing, sizes_bytes),
                live_bytes=_total((*crossing, *inputs, *outputs), sizes_bytes),
            )
        )
    return tuple(cuts)


def _total(names: tuple[str, ...], sizes_bytes: Mapping[str, int]) -> int | None:
    sizes = [sizes_bytes.get(name) for name in names]
    return None if None in sizes else sum(size for size in sizes if size is not None)
