"""Reductions, and normalisations (a reduction followed by a map)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headway.models.graph import LayerKind
from headway.models.operators import MICROSOFT, NCHWC, Node, Work, formula, same_rows
from headway.models.tensors import (
    Layout,
    Tensor,
    UnknownShapeError,
    matrix_layout,
    reduced_layout,
    usual_layout,
)

# Operations an element: mean, difference, square, sum, root and scale, shift, with the shares of an element.
_NORM_OPS: Final[dict[str, int]] = {
    "Softmax": 5,
    "QLinearSoftmax": 8,
    "LogSoftmax": 6,
    "Hardmax": 2,
    "LayerNormalization": 8,
    "SkipLayerNormalization": 10,
    "SimplifiedLayerNormalization": 5,
    "SkipSimplifiedLayerNormalization": 7,
    "RMSNormalization": 5,
    "InstanceNormalization": 8,
    "GroupNormalization": 8,
    "GroupNorm": 8,
    "SkipGroupNorm": 10,
    "MeanVarianceNormalization": 6,
    "LpNormalization": 4,
}


def _axis_norm(node: Node, axes: range | list[int]) -> Work:
    """A normalisation over some axes: row by row if no row axis is among them."""
    layout, wants = same_rows(node)
    sizes = node.input(0).sizes
    crossed = {axis for axis in axes if sizes[axis] > 1} & set(layout)
    if crossed and node.input(0).layout is None:
        # The input has no order of rows yet: take the rows that suit.
        others = matrix_layout(sizes)
        if not crossed & set(others):
            layout, wants, crossed = others, {0: others}, set()
    return Work(
        kind=LayerKind.NORM,
        vector_ops=_NORM_OPS[node.op] * node.input(0).elements,
        layout=None if crossed else layout,
        wants={} if crossed else wants,
    )


@formula("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def softmax(node: Node) -> Work:
    """Over one axis; before opset 13 over all axes from the given one on."""
    rank = len(node.input(0).sizes)
    coerced = node.version < 13 and node.op != "LpNormalization"
    axis = int(node.attribute("axis", 1 if coerced else -1)) % max(rank, 1)
    return _axis_norm(node, range(axis, rank) if coerced else [axis] if rank else [])


@formula("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
@formula("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def layer_normalization(node: Node) -> Work:
    """Over the last axes; the Skip forms add a second operand first."""
    rank = len(node.input(0).sizes)
    axis = int(node.attribute("axis", -1)) % rank
    return _axis_norm(node, range(axis, rank))


@formula("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: Node) -> Work:
    """The quantised form: three operations more to rescale. `opset` is the version whose axis it follows."""
    rank = len(node.input(0).sizes)
    coerced = int(node.attribute("opset", 13)) < 13
    axis = int(node.attribute("axis", -1)) % max(rank, 1)
    work = _axis_norm(node, range(axis, rank) if coerced else [axis])
    return replace(work, settings=frozenset({1, 2, 3, 4}))


@formula("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization")
@formula("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def map_normalization(node: Node) -> Work:
    """Over whole feature maps: all rows must be there first."""
    return Work(kind=LayerKind.NORM, vector_ops=_NORM_OPS[node.op] * node.input(0).elements)


@formula("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: Node) -> Work:
    """Two or three table look-ups, their sum, and a layer normalisation."""
    y = node.output
    tables = 3 if node.has(4) else 2
    layout = matrix_layout(y.sizes)
    return Work(
        kind=LayerKind.NORM,
        vector_ops=(8 + 2 * tables - 1) * y.elements,
        layout=layout,
        wants={0: layout, 1: layout},
    )


@formula("LRN")
def local_response_normalization(node: Node) -> Work:
    """A window over channels: square, sum over the window, power, divide."""
    layout, wants = same_rows(node)
    size = int(node.attribute("size", 5))
    return Work(kind=LayerKind.NORM, vector_ops=(size + 4) * node.output.elements, layout=layout, wants=wants)


def _reduction(node: Node, x: Tensor, axes: list[int], keep_dims: bool, settings: frozenset[int]) -> Work:
    sizes = x.sizes
    layout: Layout = x.layout if x.layout is not None else usual_layout(sizes)
    real = [axis for axis in axes if sizes[axis] > 1]
    after = reduced_layout(layout, axes, keep_dims) if not set(layout) & set(real) else None
    return Work(
        kind=LayerKind.REDUCE,
        vector_ops=x.elements,
        layout=after,
        wants={0: layout} if after is not None else {},
        settings=settings,
    )


@formula("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
@formula("GlobalAveragePool", "GlobalMaxPool", domain=NCHWC)
def global_pool(node: Node) -> Work:
    """Over all spatial axes: a barrier."""
    return Work(kind=LayerKind.REDUCE, vector_ops=node.input(0).elements)


@formula("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_pool(node: Node) -> Work:
    """The quantised form."""
    x, settings = node.input(0), frozenset({1, 2, 3, 4})
    return Work(kind=LayerKind.REDUCE, vector_ops=x.elements, settings=settings)


@formula(
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
@formula("QLinearReduceMean", domain=MICROSOFT)
def reduce(node: Node) -> Work:
    """Over the given axes, which are an attribute or (later opsets) an input."""
    x = node.input(0)
    rank = len(x.sizes)
    given = node.attribute("axes")
    if given is None and node.op != "QLinearReduceMean" and node.has(1):
        value = node.input(1).value
        if value is None:
            raise UnknownShapeError(node.label)
        given = [int(axis) for axis in value.reshape(-1)]
    if not given:
        given = [] if node.attribute("noop_with_empty_axes", 0) else list(range(rank))
    settings = frozenset({1, 2, 3, 4}) if node.op == "QLinearReduceMean" else frozenset({1})
    return _reduction(node, x, [axis % rank for axis in given], bool(node.attribute("keepdims", 1)), settings)


@formula("ArgMax", "ArgMin")
def arg_reduce(node: Node) -> Work:
    """Over one axis."""
    x = node.input(0)
    axis = int(node.attribute("axis", 0)) % max(1, len(x.sizes))
    return _reduction(node, x, [axis], bool(node.attribute("keepdims", 1)), frozenset())


@formula("CumSum", "CumProd")
def cumulative(node: Node) -> Work:
    """One operation an element, in sequence along an axis."""
    return Work(kind=LayerKind.REDUCE, vector_ops=node.output.elements, settings=frozenset({1}))


@formula("NonMaxSuppression")
def non_max_suppression(node: Node) -> Work:
    """All pairs of boxes in the worst case, some sixteen operations each, for each batch and class."""
    batch, boxes, _ = node.input(0).sizes
    classes = node.input(1).sizes[1]
    return Work(
        kind=LayerKind.OTHER,
        vector_ops=16 * batch * classes * boxes * (boxes - 1) // 2 + batch * classes * boxes,
        settings=frozenset({2, 3, 4}),
        note="priced for the worst case: every pair of boxes is compared",
    )


@formula("TopK")
def top_k(node: Node) -> Work:
    """A heap of k: elements x log2 k comparisons."""
    x = node.input(0)
    k = max(2, node.output.sizes[int(node.attribute("axis", -1))])
    return Work(kind=LayerKind.REDUCE, vector_ops=x.elements * (k - 1).bit_length(), settings=frozenset({1}))


@formula("NonZero", "Unique", "Compress")
def selection(node: Node) -> Work:
    """One comparison an input element; how many come out depends on the data."""
    return Work(
        kind=LayerKind.REDUCE,
        vector_ops=max(node.input(0).elements, node.output.elements),
        note="the size of its output depends on the data",
    )
