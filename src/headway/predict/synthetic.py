"""Made-up small networks of random shapes, whose times teach what this device makes of each sort of operator.

They are drawn, not taken from any model: predictors that learn from them know no model's name or layout, only
shapes. Drawn by number, so that a measurement which was interrupted goes on with the same networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headway.core.errors import HeadwayError
from headway.models.zoo import layers as nn
from headway.models.zoo.attention import join_heads, scores_to_context, split_heads
from headway.models.zoo.builder import GraphBuilder
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

SYNTHETIC_VERSION: Final = 1
"""Of the networks that numbers stand for."""

MOST_MACS: Final = 1.2e9
"""In one network, so that measuring one takes tens of milliseconds on a core."""

MOST_ELEMENTS: Final = 1 << 21
_STREAM: Final = 0x5E7
_ACTIVATIONS: Final = ("Relu", "Relu", "Relu", "Clip", "HardSwish", "Silu", "Sigmoid", "LeakyRelu", "")
_EPSILON: Final = 1e-5
_CONVOLUTIONAL_SORTS: Final = (
    *(2 * ("1x1", "depthwise")),
    *(3 * ("3x3",)),
    *("5x5", "7x7", "grouped", "residual", "squeeze", "branches", "pool", "average", "bare"),
)
_MAPPING_SORTS: Final = (
    *(2 * ("norm", "softmax", "unary", "binary", "transpose")),
    *("row", "concat", "split", "gelu", "gather"),
)


def synthetic_network(number: int, *, family: str | None = None, seed: int = 0) -> ModelProto:
    """The network of that number; `family` is one of FAMILIES, by default the one whose turn it is.

    Raises:
        HeadwayError: an unknown family.
    """
    chosen = FAMILIES[number % len(FAMILIES)] if family is None else family
    if chosen not in _BUILDERS:
        raise HeadwayError(f"synthetic family {chosen!r}; accepted: {', '.join(FAMILIES)}")
    rng = np.random.default_rng([_STREAM, seed, number, FAMILIES.index(chosen)])
    builder = GraphBuilder(f"{chosen}-{number}", seed=seed)
    x = _BUILDERS[chosen](_Draw(rng), builder)
    builder.output(x, "y")
    return builder.finish(f"synthetic {chosen} network {number}")


class _Draw:
    """Random sizes; large and small ones alike, hence even in their logarithm."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def size(self, low: float, high: float, multiple: int = 1) -> int:
        """A whole number between the two, a multiple of the last."""
        drawn = math.exp(self.rng.uniform(math.log(low), math.log(high)))
        return max(multiple, round(drawn / multiple) * multiple)

    def one_of(self, options: Any) -> Any:
        """One of several, all as likely."""
        return options[int(self.rng.integers(len(options)))]

    def happens(self, share: float) -> bool:
        """Whether something of that probability happens."""
        return bool(self.rng.random() < share)


def _activated(draw: _Draw, b: GraphBuilder, x: Tensor) -> Tensor:
    op = draw.one_of(_ACTIVATIONS)
    if op == "Clip":
        return nn.relu6(b, x)
    if op == "Silu":
        return nn.silu(b, x)
    if op == "LeakyRelu":
        return nn.leaky_relu(b, x, 0.1)
    if op == "HardSwish":
        return nn.mul(b, x, b.node("HardSigmoid", [x], x.shape, alpha=1 / 6, beta=0.5))
    return nn.unary(b, op, x) if op else x


def _feature_map(draw: _Draw, b: GraphBuilder, most: int = MOST_ELEMENTS) -> Tensor:
    """An input image of any size, narrow where it is large."""
    batch = draw.one_of((1, 1, 1, 1, 2, 4))
    side = draw.size(4, 128)
    channels = draw.size(3, min(1024, max(8, most / (batch * side * side))), draw.one_of((1, 4, 8, 16)))
    return b.input("x", (batch, channels, side, side))


def _convolutional(draw: _Draw, b: GraphBuilder) -> Tensor:
    x, left = _feature_map(draw, b), MOST_MACS
    for index in range(int(draw.rng.integers(3, 10))):
        with b.scope(str(index)):
            x, used = _convolutional_step(draw, b, x, left)
        left -= used
    return x


