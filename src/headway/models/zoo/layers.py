"""The operators that the zoo's models share, each added to a GraphBuilder with its output shape.

Images are NCHW, convolution weights are out x in x height x width, as in PyTorch's exports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

Pair = int | tuple[int, int]

# He et al., "Delving Deep into Rectifiers", ICCV 2015: weights of variance 2 / fan_in keep the variance of
# activations through a layer with ReLU behind it; without one it is 1 / fan_in.
RELU_GAIN = math.sqrt(2.0)
LINEAR_GAIN = 1.0
BIAS_STD = 0.01


def conv(
    b: GraphBuilder,
    x: Tensor,
    channels: int,
    kernel: Pair,
    *,
    name: str,
    stride: Pair = 1,
    padding: Pair | None = None,
    groups: int = 1,
    bias: bool = True,
    gain: float = RELU_GAIN,
) -> Tensor:
    """2-D convolution; ``padding`` defaults to half the kernel, which keeps the size at stride 1."""
    kernel_y, kernel_x = _pair(kernel)
    strides = _pair(stride)
    pads = (kernel_y // 2, kernel_x // 2) if padding is None else _pair(padding)
    batch, in_channels, *size = x.shape
    fan_in = in_channels // groups * kernel_y * kernel_x
    shape = (channels, in_channels // groups, kernel_y, kernel_x)
    inputs = [x, b.parameter(f"{name}.weight", shape, std=gain / math.sqrt(fan_in))]
    if bias:
        inputs.append(b.parameter(f"{name}.bias", (channels,), std=BIAS_STD))
    out = _window_sizes(size, (kernel_y, kernel_x), strides, pads)
    return b.node(
        "Conv",
        inputs,
        (batch, channels, *out),
        name=name,
        kernel_shape=[kernel_y, kernel_x],
        strides=list(strides),
        pads=[*pads, *pads],
        dilations=[1, 1],
        group=groups,
    )


def conv_transpose(
    b: GraphBuilder, x: Tensor, channels: int, kernel: int, *, name: str, stride: int, padding: int = 0
) -> Tensor:
    """2-D transposed convolution that enlarges both sides exactly ``stride`` times."""
    batch, in_channels, height, width = x.shape
    output_padding = stride - kernel + 2 * padding
    std = RELU_GAIN / math.sqrt(in_channels * (kernel / stride) ** 2)
    weight = b.parameter(f"{name}.weight", (in_channels, channels, kernel, kernel), std=std)
    return b.node(
        "ConvTranspose",
        [x, weight, b.parameter(f"{name}.bias", (channels,), std=BIAS_STD)],
        (batch, channels, height * stride, width * stride),
        name=name,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[padding] * 4,
        output_padding=[output_padding, output_padding],
    )


def gemm(b: GraphBuilder, x: Tensor, features: int, *, name: str, std: float | None = None) -> Tensor:
    """Fully connected layer on a matrix, its weight stored out x in."""
    rows, in_features = x.shape
    weight_std = RELU_GAIN / math.sqrt(in_features) if std is None else std
    weight = b.parameter(f"{name}.weight", (features, in_features), std=weight_std)
    bias = b.parameter(f"{name}.bias", (features,), std=BIAS_STD)
    return b.node("Gemm", [x, weight, bias], (rows, features), name=name, transB=1)


def linear(b: GraphBuilder, x: Tensor, features: int, *, name: str, std: float) -> Tensor:
    """Fully connected layer on the last axis of a tensor of any rank, as MatMul and Add."""
    weight = b.parameter(f"{name}.weight", (x.shape[-1], features), std=std)
    return add(b, matmul(b, x, weight, name=name), b.parameter(f"{name}.bias", (features,), std=BIAS_STD))


def token_gemm(b: GraphBuilder, x: Tensor, features: int, *, name: str, std: float) -> Tensor:
    """Fully connected layer on N x S x width as one Gemm over all N x S rows, as GPT-2's exports have it."""
    batch, length, width = x.shape
    rows = gemm(b, reshape(b, x, (batch * length, width)), features, name=name, std=std)
    return reshape(b, rows, (batch, length, features))


