"""EfficientNet-B0: inverted residuals with squeeze and excitation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 1 of the paper: expansion, output channels, repetitions, stride of the first, kernel.
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)

# SiLU of a normal variable has a mean square of 0.356. The gate of an untrained network is about a half; the
# projection behind it makes up for part of that, since in full the residual sums would grow block by block.
SILU_GAIN = 1.68
GATED_GAIN = 1.4


@zoo_model(
    "efficientnet_b0",
    family="efficientnet",
    summary="EfficientNet-B0 image classifier with squeeze and excitation",
    inputs=IMAGE_224,
    source="Tan and Le, EfficientNet, ICML 2019; layout of timm's PyTorch model",
    options=(IMAGE_SIZE_224,),
)
def efficientnet_b0(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Sixteen blocks; SiLU as Sigmoid and Mul."""
    x = image_input(b, batch, image_size)
    x = nn.silu(b, nn.conv(b, x, 32, 3, name="stem", stride=2, gain=SILU_GAIN))
    for stage, (expansion, channels, repetitions, first_stride, kernel) in enumerate(STAGES):
        for index in range(repetitions):
            with b.scope(f"blocks.{stage}.{index}"):
                x = _block(b, x, expansion, channels, first_stride if index == 0 else 1, kernel)
    x = nn.silu(b, nn.conv(b, x, 1280, 1, name="head", gain=SILU_GAIN))
    pooled_classifier(b, x, name="classifier")


def _block(b: GraphBuilder, x: Tensor, expansion: int, channels: int, stride: int, kernel: int) -> Tensor:
    in_channels = x.shape[1]
    width = in_channels * expansion
    y = nn.silu(b, nn.conv(b, x, width, 1, name="expand", gain=SILU_GAIN)) if expansion > 1 else x
    y = nn.conv(b, y, width, kernel, name="depthwise", stride=stride, groups=width, gain=SILU_GAIN)
    y = _squeeze_excite(b, nn.silu(b, y), in_channels // 4)
    y = nn.conv(b, y, channels, 1, name="project", gain=GATED_GAIN)
    return nn.add(b, y, x) if stride == 1 and in_channels == channels else y


def _squeeze_excite(b: GraphBuilder, x: Tensor, reduced: int) -> Tensor:
    mean = b.node("ReduceMean", [x], (*x.shape[:2], 1, 1), axes=[2, 3], keepdims=1)
    gate = nn.silu(b, nn.conv(b, mean, reduced, 1, name="se_reduce", gain=SILU_GAIN))
    gate = nn.conv(b, gate, x.shape[1], 1, name="se_expand", gain=nn.LINEAR_GAIN)
    return nn.mul(b, x, nn.unary(b, "Sigmoid", gate))
