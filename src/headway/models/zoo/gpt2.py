"""GPT-2: the prefill of a whole prompt, and the decoding of one token with the keys and values so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import MASKED_SCORE, join_heads, scores_to_context, split_heads
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import FLOAT, INT64, Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Standard deviation of all weights at initialisation, in the paper's code.
STD = 0.02
VOCABULARY = 50257
POSITIONS = 1024
EPSILON = 1e-5
LAYERS = 12
WIDTH = 768
HEADS = 12
HEAD_WIDTH = WIDTH // HEADS
PAST = 128
CACHES = ", ".join(f"past_{layer}_{part}" for layer in range(LAYERS) for part in ("key", "value"))
SOURCE = (
    "Radford et al., Language Models are Unsupervised Multitask Learners, 2019; "
    "layout of the transformers library's GPT2Model"
)


@zoo_model(
    "gpt2_small",
    family="gpt2",
    summary="GPT-2 small reading a whole prompt (prefill), final hidden states, no language-model head",
    inputs="input_ids: N x 128 int64",
    source=SOURCE,
    options=(ZooOption("sequence_length", 128, "tokens in the prompt", maximum=POSITIONS),),
)
def gpt2_small(b: GraphBuilder, batch: int, *, sequence_length: int) -> None:
    """12 layers, width 768, 12 heads, causal; fully connected layers as Gemm on flattened tokens."""
    visible = b.constant(np.tril(np.ones((1, 1, sequence_length, sequence_length))), np.bool_)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = _scores(b, query, split_heads(b, key, HEADS, transposed=True))
        scores = b.node("Where", [visible, scores, b.constant(MASKED_SCORE)], scores.shape, dtype=FLOAT)
        return scores_to_context(b, scores, split_heads(b, value, HEADS))

    x = _embedded(b, b.input("input_ids", (batch, sequence_length), INT64), first_place=0)
    for index in range(LAYERS):
        with b.scope(f"h.{index}"):
            x = _layer(b, x, attend)
    b.output(nn.layer_norm(b, x, name="ln_f", epsilon=EPSILON), "last_hidden_state")


@zoo_model(
    "gpt2_small_decode",
    family="gpt2",
    summary="GPT-2 small decoding one token with a cache of keys and values, no language-model head",
    inputs=f"input_ids: N x 1 int64; {CACHES}: N x {HEADS} x {PAST} x {HEAD_WIDTH} float32",
    source=SOURCE,
    options=(
        ZooOption("past_length", PAST, "tokens whose keys and values are given", maximum=POSITIONS - 1),
    ),
)
def gpt2_small_decode(b: GraphBuilder, batch: int, *, past_length: int) -> None:
    """The layers of ``gpt2_small``, whose parameters it shares at equal seeds, for the token behind the past.

    Each layer appends its key and value to the ones given, and puts them out as ``present_...``.
    """
    ids = b.input("input_ids", (batch, 1), INT64)
    presents: list[tuple[Tensor, str]] = []

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        grown = []
        for part, new in (("key", key), ("value", value)):
            name = f"{len(presents) // 2}_{part}"
            past = b.input(f"past_{name}", (batch, HEADS, past_length, HEAD_WIDTH))
            grown.append(nn.concat(b, [past, split_heads(b, new, HEADS)], axis=2))
            presents.append((grown[-1], f"present_{name}"))
        keys, values = grown
        return scores_to_context(b, _scores(b, query, nn.transpose(b, keys, (0, 1, 3, 2))), values)

    x = _embedded(b, ids, first_place=past_length)
    for index in range(LAYERS):
        with b.scope(f"h.{index}"):
            x = _layer(b, x, attend)
    b.output(nn.layer_norm(b, x, name="ln_f", epsilon=EPSILON), "last_hidden_state")
    for tensor, name in presents:
        b.output(tensor, name)


def _embedded(b: GraphBuilder, ids: Tensor, *, first_place: int) -> Tensor:
    words = nn.gather_rows(b, b.parameter("wte", (VOCABULARY, WIDTH), std=STD), ids)
    places = b.constant(first_place + np.arange(ids.shape[1])[None, :], np.int64)
    return nn.add(b, words, nn.gather_rows(b, b.parameter("wpe", (POSITIONS, WIDTH), std=STD), places))


def _layer(b: GraphBuilder, x: Tensor, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Attention and feed-forward layers; ``attend`` makes the heads' context of query, key and value."""
    y = nn.layer_norm(b, x, name="ln_1", epsilon=EPSILON)
    query, key, value = nn.split(b, nn.token_gemm(b, y, 3 * WIDTH, name="attn.c_attn", std=STD), 3)
    context = join_heads(b, attend(query, key, value))
    x = nn.add(b, nn.token_gemm(b, context, WIDTH, name="attn.c_proj", std=STD), x)
    y = nn.layer_norm(b, x, name="ln_2", epsilon=EPSILON)
    y = nn.gelu_tanh(b, nn.token_gemm(b, y, 4 * WIDTH, name="mlp.c_fc", std=STD))
    return nn.add(b, x, nn.token_gemm(b, y, WIDTH, name="mlp.c_proj", std=STD))


def _scores(b: GraphBuilder, query: Tensor, keys: Tensor) -> Tensor:
    """Scaled products of N x S x width queries with N x heads x head width x S keys."""
    scores = nn.matmul(b, split_heads(b, query, HEADS), keys, name="attn.scores")
    return nn.div(b, scores, b.constant(math.sqrt(HEAD_WIDTH)))