def matmul(b: GraphBuilder, x: Tensor, y: Tensor, *, name: str) -> Tensor:
    """Matrix product over the last two axes, leading axes broadcast."""
    leading = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return b.node("MatMul", [x, y], (*leading, x.shape[-2], y.shape[-1]), name=name)


def unary(b: GraphBuilder, op: str, x: Tensor) -> Tensor:
    """An operator that works element by element: Relu, Sigmoid, Tanh, Erf and the like."""
    return b.node(op, [x], x.shape)


def relu(b: GraphBuilder, x: Tensor) -> Tensor:
    """max(x, 0)."""
    return unary(b, "Relu", x)


def relu6(b: GraphBuilder, x: Tensor) -> Tensor:
    """min(max(x, 0), 6), as Clip."""
    return b.node("Clip", [x, b.constant(0.0), b.constant(6.0)], x.shape)


def leaky_relu(b: GraphBuilder, x: Tensor, slope: float) -> Tensor:
    """x where positive, else slope times x."""
    return b.node("LeakyRelu", [x], x.shape, alpha=slope)


def prelu(b: GraphBuilder, x: Tensor, *, name: str) -> Tensor:
    """LeakyRelu with one learned slope per channel (0.25 at first, as in the PReLU paper)."""
    slope = b.parameter(f"{name}.slope", (x.shape[1], 1, 1), mean=0.25, std=BIAS_STD)
    return b.node("PRelu", [x, slope], x.shape, name=name)


def silu(b: GraphBuilder, x: Tensor) -> Tensor:
    """x times sigmoid(x), as exporters write it."""
    return mul(b, x, unary(b, "Sigmoid", x))


def gelu_erf(b: GraphBuilder, x: Tensor) -> Tensor:
    """Exact GELU, x/2 (1 + erf(x / sqrt 2)), node by node as exporters write it."""
    inner = unary(b, "Erf", div(b, x, b.constant(math.sqrt(2.0))))
    return mul(b, mul(b, x, add(b, inner, b.constant(1.0))), b.constant(0.5))


def gelu_tanh(b: GraphBuilder, x: Tensor) -> Tensor:
    """GPT-2's GELU, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), node by node as exporters write it."""
    cubed = b.node("Pow", [x, b.constant(3.0)], x.shape)
    inner = add(b, x, mul(b, cubed, b.constant(0.044715)))
    curve = unary(b, "Tanh", mul(b, inner, b.constant(math.sqrt(2.0 / math.pi))))
    return mul(b, mul(b, x, b.constant(0.5)), add(b, curve, b.constant(1.0)))


def add(b: GraphBuilder, x: Tensor, y: Tensor) -> Tensor:
    """x + y, broadcast."""
    return _binary(b, "Add", x, y)


def mul(b: GraphBuilder, x: Tensor, y: Tensor) -> Tensor:
    """x * y, broadcast."""
    return _binary(b, "Mul", x, y)


def div(b: GraphBuilder, x: Tensor, y: Tensor) -> Tensor:
    """x / y, broadcast."""
    return _binary(b, "Div", x, y)


def concat(b: GraphBuilder, parts: Sequence[Tensor], *, axis: int = 1) -> Tensor:
    """The parts one after the other along ``axis``; their other sides must agree."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return b.node("Concat", parts, tuple(shape), axis=axis)


def split(b: GraphBuilder, x: Tensor, parts: int, *, axis: int = -1) -> tuple[Tensor, ...]:
    """Equal parts along an axis."""
    shape = list(x.shape)
    shape[axis] //= parts
    sizes = b.constant([shape[axis]] * parts, np.int64)
    return b.node_with_outputs("Split", [x, sizes], [tuple(shape)] * parts, dtype=x.dtype, axis=axis)


def reshape(b: GraphBuilder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same elements in the given static shape."""
    return b.node("Reshape", [x, b.constant(shape, np.int64)], shape)


