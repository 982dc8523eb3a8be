"""Attention in one node: ONNX's own and the fused forms that exporters and optimisers write.

Scores and context are two products of activations, heads x queries x keys x (head size + value size)
multiply-accumulates, with a softmax over the scores (five operations each: maximum, subtract, exponential,
sum, divide). A causal mask does not lower the count, as padding does not.
"""

from __future__ import annotations

from math import prod

from headway.models.graph import LayerKind, LoopDims
from headway.models.operators import MICROSOFT, Node, Work, formula
from headway.models.tensors import UnknownShapeError, matrix_layout

SOFTMAX_OPS = 5


def attention_work(
    node: Node, *, batch: int, heads: int, queries: int, keys: int, size: int, value_size: int
) -> Work:
    """Scores, softmax and context. Queries are rows, unless a head axis comes between; keys are a barrier."""
    dims = LoopDims(B=batch * heads, OY=queries, C=size + value_size, K=keys, IY=queries)
    query = node.input(0)
    wants = {}
    layout = None
    if len(query.sizes) == 3 and node.output.sizes[:2] == query.sizes[:2]:
        layout = matrix_layout(node.output.sizes)
        wants = {0: layout}
    return Work(
        kind=LayerKind.MATMUL,
        dims=dims,
        macs=dims.macs,
        vector_ops=(SOFTMAX_OPS + 1) * batch * heads * queries * keys,
        layout=layout,
        wants=wants,
        weight_is_activation=True,
        note="scores and context as one nest: C is head size + value size, K the keys",
    )


@formula("Attention")
def attention(node: Node) -> Work:
    """ONNX Attention (opset 23): [batch, heads, length, size], or [batch, length, heads x size]."""
    q, k, v = (node.input(position).sizes for position in range(3))
    past = node.input(4).sizes[2] if node.has(4) else 0
    if len(q) == 4:
        heads, queries, size = q[1:]
        keys, value_size = k[2], v[3]
    else:
        heads = int(node.attribute("q_num_heads", 0))
        kv_heads = int(node.attribute("kv_num_heads", 0))
        if not heads or not kv_heads:
            raise UnknownShapeError(node.label)
        queries, size, keys, value_size = q[1], q[2] // heads, k[1], v[2] // kv_heads
    return attention_work(
        node, batch=q[0], heads=heads, queries=queries, keys=keys + past, size=size, value_size=value_size
    )


@formula("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node) -> Work:
    """Attention after projections: query [batch, length, hidden], or QKV [batch, length, heads, 3, size]."""
    heads = int(node.attribute("num_heads"))
    q = node.input(0).sizes
    past = node.input(6).sizes[2] if node.has(6) else 0
    if len(q) == 5:
        batch, queries, _, _, size = q
        keys, value_size = queries, size
    elif not node.has(2):
        packed = node.input(1).sizes
        batch, queries, size = q[0], q[1], q[2] // heads
        keys, value_size = packed[1], size
    else:
        k, v = node.input(1).sizes, node.input(2).sizes
        batch, queries, size = q[0], q[1], q[2] // heads
        keys = k[2] if len(k) == 4 else k[1]
        value_size = v[3] if len(v) == 4 else v[2] // heads
    return attention_work(
        node, batch=batch, heads=heads, queries=queries, keys=keys + past, size=size, value_size=value_size
    )


@formula("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: Node) -> Work:
    """Attention whose key and value heads are shared by groups of query heads, with a cache."""
    heads, kv_heads = int(node.attribute("num_heads")), int(node.attribute("kv_num_heads"))
    batch, queries, hidden = node.input(0).sizes
    size = hidden // heads if node.has(1) else hidden // (heads + 2 * kv_heads)
    past = node.input(3).sizes[2] if node.has(3) else 0
    return attention_work(
        node, batch=batch, heads=heads, queries=queries, keys=past + queries, size=size, value_size=size
    )


@formula("Attention", "QAttention", domain=MICROSOFT)
def attention_with_projection(node: Node) -> Work:
    """QKV projection and attention in one: input [batch, length, hidden], weight [hidden, q + k + v].

    The nest is the projection's; `macs` adds scores and context.
    """
    batch, length, hidden = node.input(0).sizes
    weight = node.input(1).sizes
    heads = int(node.attribute("num_heads"))
    sizes = node.attribute("qkv_hidden_sizes") or [weight[-1] // 3] * 3
    past_position = 4 if node.op == "Attention" else 8
    past = node.input(past_position).sizes[3] if node.has(past_position) else 0
    projection = LoopDims(OY=batch * length, C=hidden, K=prod(weight[1:]), IY=batch * length)
    products = batch * length * (length + past) * (sizes[0] + sizes[2])
    scores = batch * heads * length * (length + past)
    bias = batch * length * weight[-1] if node.has(2) else 0
    return Work(
        kind=LayerKind.MATMUL,
        dims=projection,
        macs=projection.macs + products,
        vector_ops=bias + (SOFTMAX_OPS + 1) * scores,
        layout=matrix_layout(node.output.sizes),
        settings=frozenset({3, 4, 6, 7}) if node.op == "QAttention" else frozenset(),
        note="projection, scores and context; the nest is the projection's",
    )
