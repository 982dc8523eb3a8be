"""MobileBERT: 24 narrow layers, each between two bottlenecks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import join_heads, mask_bias, scores_to_context, split_heads
from headway.models.zoo.bert import BERT_INPUTS, BERT_POSITIONS, BERT_VOCABULARY, STD
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.slices import pad, slice_axis
from headway.models.zoo.tensor import INT64, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

LAYERS = 24
WIDTH = 512
INNER_WIDTH = 128
EMBEDDING_WIDTH = 128
HEADS = 4
FEED_FORWARDS = 4


@zoo_model(
    "mobilebert",
    family="bert",
    summary="MobileBERT uncased encoder, 24 layers of 512 with bottlenecks of 128",
    inputs=BERT_INPUTS,
    source="Sun et al., MobileBERT, ACL 2020, arXiv:2004.02984; layout of the transformers library's "
    "MobileBertModel without its pooler's layer",
    options=(ZooOption("sequence_length", 128, "tokens per sequence", minimum=2, maximum=BERT_POSITIONS),),
)
def mobilebert(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """Four feed-forward layers per attention; a scale and a shift per channel in place of normalisation."""
    ids = b.input("input_ids", (batch, sequence_length), INT64)
    mask = b.input("attention_mask", (batch, sequence_length), INT64)
    with b.scope("embeddings"):
        x = _embedded(b, ids)
    bias = mask_bias(b, mask)
    for index in range(LAYERS):
        with b.scope(f"layer.{index}"):
            x = _layer(b, x, bias)
    first_token = b.node("Gather", [x, b.constant(0, np.int64)], (batch, WIDTH), axis=1)
    b.output(x, "last_hidden_state")
    b.output(first_token, "pooler_output")


def _embedded(b: GraphBuilder, ids: Tensor) -> Tensor:
    """Each token's embedding with those beside it, brought to the layers' width."""
    length = ids.shape[1]
    words = nn.gather_rows(b, b.parameter("word", (BERT_VOCABULARY, EMBEDDING_WIDTH), std=STD), ids)
    following = pad(b, slice_axis(b, words, 1, 1, length), (0, 0, 0), (0, 1, 0))
    preceding = pad(b, slice_axis(b, words, 1, 0, length - 1), (0, 1, 0), (0, 0, 0))
    trigrams = nn.concat(b, [following, words, preceding], axis=2)
    x = nn.linear(b, trigrams, WIDTH, name="transformation", std=STD)
    places = b.parameter("position", (BERT_POSITIONS, WIDTH), std=STD)
    x = nn.add(b, x, nn.gather_rows(b, places, nn.positions(b, length)))
    segments = b.parameter("token_type", (2, WIDTH), std=STD)
    x = nn.add(b, x, nn.gather_rows(b, segments, b.constant(np.zeros((1, length)), np.int64)))
    return _scaled(b, x, "norm")


def _layer(b: GraphBuilder, x: Tensor, bias: Tensor) -> Tensor:
    narrow = _narrowed(b, x, "bottleneck.input")
    shared = _narrowed(b, x, "bottleneck.attention")
    query = nn.linear(b, shared, INNER_WIDTH, name="attention.query", std=STD)
    key = nn.linear(b, shared, INNER_WIDTH, name="attention.key", std=STD)
    value = nn.linear(b, x, INNER_WIDTH, name="attention.value", std=STD)
    scores = nn.matmul(
        b, split_heads(b, query, HEADS), split_heads(b, key, HEADS, transposed=True), name="attention.scores"
    )
    scores = nn.div(b, scores, b.constant(math.sqrt(INNER_WIDTH // HEADS)))
    context = scores_to_context(b, nn.add(b, scores, bias), split_heads(b, value, HEADS))
    y = nn.linear(b, join_heads(b, context), INNER_WIDTH, name="attention.output", std=STD)
    y = _scaled(b, nn.add(b, y, narrow), "attention.norm")
    for index in range(FEED_FORWARDS):
        with b.scope(f"ffn.{index}"):
            y = _feed_forward(b, y)
    widened = nn.linear(b, y, WIDTH, name="output.bottleneck", std=STD)
    return _scaled(b, nn.add(b, widened, x), "output.norm")


def _narrowed(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return _scaled(b, nn.linear(b, x, INNER_WIDTH, name=name, std=STD), f"{name}.norm")


def _feed_forward(b: GraphBuilder, x: Tensor) -> Tensor:
    y = nn.relu(b, nn.linear(b, x, WIDTH, name="intermediate", std=STD))
    y = nn.linear(b, y, INNER_WIDTH, name="output", std=STD)
    return _scaled(b, nn.add(b, y, x), "norm")


def _scaled(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """The paper's stand-in for layer normalisation: a scale and a shift per channel."""
    scale = b.parameter(f"{name}.weight", (x.shape[-1],), mean=1.0, std=nn.BIAS_STD)
    shift = b.parameter(f"{name}.bias", (x.shape[-1],), std=nn.BIAS_STD)
    return nn.add(b, nn.mul(b, x, scale), shift)
