"""Output shapes of ONNX Runtime's contributed operators that stand for no single standard operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headway.models.operators import MICROSOFT, NCHWC, Node
from headway.models.tensors import Shape

_Outputs = list[tuple[str, Shape]]


def _attention(node: Node) -> _Outputs:
    x, w = node.input(0).sizes, node.input(1).sizes
    sizes = node.attribute("qkv_hidden_sizes") or [w[-1] // 3] * 3
    batch, length, _ = x
    heads = int(node.attribute("num_heads"))
    past_position = 8 if node.op == "QAttention" else 4
    past = node.input(past_position).sizes[3] if node.has(past_position) else 0
    dtype = node.input(3).dtype if node.op == "QAttention" else node.input(0).dtype
    present = (2, batch, heads, length + past, sizes[0] // heads)
    return [(dtype, (batch, length, sizes[2])), (dtype, present)]


def _multi_head_attention(node: Node) -> _Outputs:
    q = node.input(0)
    heads = int(node.attribute("num_heads"))
    if len(q.sizes) == 5:
        batch, length, _, _, size = q.sizes
        keys, width, size_v = length, heads * size, size
    else:
        batch, length, hidden = q.sizes
        size = hidden // heads
        if node.has(2):
            v = node.input(2).sizes
            keys, width = (v[2], v[1] * v[3]) if len(v) == 4 else (v[1], v[2])
        else:
            keys, width = node.input(1).sizes[1], hidden
        size_v = width // heads
    past = node.input(6).sizes[2] if node.has(6) else 0
    key_cache = (batch, heads, keys + past, size)
    value_cache = (batch, heads, keys + past, size_v)
    return [(q.dtype, (batch, length, width)), (q.dtype, key_cache), (q.dtype, value_cache)]


def _group_query_attention(node: Node) -> _Outputs:
    q = node.input(0)
    batch, length, hidden = q.sizes
    heads, kv_heads = int(node.attribute("num_heads")), int(node.attribute("kv_num_heads"))
    size = hidden // heads if node.has(1) else hidden // (heads + 2 * kv_heads)
    past = node.input(3).sizes[2] if node.has(3) else 0
    cache = (batch, kv_heads, past + length, size)
    return [(q.dtype, (batch, length, heads * size)), (q.dtype, cache), (q.dtype, cache)]


def _embed_layer_normalization(node: Node) -> _Outputs:
    batch, length = node.input(0).sizes
    table = node.input(2)
    hidden = table.sizes[1]
    return [
        (table.dtype, (batch, length, hidden)),
        ("int32", (batch,)),
        (table.dtype, (batch, length, hidden)),
    ]


def _fused_matmul(node: Node) -> _Outputs:
    a, b = list(node.input(0).sizes), list(node.input(1).sizes)
    if node.attribute("transA", 0):
        a[-2:] = a[:-3:-1]
    if node.attribute("transB", 0):
        b[-2:] = b[:-3:-1]
    batch_a, batch_b = a[:-2], b[:-2]
    rank = max(len(batch_a), len(batch_b))
    padded_a = [1] * (rank - len(batch_a)) + batch_a
    padded_b = [1] * (rank - len(batch_b)) + batch_b
    batch = [max(pair) for pair in zip(padded_a, padded_b, strict=True)]
    return [(node.input(0).dtype, (*batch, a[-2], b[-1]))]


def _matmul_nbits(node: Node) -> _Outputs:
    x = node.input(0)
    return [(x.dtype, (*x.sizes[:-1], int(node.attribute("N"))))]


def _qlinear_concat(node: Node) -> _Outputs:
    parts = [node.input(position) for position in range(2, len(node.inputs), 3)]
    sizes = list(parts[0].sizes)
    axis = int(node.attribute("axis", 1)) % len(sizes)
    sizes[axis] = sum(part.sizes[axis] for part in parts)
    return [(parts[0].dtype, tuple(sizes))]


_RULES: Final[dict[str, Callable[[Node], _Outputs]]] = {
    "Attention": _attention,
    "QAttention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "DecoderMaskedMultiHeadAttention": _multi_head_attention,
    "GroupQueryAttention": _group_query_attention,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "MatMulNBits": _matmul_nbits,
    "MatMulBnb4": _matmul_nbits,
    "QLinearConcat": _qlinear_concat,
}


def contributed_outputs(node: Node) -> _Outputs | None:
    """Types and shapes of the outputs, or None for an operator not known here; raises UnknownShapeError."""
    if node.domain == MICROSOFT and node.op in _RULES:
        return _RULES[node.op](node)
    if node.domain == NCHWC and node.op == "ReorderOutput":
        batch, channels, *spatial = node.input(0).sizes
        return [(node.input(0).dtype, (batch, int(node.attribute("channels", channels)), *spatial))]
    return None


def is_contributed(domain: str, op: str) -> bool:
    """Whether a rule here covers the operator."""
    return domain == MICROSOFT and op in _RULES
