"""What the walk over a graph finds: nodes with their work, weights, and what was unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headway.models.constants import Root, weight_roots
from headway.models.graph import LayerKind
from headway.models.operators import BodyCost, Node, Work
from headway.models.tensors import Tensor

_PRODUCTS: Final = frozenset(
    {
        "Conv",
        "FusedConv",
        "ConvTranspose",
        "ConvInteger",
        "QLinearConv",
        "MatMul",
        "FusedMatMul",
        "MatMulInteger",
    }
    | {"QLinearMatMul", "Gemm", "FusedGemm", "QGemm", "Einsum", "LSTM", "GRU", "RNN"}
)


@dataclass(slots=True)
class Entry:
    """A node that does work, with what it reads and makes."""

    index: int  # place in the file
    node: Node
    work: Work
    name: str


@dataclass(slots=True)
class Findings:
    """What a walk collects beside the layers, shared with the walks of bodies."""

    roots: dict[str, Root] = field(default_factory=dict)
    unknown_ops: list[tuple[str, str]] = field(default_factory=list)  # domain:Op and the node's label
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown_tensors: list[str] = field(default_factory=list)
    measured_used: list[str] = field(default_factory=list)
    folded: int = 0
    dead: int = 0


def analytic_bound(node: Node, cause: str) -> Work:
    """The analytic bound: every output element one operation, and every weight of a product used once."""
    sizes = [
        tensor.elements for tensor in (*node.outputs, *node.inputs) if tensor is not None and tensor.known
    ]
    weights = sum(
        tensor.elements for tensor in node.inputs if tensor is not None and tensor.constant and tensor.known
    )
    made = [tensor.elements for tensor in node.outputs if tensor is not None and tensor.known]
    return Work(
        kind=LayerKind.OTHER,
        macs=weights if node.op in _PRODUCTS else 0,
        vector_ops=max(1, sum(made) if made else max(sizes, default=1)),
        bounded=True,
        note=cause,
    )


def body_cost(
    entries: Sequence[Entry],
    roots_known: Mapping[str, Root],
    outputs: Sequence[Tensor],
    arguments: Sequence[Tensor],
) -> BodyCost:
    """Sums over the nodes of a body, for one pass."""
    made = {id(tensor) for entry in entries for tensor in entry.node.outputs if tensor is not None}
    captured: dict[int, Tensor] = {}
    roots: dict[str, None] = {}
    weight_bytes = moved = 0
    own = {id(tensor) for tensor in arguments}
    for entry in entries:
        used = weight_roots(entry.node, entry.work)
        roots.update(dict.fromkeys((*used, *entry.work.extra_roots)))
        weight_bytes += (
            sum(roots_known[root].bytes for root in used if roots_known[root].counted)
            + entry.work.extra_weight_bytes
        )
        tensors = [tensor for _, tensor in entry.node.activations]
        for tensor in (*tensors, *entry.work.captured):
            if id(tensor) not in made and id(tensor) not in own:
                captured[id(tensor)] = tensor
        moved += sum(t.bytes for t in (*tensors, *entry.node.outputs) if t is not None and t.known)
    for tensor in outputs:
        if not tensor.constant and id(tensor) not in made and id(tensor) not in own:
            captured[id(tensor)] = tensor
    return BodyCost(
        macs=sum(entry.work.macs for entry in entries),
        vector_ops=sum(entry.work.vector_ops for entry in entries),
        weight_bytes=weight_bytes,
        moved_bytes=moved,
        roots=tuple(roots),
        captured=tuple(captured.values()),
        outputs=tuple(outputs),
        bounded=any(entry.work.bounded for entry in entries),
    )
