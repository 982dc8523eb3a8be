"""Text transformers: BERT encoders and GPT-2's prefill, with attention as plain MatMul and Softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import join_heads, scores_to_context, split_heads
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import FLOAT, INT64, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Standard deviation of all weights at initialisation, in both papers' code.
STD = 0.02
BERT_VOCABULARY = 30522
BERT_POSITIONS = 512
BERT_EPSILON = 1e-12
GPT2_VOCABULARY = 50257
GPT2_POSITIONS = 1024
GPT2_EPSILON = 1e-5
# What masked attention scores get; finite, so that a row of masked scores stays finite too.
MASKED_SCORE = -10000.0

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
    "gpt2_small",
    family="gpt2",
    summary="GPT-2 small reading a whole prompt (prefill), final hidden states, no language-model head",
    inputs="input_ids: N x 128 int64",
    source="Radford et al., Language Models are Unsupervised Multitask Learners, 2019; "
    "layout of the transformers library's GPT2Model",
    options=(ZooOption("sequence_length", 128, "tokens in the prompt", maximum=GPT2_POSITIONS),),
)
def gpt2_small(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """12 layers, width 768, 12 heads, causal; fully connected layers as Gemm on flattened tokens."""
    width, heads = 768, 12
    ids = b.input("input_ids", (batch, sequence_length), INT64)
    words = nn.gather_rows(b, b.parameter("wte", (GPT2_VOCABULARY, width), std=STD), ids)
    places = nn.gather_rows(
        b, b.parameter("wpe", (GPT2_POSITIONS, width), std=STD), nn.positions(b, sequence_length)
    )
    x = nn.add(b, words, places)
    for index in range(12):
        with b.scope(f"h.{index}"):
            x = _gpt2_layer(b, x, heads)
    b.output(nn.layer_norm(b, x, name="ln_f", epsilon=GPT2_EPSILON), "last_hidden_state")


def _bert(
    b: GraphBuilder, batch: int, sequence_length: int, *, layer_count: int, width: int, heads: int
) -> None:
    ids = b.input("input_ids", (batch, sequence_length), INT64)
    mask = b.input("attention_mask", (batch, sequence_length), INT64)
    with b.scope("embeddings"):
        words = nn.gather_rows(b, b.parameter("word", (BERT_VOCABULARY, width), std=STD), ids)
        segment_zero = b.constant(np.zeros((1, sequence_length)), np.int64)
        segments = nn.gather_rows(b, b.parameter("token_type", (2, width), std=STD), segment_zero)
        places = nn.gather_rows(
            b, b.parameter("position", (BERT_POSITIONS, width), std=STD), nn.positions(b, sequence_length)
        )
        x = nn.add(b, nn.add(b, words, segments), places)
        x = nn.layer_norm(b, x, name="norm", epsilon=BERT_EPSILON)
    bias = _mask_bias(b, mask)
    for index in range(layer_count):
        with b.scope(f"layer.{index}"):
            x = _bert_layer(b, x, bias, heads)
    first_token = b.node("Gather", [x, b.constant(0, np.int64)], (batch, width), axis=1)
    pooled = nn.unary(b, "Tanh", nn.gemm(b, first_token, width, name="pooler", std=STD))
    b.output(x, "last_hidden_state")
    b.output(pooled, "pooler_output")


def _mask_bias(b: GraphBuilder, mask: Tensor) -> Tensor:
    """What is added to the scores, N x 1 x 1 x S: nothing where the mask is 1, a large negative where 0."""
    kept = nn.cast(b, nn.unsqueeze(b, mask, (1, 2)), FLOAT)
    hidden = b.node("Sub", [b.constant(1.0), kept], kept.shape)
    return nn.mul(b, hidden, b.constant(MASKED_SCORE))


def _bert_layer(b: GraphBuilder, x: Tensor, mask_bias: Tensor, heads: int) -> Tensor:
    width = x.shape[-1]
    query, key, value = (
        nn.linear(b, x, width, name=f"attention.{role}", std=STD) for role in ("query", "key", "value")
    )
    scores = nn.matmul(
        b, split_heads(b, query, heads), split_heads(b, key, heads, transposed=True), name="attention.scores"
    )
    scores = nn.div(b, scores, b.constant(math.sqrt(width // heads)))
    context = scores_to_context(b, nn.add(b, scores, mask_bias), split_heads(b, value, heads))
    y = nn.linear(b, join_heads(b, context), width, name="attention.output", std=STD)
    x = nn.layer_norm(b, nn.add(b, y, x), name="attention.norm", epsilon=BERT_EPSILON)
    y = nn.gelu_erf(b, nn.linear(b, x, 4 * width, name="intermediate", std=STD))
    y = nn.linear(b, y, width, name="output", std=STD)
    return nn.layer_norm(b, nn.add(b, y, x), name="norm", epsilon=BERT_EPSILON)


def _gpt2_layer(b: GraphBuilder, x: Tensor, heads: int) -> Tensor:
    _, length, width = x.shape
    y = nn.layer_norm(b, x, name="ln_1", epsilon=GPT2_EPSILON)
    query, key, value = nn.split(b, nn.token_gemm(b, y, 3 * width, name="attn.c_attn", std=STD), 3)
    scores = nn.matmul(
        b, split_heads(b, query, heads), split_heads(b, key, heads, transposed=True), name="attn.scores"
    )
    scores = nn.div(b, scores, b.constant(math.sqrt(width // heads)))
    visible = b.constant(np.tril(np.ones((1, 1, length, length))), np.bool_)
    scores = b.node("Where", [visible, scores, b.constant(MASKED_SCORE)], scores.shape, dtype=FLOAT)
    context = scores_to_context(b, scores, split_heads(b, value, heads))
    x = nn.add(b, nn.token_gemm(b, join_heads(b, context), width, name="attn.c_proj", std=STD), x)
    y = nn.layer_norm(b, x, name="ln_2", epsilon=GPT2_EPSILON)
    y = nn.gelu_tanh(b, nn.token_gemm(b, y, 4 * width, name="mlp.c_fc", std=STD))
    return nn.add(b, x, nn.token_gemm(b, y, width, name="mlp.c_proj", std=STD))
