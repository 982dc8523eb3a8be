"""The kernels of a transformer, from its configuration in Hugging Face's form, as eager PyTorch has them.

What is listed is what `transformers` runs in float32 with the attention that it calls eager: the products
of queries and keys and their softmax are tensors in memory. A batched product of four-dimensional tensors
copies operands that are not contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headway.core.errors import HeadwayError
from headway.predict.gpu.kernels import Kernel, bmm, elementwise, layer_norm, linear, softmax

_FAMILIES: Final = ("bert", "gpt2", "opt")


def transformer_blocks(
    config: Mapping[str, Any],
    batch: int,
    sequence: int,
    layers: int | None = None,
    *,
    classifies: bool = False,
) -> tuple[tuple[Kernel, ...], ...]:
    """One forward pass over whole sequences: a tuple of kernels for each layer, and one for the head.

    Args:
        config: `model_type` bert, gpt2 or opt, and the sizes under that family's names.
        batch: sequences.
        sequence: tokens in each.
        layers: instead of the configuration's number.
        classifies: whether the head classifies sequences, from their first token, and makes no logits of all.

    Raises:
        HeadwayError: another family.
    """
    family = config.get("model_type")
    if family not in _FAMILIES:
        raise HeadwayError(f"model_type: {family!r}; accepted: {', '.join(_FAMILIES)}")
    names = (
        ("n_embd", "n_head", "n_layer")
        if family == "gpt2"
        else ("hidden_size", "num_attention_heads", "num_hidden_layers")
    )
    hidden, heads, depth = (int(config[name]) for name in names)
    inner = int(config.get("ffn_dim" if family == "opt" else "intermediate_size") or 4 * hidden)
    one = {"bert": _bert, "gpt2": _gpt2, "opt": _opt}[family](batch, sequence, hidden, heads, inner)
    if classifies:
        head: tuple[Kernel, ...] = (
            linear(batch, hidden, hidden, "pooler"),
            elementwise(batch, hidden, 2, "tanh"),
            linear(batch, 2, hidden, "classes"),
        )
    else:
        head = _head(family, batch * sequence, hidden, int(config["vocab_size"]))
    return (one,) * (layers or depth) + (head,)


def _head(family: str, tokens: int, hidden: int, vocabulary: int) -> tuple[Kernel, ...]:
    logits = linear(tokens, vocabulary, hidden, "logits")
    norm = layer_norm(tokens, hidden, "last norm")
    if family != "bert":
        return norm, logits
    return linear(tokens, hidden, hidden, "transform"), elementwise(tokens, hidden, 2, "gelu"), norm, logits


def _attention(
    batch: int, sequence: int, hidden: int, heads: int, between: tuple[Kernel, ...]
) -> tuple[Kernel, ...]:
    """Scores, what is done to them, and the weighted sum, with the copies that the products need."""
    products, head = batch * heads, hidden // heads
    copy = elementwise(batch * sequence, hidden, 2, "copy")
    return (
        copy,
        copy,
        copy,
        bmm(products, sequence, sequence, head, "scores"),
        *between,
        softmax(products * sequence, sequence, "softmax"),
        bmm(products, sequence, head, sequence, "weighted sum"),
        copy,
    )


def _bert(batch: int, sequence: int, hidden: int, heads: int, inner: int) -> tuple[Kernel, ...]:
    tokens = batch * sequence
    scores = batch * heads * sequence
    projection = linear(tokens, hidden, hidden, "projection")
    between = (
        elementwise(scores, sequence, 2, "scale"),
        elementwise(scores, sequence, 2, "mask"),
    )
    return (
        projection,
        projection,
        projection,
        *_attention(batch, sequence, hidden, heads, between),
        projection,
        elementwise(tokens, hidden, 3, "residual"),
        layer_norm(tokens, hidden, "norm"),
        linear(tokens, inner, hidden, "widen"),
        elementwise(tokens, inner, 2, "gelu"),
        linear(tokens, hidden, inner, "narrow"),
        elementwise(tokens, hidden, 3, "residual"),
        layer_norm(tokens, hidden, "norm"),
    )


def _gpt2(batch: int, sequence: int, hidden: int, heads: int, inner: int) -> tuple[Kernel, ...]:
    tokens = batch * sequence
    scores = batch * heads * sequence
    between = (
        elementwise(scores, sequence, 2, "scale"),
        elementwise(scores, sequence, 2, "causal mask"),
    )
    return (
        layer_norm(tokens, hidden, "norm"),
        linear(tokens, 3 * hidden, hidden, "queries, keys, values"),
        *_attention(batch, sequence, hidden, heads, between),
        linear(tokens, hidden, hidden, "projection"),
        elementwise(tokens, hidden, 3, "residual"),
        layer_norm(tokens, hidden, "norm"),
        linear(tokens, inner, hidden, "widen"),
        *_tanh_gelu(tokens, inner),
        linear(tokens, hidden, inner, "narrow"),
        elementwise(tokens, hidden, 3, "residual"),
    )


def _tanh_gelu(rows: int, width: int) -> tuple[Kernel, ...]:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), one kernel for each operation."""
    of_one, of_two = (elementwise(rows, width, tensors, "gelu") for tensors in (2, 3))
    return (of_one, of_one, of_one, of_two, of_one, of_one, of_one, of_two)


def _opt(batch: int, sequence: int, hidden: int, heads: int, inner: int) -> tuple[Kernel, ...]:
    tokens = batch * sequence
    scores = batch * heads * sequence
    projection = linear(tokens, hidden, hidden, "projection")
    between = (
        elementwise(scores, sequence, 2, "mask"),
        elementwise(scores, sequence, 2, "lower bound"),
    )
    return (
        layer_norm(tokens, hidden, "norm"),
        projection,
        projection,
        projection,
        elementwise(tokens, hidden, 2, "scale"),
        *_attention(batch, sequence, hidden, heads, between),
        projection,
        elementwise(tokens, hidden, 3, "residual"),
        layer_norm(tokens, hidden, "norm"),
        linear(tokens, inner, hidden, "widen"),
        elementwise(tokens, inner, 2, "relu"),
        linear(tokens, hidden, inner, "narrow"),
        elementwise(tokens, hidden, 3, "residual"),
    )
