"""Convolutions and pooling: sliding windows over feature maps.

One spatial axis becomes OY (the axis of rows), two become OY and OX; of three the last two are folded
into OX, so that rows stay rows of the first spatial axis.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Final

from headway.models.graph import LayerKind, LoopDims
from headway.models.operators import INTERNAL_NHWC, MICROSOFT, NCHWC, Node, Work, channels_last, formula
from headway.models.tensors import Layout, Tensor, UnknownShapeError, map_layout, trimmed

_WINDOW_OF_QLINEAR: Final = frozenset({1, 2, 4, 5, 6, 7})


def _channels_first(node: Node, sizes: tuple[int, ...]) -> tuple[int, ...]:
    last = channels_last(node.domain, node.attributes)
    return (sizes[0], sizes[-1], *sizes[1:-1]) if last else sizes


def _rows(node: Node, sizes: tuple[int, ...]) -> Layout:
    return trimmed((0, 1), sizes) if channels_last(node.domain, node.attributes) else map_layout(sizes)


def _spatial_pads(
    node: Node, sizes: tuple[int, ...], kernel: tuple[int, ...], outputs: tuple[int, ...]
) -> tuple[int, ...]:
    """Pads [begin..., end...] as the node gives them, or as auto_pad implies them from the output size."""
    rank = len(kernel)
    strides = node.attribute("strides") or [1] * rank
    dilations = node.attribute("dilations") or [1] * rank
    mode = node.attribute("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for axis in range(rank):
            span = dilations[axis] * (kernel[axis] - 1) + 1
            total = max(0, (outputs[axis] - 1) * strides[axis] + span - sizes[axis])
            small, large = total // 2, total - total // 2
            begin.append(small if mode == "SAME_UPPER" else large)
            end.append(large if mode == "SAME_UPPER" else small)
        return (*begin, *end)
    if mode == "VALID":
        return (0,) * (2 * rank)
    return tuple(node.attribute("pads") or [0] * (2 * rank))


def _window_dims(
    node: Node,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    outputs: tuple[int, ...],
    channels_out: int,
    channels_in: int,
    groups: int,
) -> LoopDims:
    rank = len(kernel)
    if rank < 1 or len(sizes) != rank + 2 or len(outputs) != rank + 2:
        raise UnknownShapeError(node.label)
    strides = tuple(node.attribute("strides") or [1] * rank)
    dilations = tuple(node.attribute("dilations") or [1] * rank)
    pads = _spatial_pads(node, sizes[2:], kernel, outputs[2:])
    flat = rank >= 2
    return LoopDims(
        B=outputs[0],
        K=channels_out,
        C=channels_in,
        OY=outputs[2],
        OX=prod(outputs[3:]),
        FY=kernel[0],
        FX=prod(kernel[1:]),
        stride_y=strides[0],
        stride_x=strides[1] if flat else 1,
        pad_top=pads[0],
        pad_left=pads[1] if flat else 0,
        pad_bottom=pads[rank],
        pad_right=pads[rank + 1] if flat else 0,
        dilation_y=dilations[0],
        dilation_x=dilations[1] if flat else 1,
        groups=groups,
        IY=sizes[2],
        IX=prod(sizes[3:]),
    )


def _convolution(
    node: Node, data: int, weight: int, bias: int, settings: frozenset[int] = frozenset()
) -> Work:
    x, w, y = node.input(data), node.input(weight), node.output
    groups = int(node.attribute("group", 1))
    sizes, outputs = _channels_first(node, x.sizes), _channels_first(node, y.sizes)
    dims = _window_dims(node, sizes, w.sizes[2:], outputs, outputs[1], sizes[1], groups)
    vector_ops = y.elements if node.has(bias) and bias not in settings else 0
    layout = _rows(node, y.sizes)
    wants = {data: _rows(node, x.sizes)}
    activation = node.attribute("activation")
    if activation:
        vector_ops += y.elements
    summands = [
        position
        for position, tensor in node.activations
        if position not in (data, weight, bias) and tensor.known and tensor.sizes == y.sizes
    ]
    for position in summands:
        wants[position] = layout  # of a fused residual connection
        vector_ops += y.elements
    return Work(
        kind=LayerKind.CONV,
        dims=dims,
        macs=dims.macs,
        vector_ops=vector_ops,
        layout=layout,
        wants=wants,
        row_kernel=dims.dilation_y * (dims.FY - 1) + 1,
        row_stride=float(dims.stride_y),
        row_pad=dims.pad_top,
        settings=settings,
        at_output=frozenset((*summands, bias)),
        weight_is_activation=not w.constant,
        note=f"fused {activation}" if activation else "",
    )


@formula("Conv")
@formula("FusedConv", domain=MICROSOFT)
@formula("Conv", domain=NCHWC)
@formula("Conv", domain=INTERNAL_NHWC)
def conv(node: Node) -> Work:
    """Convolution, grouped and depthwise included, with whatever an optimiser fused into it."""
    return _convolution(node, 0, 1, 2)


@formula("ConvInteger")
def conv_integer(node: Node) -> Work:
    """Integer convolution with zero points."""
    return _convolution(node, 0, 1, -1, frozenset({2, 3}))


@formula("QLinearConv")
@formula("QLinearConv", domain=MICROSOFT)
def qlinear_conv(node: Node) -> Work:
    """Quantised convolution; its output is requantised, two operations an element."""
    work = _convolution(node, 0, 3, 8, _WINDOW_OF_QLINEAR)
    work.vector_ops += 2 * node.output.elements
    return work


@formula("ConvTranspose")
def conv_transpose(node: Node) -> Work:
    """Transposed convolution: MACs = input pixels x C x (K / groups) x filter, as each input pixel is spread.

    The loop nest runs over input pixels (OY, OX), which gives this count. An output row needs
    ceil(filter / stride) input rows and moves on by 1 / stride of a row.
    """
    x, w, y = node.input(0), node.input(1), node.output
    groups = int(node.attribute("group", 1))
    sizes, filters, outputs = x.sizes, w.sizes, y.sizes
    rank = len(filters) - 2
    strides = tuple(node.attribute("strides") or [1] * rank)
    dilations = tuple(node.attribute("dilations") or [1] * rank)
    pads = tuple(node.attribute("pads") or [0] * (2 * rank))
    dims = LoopDims(
        B=sizes[0],
        K=filters[1] * groups,
        C=sizes[1],
        OY=sizes[2],
        OX=prod(sizes[3:]),
        FY=filters[2],
        FX=prod(filters[3:]),
        groups=groups,
        IY=sizes[2],
        IX=prod(sizes[3:]),
    )
    span = dilations[0] * (filters[2] - 1) + 1
    return Work(
        kind=LayerKind.CONV,
        dims=dims,
        macs=dims.macs,
        vector_ops=y.elements if node.has(2) else 0,
        layout=map_layout(outputs),
        wants={0: map_layout(sizes)},
        row_kernel=ceil(span / strides[0]),
        row_stride=1 / strides[0],
        row_pad=pads[0] // strides[0],
        weight_is_activation=not w.constant,
        note="transposed: the loop nest runs over input pixels",
    )


@formula("DeformConv")
def deform_conv(node: Node) -> Work:
    """Deformable convolution: the dense product and four multiply-adds a sample, which may lie in any row."""
    work = _convolution(node, 0, 1, 3)
    filters = node.input(1).sizes
    samples = work.dims.B * work.dims.C * work.dims.m * prod(filters[2:])
    work.vector_ops += 8 * samples
    work.wants = {}
    return work


def _pool(node: Node, x: Tensor, settings: frozenset[int] = frozenset()) -> Work:
    y = node.output
    kernel = tuple(node.attribute("kernel_shape") or ())
    sizes, outputs = _channels_first(node, x.sizes), _channels_first(node, y.sizes)
    dims = _window_dims(node, sizes, kernel, outputs, outputs[1], sizes[1], sizes[1])
    return Work(
        kind=LayerKind.POOL,
        dims=dims,
        vector_ops=y.elements * prod(kernel),
        layout=_rows(node, y.sizes),
        wants={0: _rows(node, x.sizes)},
        row_kernel=dims.dilation_y * (dims.FY - 1) + 1,
        row_stride=float(dims.stride_y),
        row_pad=dims.pad_top,
        settings=settings,
    )


@formula("MaxPool", "AveragePool", "LpPool")
@formula("MaxPool", "AveragePool", domain=NCHWC)
@formula("MaxPool", "AveragePool", domain=INTERNAL_NHWC)
def pool(node: Node) -> Work:
    """A window's maximum or mean: one operation per element of the window."""
    return _pool(node, node.input(0))


@formula("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(node: Node) -> Work:
    """Mean of a quantised window."""
    return _pool(node, node.input(0), frozenset({1, 2, 3, 4}))
