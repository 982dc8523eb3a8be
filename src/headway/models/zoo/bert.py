"""BERT and DistilBERT: text encoders, with attention as plain MatMul and Softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import (
    MASKED_SCORE,
    join_heads,
    mask_bias,
    scores_to_context,
    split_heads,
)
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import BOOL, INT64, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Standard deviation of all weights at initialisation, in the papers' code.
STD = 0.02
BERT_VOCABULARY = 30522
BERT_POSITIONS = 512
BERT_EPSILON = 1e-12

BERT_INPUTS = "input_ids, attention_mask: N x 128 int64"
BERT_LENGTH = ZooOption("sequence_length", 128, "tokens per sequence", maximum=BERT_POSITIONS)


@zoo_model(
    "bert_base",
    family="bert",
    summary="BERT-base uncased encoder with its pooler, 12 layers of 768",
    inputs=BERT_INPUTS,
    source="Devlin et al., BERT, NAACL 2019; layout of the transformers library's BertModel",
    options=(BERT_LENGTH,),
)
def bert_base(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """12 layers, width 768, 12 heads."""
    _bert(b, batch, sequence_length, layer_count=12, width=768, heads=12)


@zoo_model(
    "bert_small",
    family="bert",
    summary="BERT-small uncased encoder with its pooler, 4 layers of 512",
    inputs=BERT_INPUTS,
    source="Turc et al., Well-Read Students Learn Better, arXiv:1908.08962, L=4 H=512 A=8",
    options=(BERT_LENGTH,),
)
def bert_small(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """4 layers, width 512, 8 heads."""
    _bert(b, batch, sequence_length, layer_count=4, width=512, heads=8)


@zoo_model(
    "distilbert",
    family="bert",
    summary="DistilBERT-base uncased encoder, 6 layers of 768",
    inputs=BERT_INPUTS,
    source="Sanh et al., DistilBERT, arXiv:1910.01108; layout of the transformers library's DistilBertModel",
    options=(BERT_LENGTH,),
)
def distilbert(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """6 layers, width 768, 12 heads; no segments and no pooler, masked scores replaced."""
    width = 768
    ids = b.input("input_ids", (batch, sequence_length), INT64)
    mask = b.input("attention_mask", (batch, sequence_length), INT64)
    with b.scope("embeddings"):
        words = nn.gather_rows(b, b.parameter("word", (BERT_VOCABULARY, width), std=STD), ids)
        x = nn.layer_norm(
            b, nn.add(b, words, _places(b, width, sequence_length)), name="norm", epsilon=BERT_EPSILON
        )
    masked = b.node("Equal", [mask, b.constant(0, np.int64)], mask.shape, dtype=BOOL)
    masked = nn.unsqueeze(b, masked, (1, 2))

    def hide(scores: Tensor) -> Tensor:
        return b.node("Where", [masked, b.constant(MASKED_SCORE), scores], scores.shape, dtype=scores.dtype)

    for index in range(6):
        with b.scope(f"layer.{index}"):
            x = _bert_layer(b, x, hide, heads=12)
    b.output(x, "last_hidden_state")


def _bert(
    b: GraphBuilder, batch: int, sequence_length: int, *, layer_count: int, width: int, heads: int
) -> None:
    ids = b.input("input_ids", (batch, sequence_length), INT64)
    mask = b.input("attention_mask", (batch, sequence_length), INT64)
    with b.scope("embeddings"):
        words = nn.gather_rows(b, b.parameter("word", (BERT_VOCABULARY, width), std=STD), ids)
        segment_zero = b.constant(np.zeros((1, sequence_length)), np.int64)
        segments = nn.gather_rows(b, b.parameter("token_type", (2, width), std=STD), segment_zero)
        x = nn.add(b, nn.add(b, words, segments), _places(b, width, sequence_length))
        x = nn.layer_norm(b, x, name="norm", epsilon=BERT_EPSILON)
    bias = mask_bias(b, mask)

    def hide(scores: Tensor) -> Tensor:
        return nn.add(b, scores, bias)

    for index in range(layer_count):
        with b.scope(f"layer.{index}"):
            x = _bert_layer(b, x, hide, heads)
    first_token = b.node("Gather", [x, b.constant(0, np.int64)], (batch, width), axis=1)
    pooled = nn.unary(b, "Tanh", nn.gemm(b, first_token, width, name="pooler", std=STD))
    b.output(x, "last_hidden_state")
    b.output(pooled, "pooler_output")


def _places(b: GraphBuilder, width: int, length: int) -> Tensor:
    table = b.parameter("position", (BERT_POSITIONS, width), std=STD)
    return nn.gather_rows(b, table, nn.positions(b, length))


def _bert_layer(b: GraphBuilder, x: Tensor, hide: Callable[[Tensor], Tensor], heads: int) -> Tensor:
    """Attention and feed-forward layers; ``hide`` takes masked tokens out of the scores."""
    width = x.shape[-1]
    query, key, value = (
        nn.linear(b, x, width, name=f"attention.{role}", std=STD) for role in ("query", "key", "value")
    )
    scores = nn.matmul(
        b, split_heads(b, query, heads), split_heads(b, key, heads, transposed=True), name="attention.scores"
    )
    scores = nn.div(b, scores, b.constant(math.sqrt(width // heads)))
    context = scores_to_context(b, hide(scores), split_heads(b, value, heads))
    y = nn.linear(b, join_heads(b, context), width, name="attention.output", std=STD)
    x = nn.layer_norm(b, nn.add(b, y, x), name="attention.norm", epsilon=BERT_EPSILON)
    y = nn.gelu_erf(b, nn.linear(b, x, 4 * width, name="intermediate", std=STD))
    y = nn.linear(b, y, width, name="output", std=STD)
    return nn.layer_norm(b, nn.add(b, y, x), name="norm", epsilon=BERT_EPSILON)
