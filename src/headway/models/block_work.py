"""What a block computes and moves, added up over its nodes: what predictors know of it before any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.models.node_work import NodeWork


@dataclass(frozen=True, slots=True)
class BlockWork:
    """The work of one block of a model.

    `kernels` counts its nodes without views. `read_bytes` and `written_bytes` are activations of all kernels,
    those that stay inside the block included, `weight_bytes` constants. `output_elements` is what one kernel
    makes, and `operator_shares` the shares of operator classes, both weighted by the kernels' times as
    estimated; the shares add up to 1. `footprint_bytes` is what the block touches: its weights and the most
    that one of its kernels reads and writes.
    """

    flops: int
    read_bytes: int
    written_bytes: int
    weight_bytes: int
    output_elements: float
    kernels: int
    footprint_bytes: int
    operator_shares: Mapping[str, float]

    @property
    def moved_bytes(self) -> int:
        """All that its kernels read and write."""
        return self.read_bytes + self.written_bytes + self.weight_bytes


def block_work(works: Sequence[NodeWork], node_s: Sequence[float]) -> BlockWork:
    """Add up the nodes of a block.

    Args:
        works: of its nodes.
        node_s: seconds of each, estimated or measured; only their ratios count.

    Raises:
        ValueError: not one time for each node.
    """
    kernels = [(work, seconds) for work, seconds in zip(works, node_s, strict=True) if not work.view]
    total_s = sum(seconds for _, seconds in kernels)
    weights = [seconds / total_s if total_s > 0.0 else 1.0 / len(kernels) for _, seconds in kernels]
    shares: dict[str, float] = {}
    for (work, _), weight in zip(kernels, weights, strict=True):
        shares[work.kind.value] = shares.get(work.kind.value, 0.0) + weight
    weight_bytes = sum(work.weight_bytes for work, _ in kernels)
    return BlockWork(
        flops=sum(work.flops for work, _ in kernels),
        read_bytes=sum(work.read_bytes for work, _ in kernels),
        written_bytes=sum(work.written_bytes for work, _ in kernels),
        weight_bytes=weight_bytes,
        output_elements=sum(
            weight * work.output_elements for (work, _), weight in zip(kernels, weights, strict=True)
        ),
        kernels=len(kernels),
        footprint_bytes=weight_bytes
        + max((work.read_bytes + work.written_bytes for work, _ in kernels), default=0),
        operator_shares=shares,
    )
