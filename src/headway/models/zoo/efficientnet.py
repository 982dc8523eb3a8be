"""EfficientNets: inverted residuals with squeeze and excitation, scaled in width and depth together."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import (
    image_input,
    image_size_option,
    image_text,
    pooled_classifier,
    round_to_eight,
)
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 1 of the paper, for B0: expansion, output channels, repetitions, stride of the first, kernel.
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
STEM_CHANNELS = 32
HEAD_CHANNELS = 1280
# Factors of width and depth, and image size, of the authors' code.
VARIANTS = {"b0": (1.0, 1.0, 224), "b4": (1.4, 1.8, 380)}

# SiLU of a normal variable has a mean square of 0.356.
SILU_GAIN = 1.68


def _efficientnet(b: GraphBuilder, batch: int, *, image_size: int, width: float, depth: float) -> None:
    x = image_input(b, batch, image_size)
    channels = round_to_eight(STEM_CHANNELS * width)
    x = nn.silu(b, nn.conv(b, x, channels, 3, name="stem", stride=2, gain=SILU_GAIN))
    for stage, (expansion, base_channels, repetitions, first_stride, kernel) in enumerate(STAGES):
        channels = round_to_eight(base_channels * width)
        for index in range(ceil(repetitions * depth)):
            with b.scope(f"blocks.{stage}.{index}"):
                x = _block(b, x, expansion, channels, first_stride if index == 0 else 1, kernel)
    x = nn.silu(b, nn.conv(b, x, round_to_eight(HEAD_CHANNELS * width), 1, name="head", gain=SILU_GAIN))
    pooled_classifier(b, x, name="classifier")


def _block(b: GraphBuilder, x: Tensor, expansion: int, channels: int, stride: int, kernel: int) -> Tensor:
    in_channels = x.shape[1]
    width = in_channels * expansion
    y = nn.silu(b, nn.conv(b, x, width, 1, name="expand", gain=SILU_GAIN)) if expansion > 1 else x
    y = nn.conv(b, y, width, kernel, name="depthwise", stride=stride, groups=width, gain=SILU_GAIN)
    y = _squeeze_excite(b, nn.silu(b, y), in_channels // 4)
    # The gate of an untrained network is about a half. Were that made up for here, the residual sums of B4's
    # many blocks would leave the range of half precision.
    y = nn.conv(b, y, channels, 1, name="project", gain=nn.LINEAR_GAIN)
    return nn.add(b, y, x) if stride == 1 and in_channels == channels else y


def _squeeze_excite(b: GraphBuilder, x: Tensor, reduced: int) -> Tensor:
    mean = b.node("ReduceMean", [x], (*x.shape[:2], 1, 1), axes=[2, 3], keepdims=1)
    gate = nn.silu(b, nn.conv(b, mean, reduced, 1, name="se_reduce", gain=SILU_GAIN))
    gate = nn.conv(b, gate, x.shape[1], 1, name="se_expand", gain=nn.LINEAR_GAIN)
    return nn.mul(b, x, nn.unary(b, "Sigmoid", gate))


for _variant, (_width, _depth, _image_size) in VARIANTS.items():
    zoo_model(
        f"efficientnet_{_variant}",
        family="efficientnet",
        summary=f"EfficientNet-{_variant.upper()} image classifier with squeeze and excitation",
        inputs=image_text(_image_size),
        source="Tan and Le, EfficientNet, ICML 2019; layout of timm's PyTorch model",
        options=(image_size_option(_image_size),),
    )(partial(_efficientnet, width=_width, depth=_depth))