def transpose(b: GraphBuilder, x: Tensor, order: tuple[int, ...]) -> Tensor:
    """The axes in a new order."""
    return b.node("Transpose", [x], tuple(x.shape[axis] for axis in order), perm=list(order))


def flatten(b: GraphBuilder, x: Tensor) -> Tensor:
    """Everything but the batch in one axis."""
    return b.node("Flatten", [x], (x.shape[0], math.prod(x.shape[1:])), axis=1)


def softmax(b: GraphBuilder, x: Tensor) -> Tensor:
    """Softmax over the last axis."""
    return b.node("Softmax", [x], x.shape, axis=-1)


def gather_rows(b: GraphBuilder, table: Tensor, rows: Tensor) -> Tensor:
    """The table's rows at the given indices (an embedding lookup)."""
    return b.node("Gather", [table, rows], (*rows.shape, *table.shape[1:]), axis=0)


def layer_norm(b: GraphBuilder, x: Tensor, *, name: str, epsilon: float) -> Tensor:
    """Layer normalisation over the last axis, with scale and shift."""
    scale = b.parameter(f"{name}.weight", (x.shape[-1],), mean=1.0, std=BIAS_STD)
    shift = b.parameter(f"{name}.bias", (x.shape[-1],), std=BIAS_STD)
    return b.node("LayerNormalization", [x, scale, shift], x.shape, name=name, axis=-1, epsilon=epsilon)


def cast(b: GraphBuilder, x: Tensor, dtype: int) -> Tensor:
    """The same values in another element type."""
    return b.node("Cast", [x], x.shape, dtype=dtype, to=dtype)


def max_pool(
    b: GraphBuilder, x: Tensor, kernel: int, stride: int, *, padding: int = 0, ceil: bool = False
) -> Tensor:
    """Maximum over square windows; ``ceil`` keeps a last window that is only partly inside."""
    strides, pads = (stride, stride), (padding, padding)
    out = _window_sizes(x.shape[2:], (kernel, kernel), strides, pads, ceil=ceil)
    return b.node(
        "MaxPool",
        [x],
        (*x.shape[:2], *out),
        kernel_shape=[kernel, kernel],
        strides=list(strides),
        pads=[*pads, *pads],
        ceil_mode=int(ceil),
    )


def average_pool(
    b: GraphBuilder, x: Tensor, kernel: Pair, *, stride: Pair | None = None, padding: int = 0
) -> Tensor:
    """Mean over windows, which do not overlap unless a stride is given; padding counts, as in PyTorch."""
    sides, pads = _pair(kernel), (padding, padding)
    strides = sides if stride is None else _pair(stride)
    out = _window_sizes(x.shape[2:], sides, strides, pads)
    return b.node(
        "AveragePool",
        [x],
        (*x.shape[:2], *out),
        kernel_shape=list(sides),
        strides=list(strides),
        pads=[*pads, *pads],
        count_include_pad=1,
    )


def global_average_pool(b: GraphBuilder, x: Tensor) -> Tensor:
    """The mean of each channel, N x C x 1 x 1."""
    return b.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1))


def unsqueeze(b: GraphBuilder, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """New axes of size one at the given places of the result, in rising order."""
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, 1)
    return b.node("Unsqueeze", [x, b.constant(axes, np.int64)], tuple(shape))


def positions(b: GraphBuilder, length: int) -> Tensor:
    """0 .. length-1 as a 1 x length int64 constant, to look up position embeddings."""
    return b.constant(np.arange(length)[None, :], np.int64)


def _binary(b: GraphBuilder, op: str, x: Tensor, y: Tensor) -> Tensor:
    return b.node(op, [x, y], np.broadcast_shapes(x.shape, y.shape))


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _window_sizes(
    sizes: Sequence[int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int],
    *,
    ceil: bool = False,
) -> tuple[int, ...]:
    def steps(size: int, side: int, stride: int, pad: int) -> int:
        room = size + 2 * pad - side
        return (-(-room // stride) if ceil else room // stride) + 1

    return tuple(steps(*side) for side in zip(sizes, kernel, strides, pads, strict=True))