def _convolutional_step(draw: _Draw, b: GraphBuilder, x: Tensor, left: float) -> tuple[Tensor, float]:
    """One more layer or small block, and the multiply-accumulates that it needs."""
    batch, channels, side, _ = x.shape
    stride = 2 if side >= 8 and draw.happens(0.25) else 1
    out = draw.size(8, 1024, draw.one_of((1, 8, 8, 16)))
    out_side = -(-side // stride)
    area = batch * out_side * out_side
    out = int(min(out, max(8, MOST_ELEMENTS / area)))
    sort = draw.one_of(_CONVOLUTIONAL_SORTS)
    kernel = {"1x1": 1, "5x5": 5, "7x7": 7}.get(sort, 3)
    macs = area * channels * out * kernel * kernel
    if sort in ("1x1", "3x3", "5x5", "7x7"):
        if macs > left:
            sort = "depthwise"
        else:
            conv = nn.conv(b, x, out, kernel, name="conv", stride=stride)
            return _activated(draw, b, conv), macs
    if sort == "grouped":
        groups = draw.one_of([g for g in (2, 4, 8, 16, 32) if channels % g == 0] or [1])
        macs = area * channels * channels * 9 // groups
        if macs <= left:
            conv = nn.conv(b, x, channels, 3, name="conv", stride=stride, groups=groups)
            return _activated(draw, b, conv), macs
        sort = "depthwise"
    if sort == "residual":
        macs = 2 * area * stride * stride * channels * channels * 9
        if macs <= left:
            inner = nn.relu(b, nn.conv(b, x, channels, 3, name="conv1"))
            return nn.relu(b, nn.add(b, x, nn.conv(b, inner, channels, 3, name="conv2"))), macs
        sort = "bare"
    if sort == "squeeze":
        narrow = max(4, channels // 4)
        gate = nn.relu(b, nn.conv(b, nn.global_average_pool(b, x), narrow, 1, name="down"))
        gate = b.node("HardSigmoid", [nn.conv(b, gate, channels, 1, name="up")], (batch, channels, 1, 1))
        return nn.mul(b, x, gate), 2 * batch * channels * narrow
    if sort == "branches":
        narrow, macs = max(8, channels // 4), 0
        parts = []
        for size in (1, 3):
            parts.append(nn.relu(b, nn.conv(b, x, narrow, size, name=f"branch{size}")))
            macs += batch * side * side * channels * narrow * size * size
        return nn.concat(b, parts), macs
    if sort == "pool" and side >= 4:
        return nn.max_pool(b, x, 3, stride, padding=1), 0
    if sort == "average" and side >= 4:
        return nn.average_pool(b, x, 3, stride=stride, padding=1), 0
    if sort == "bare":
        return _activated(draw, b, nn.add(b, x, x)), 0
    size = draw.one_of((3, 3, 5, 7))
    conv = nn.conv(b, x, channels, size, name="depthwise", stride=stride, groups=channels)
    return _activated(draw, b, conv), area * channels * size * size


def _transformer(draw: _Draw, b: GraphBuilder) -> Tensor:
    heads = draw.one_of((1, 2, 3, 4, 6, 8, 12, 16))
    width = heads * draw.one_of((16, 24, 32, 64, 64, 80))
    batch, length = draw.one_of((1, 1, 1, 2, 8, 49)), draw.size(4, 320)
    ratio = draw.one_of((1, 2, 3, 4))
    dense_macs = batch * width * width * (4 + 2 * ratio)  # for each token
    length = max(
        4, min(length, MOST_ELEMENTS // (batch * max(width, heads * length)), int(MOST_MACS // dense_macs))
    )
    x = b.input("x", (batch, length, width))
    dense = nn.linear if draw.happens(0.5) else nn.token_gemm
    layer = batch * length * width * (4 * width + 2 * length + 2 * ratio * width)
    gelu = draw.one_of((nn.gelu_erf, nn.gelu_tanh, nn.relu))
    for index in range(max(1, min(3, int(MOST_MACS / layer)))):
        with b.scope(str(index)):
            inner = nn.layer_norm(b, x, name="norm1", epsilon=_EPSILON)
            parts = (dense(b, inner, width, name=name, std=0.02) for name in ("query", "key", "value"))
            query, key, value = parts
            scores = nn.matmul(
                b, split_heads(b, query, heads), split_heads(b, key, heads, transposed=True), name="scores"
            )
            scores = nn.div(b, scores, b.constant(8.0)) if draw.happens(0.5) else scores
            context = join_heads(b, scores_to_context(b, scores, split_heads(b, value, heads)))
            x = nn.add(b, x, dense(b, context, width, name="out", std=0.02))
            inner = nn.layer_norm(b, x, name="norm2", epsilon=_EPSILON)
            wide = gelu(b, dense(b, inner, ratio * width, name="up", std=0.02))
            x = nn.add(b, x, dense(b, wide, width, name="down", std=0.02))
    return x


def _dense(draw: _Draw, b: GraphBuilder) -> Tensor:
    rows = draw.one_of((1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256))
    x = b.input("x", (rows, draw.size(16, 4096, draw.one_of((1, 8, 32)))))
    left, weights = MOST_MACS, 24e6
    for index in range(int(draw.rng.integers(2, 7))):
        out = draw.size(16, 4096, draw.one_of((1, 8, 32)))
        out = int(max(8, min(out, left / (rows * x.shape[1]), weights / x.shape[1])))
        left -= rows * x.shape[1] * out
        weights -= x.shape[1] * out
        x = nn.gemm(b, x, out, name=f"dense{index}")
        if draw.happens(0.7):
            x = nn.unary(b, draw.one_of(("Relu", "Relu", "Tanh", "Sigmoid")), x)
    return x


def _mapping(draw: _Draw, b: GraphBuilder) -> Tensor:
    """Elementwise operators, normalisation, softmax and data movement alone."""
    batch, length = draw.one_of((1, 1, 2, 4)), draw.size(4, 512)
    width = draw.size(16, min(4096, max(32, MOST_ELEMENTS / (batch * length))), 4)
    x = b.input("x", (batch, length, width))
    for index in range(int(draw.rng.integers(4, 10))):
        with b.scope(str(index)):
            x = _mapped(draw, b, x)
    return x


def _mapped(draw: _Draw, b: GraphBuilder, x: Tensor) -> Tensor:
    batch, length, width = x.shape
    sort = draw.one_of(_MAPPING_SORTS)
    if sort == "norm":
        return nn.layer_norm(b, x, name="norm", epsilon=_EPSILON)
    if sort == "softmax":
        return nn.softmax(b, x)
    if sort == "binary":
        combined = nn.add if draw.happens(0.5) else nn.mul
        return combined(b, x, nn.unary(b, "Abs", x))
    if sort == "row":
        return nn.mul(b, x, b.parameter("scale", (width,), std=1.0))
    if sort == "transpose":
        return nn.transpose(b, x, (0, 2, 1))
    if sort == "concat" and 2 * batch * length * width <= MOST_ELEMENTS:
        return nn.concat(b, [x, nn.unary(b, "Neg", x)], axis=2)
    if sort == "split" and width % 2 == 0 and width >= 8:
        first, second = nn.split(b, x, 2)
        return nn.mul(b, first, second)
    if sort == "gelu":
        return nn.gelu_erf(b, x)
    if sort == "gather":
        order = b.constant(draw.rng.permutation(length), np.int64)
        return b.node("Gather", [x, order], (batch, length, width), axis=1)
    return nn.unary(b, draw.one_of(("Relu", "Tanh", "Sigmoid", "Exp", "Sqrt", "Erf")), x)


def _recurrent(draw: _Draw, b: GraphBuilder) -> Tensor:
    op = draw.one_of(("LSTM", "LSTM", "GRU"))
    gates = 4 if op == "LSTM" else 3
    steps, batch = draw.size(4, 200), draw.one_of((1, 1, 1, 4))
    x = b.input("x", (steps, batch, draw.size(16, 1024, 8)))
    left = MOST_MACS
    for index in range(int(draw.rng.integers(1, 4))):
        width = x.shape[2]
        # Solves steps * batch * gates * hidden * (width + hidden) <= what is left.
        room = left / (steps * batch * gates)
        most = (-width + math.sqrt(width * width + 4 * room)) / 2
        hidden = int(max(8, min(draw.size(16, 1024, 8), most)))
        left -= steps * batch * gates * hidden * (width + hidden)
        with b.scope(str(index)):
            std = (width + hidden) ** -0.5
            weights = [
                b.parameter("w", (1, gates * hidden, width), std=std),
                b.parameter("r", (1, gates * hidden, hidden), std=std),
                b.parameter("bias", (1, 2 * gates * hidden), std=std),
            ]
            y = b.node(op, [x, *weights], (steps, 1, batch, hidden), name="cell", hidden_size=hidden)
            x = nn.reshape(b, y, (steps, batch, hidden))
    return nn.transpose(b, x, (1, 0, 2))


_BUILDERS: Final[dict[str, Callable[[_Draw, GraphBuilder], Tensor]]] = {
    "convolutional": _convolutional,
    "transformer": _transformer,
    "dense": _dense,
    "mapping": _mapping,
    "recurrent": _recurrent,
}
FAMILIES: Final = (
    "convolutional",
    "transformer",
    "convolutional",
    "dense",
    "convolutional",
    "mapping",
    "recurrent",
)
"""In the order in which they take turns: convolutional ones oftener, for they vary most."""
