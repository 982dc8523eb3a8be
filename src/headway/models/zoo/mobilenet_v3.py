"""MobileNetV3: inverted residuals with squeeze and excitation and hard swish; SSDLite stands on it too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import (
    IMAGE_224,
    IMAGE_SIZE_224,
    IMAGENET_CLASSES,
    image_input,
    round_to_eight,
)
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.squeeze_excite import squeeze_excite
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder


@dataclass(frozen=True, slots=True)
class Row:
    """One block: a row of Table 1 or 2 of the paper."""

    kernel: int
    expanded: int
    channels: int
    gated: bool  # with squeeze and excitation
    hard: bool  # hard swish in place of ReLU
    stride: int


LARGE = (
    Row(3, 16, 16, False, False, 1),
    Row(3, 64, 24, False, False, 2),
    Row(3, 72, 24, False, False, 1),
    Row(5, 72, 40, True, False, 2),
    Row(5, 120, 40, True, False, 1),
    Row(5, 120, 40, True, False, 1),
    Row(3, 240, 80, False, True, 2),
    Row(3, 200, 80, False, True, 1),
    Row(3, 184, 80, False, True, 1),
    Row(3, 184, 80, False, True, 1),
    Row(3, 480, 112, True, True, 1),
    Row(3, 672, 112, True, True, 1),
    Row(5, 672, 160, True, True, 2),
    Row(5, 960, 160, True, True, 1),
    Row(5, 960, 160, True, True, 1),
)
SMALL = (
    Row(3, 16, 16, True, False, 2),
    Row(3, 72, 24, False, False, 2),
    Row(3, 88, 24, False, False, 1),
    Row(5, 96, 40, True, True, 2),
    Row(5, 240, 40, True, True, 1),
    Row(5, 240, 40, True, True, 1),
    Row(5, 120, 48, True, True, 1),
    Row(5, 144, 48, True, True, 1),
    Row(5, 288, 96, True, True, 2),
    Row(5, 576, 96, True, True, 1),
    Row(5, 576, 96, True, True, 1),
)
# Width of the layer between pooling and classes.
HEADS = {"large": (LARGE, 1280), "small": (SMALL, 1024)}


def stem(b: GraphBuilder, image: Tensor) -> Tensor:
    """The first convolution, to 16 channels at half the size."""
    return hard_swish(b, nn.conv(b, image, 16, 3, name="features.0", stride=2))


def inverted_residual(b: GraphBuilder, x: Tensor, row: Row) -> tuple[Tensor, Tensor]:
    """The expanded features inside a block, and its output."""
    activation = hard_swish if row.hard else nn.relu
    expanded = x
    if row.expanded != x.shape[1]:
        expanded = activation(b, nn.conv(b, x, row.expanded, 1, name="expand"))
    y = nn.conv(
        b, expanded, row.expanded, row.kernel, name="depthwise", stride=row.stride, groups=row.expanded
    )
    y = activation(b, y)
    if row.gated:
        reduced = round_to_eight(row.expanded // 4)
        y = squeeze_excite(b, y, reduced, gate=_hard_sigmoid)
    y = nn.conv(b, y, row.channels, 1, name="project")
    return expanded, nn.add(b, y, x) if row.stride == 1 and x.shape[1] == row.channels else y


def last_convolution(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """The 1 x 1 convolution behind the blocks, to six times their width."""
    return hard_swish(b, nn.conv(b, x, 6 * x.shape[1], 1, name=name))


def hard_swish(b: GraphBuilder, x: Tensor) -> Tensor:
    """x times hard sigmoid of x, as one node."""
    return nn.unary(b, "HardSwish", x)


def _hard_sigmoid(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.node("HardSigmoid", [x], x.shape, alpha=1 / 6, beta=0.5)


def _mobilenet_v3(
    b: GraphBuilder, batch: int, *, image_size: int, rows: tuple[Row, ...], head_width: int
) -> None:
    x = stem(b, image_input(b, batch, image_size))
    for index, row in enumerate(rows, start=1):
        with b.scope(f"features.{index}"):
            _, x = inverted_residual(b, x, row)
    x = last_convolution(b, x, f"features.{len(rows) + 1}")
    x = nn.gemm(b, nn.flatten(b, nn.global_average_pool(b, x)), head_width, name="classifier.0")
    b.output(nn.gemm(b, hard_swish(b, x), IMAGENET_CLASSES, name="classifier.1"), "logits")


for _size, (_rows, _head_width) in HEADS.items():
    zoo_model(
        f"mobilenet_v3_{_size}",
        family="mobilenet",
        summary=f"MobileNetV3-{_size} (width 1.0) image classifier",
        inputs=IMAGE_224,
        source="Howard et al., Searching for MobileNetV3, ICCV 2019; layout of torchvision",
        options=(IMAGE_SIZE_224,),
    )(partial(_mobilenet_v3, rows=_rows, head_width=_head_width))
