"""The parts of multi-head attention that the transformers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.tensor import FLOAT, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# What masked attention scores get; finite, so that a row of masked scores stays finite too.
MASKED_SCORE = -10000.0


def split_heads(b: GraphBuilder, x: Tensor, heads: int, *, transposed: bool = False) -> Tensor:
    """N x S x width to N x heads x S x head width; ``transposed`` swaps the last two, as keys need it."""
    batch, length, width = x.shape
    parts = nn.reshape(b, x, (batch, length, heads, width // heads))
    return nn.transpose(b, parts, (0, 2, 3, 1) if transposed else (0, 2, 1, 3))


def join_heads(b: GraphBuilder, x: Tensor) -> Tensor:
    """N x heads x S x head width back to N x S x width."""
    batch, heads, length, head_width = x.shape
    return nn.reshape(b, nn.transpose(b, x, (0, 2, 1, 3)), (batch, length, heads * head_width))


def scores_to_context(b: GraphBuilder, scores: Tensor, value: Tensor) -> Tensor:
    """softmax(scores) times the values, N x heads x S x head width."""
    return nn.matmul(b, nn.softmax(b, scores), value, name="attention.context")


def mask_bias(b: GraphBuilder, mask: Tensor) -> Tensor:
    """What is added to the scores, N x 1 x 1 x S: nothing where the mask is 1, a large negative where 0."""
    kept = nn.cast(b, nn.unsqueeze(b, mask, (1, 2)), FLOAT)
    hidden = b.node("Sub", [b.constant(1.0), kept], kept.shape)
    return nn.mul(b, hidden, b.constant(MASKED_SCORE))
