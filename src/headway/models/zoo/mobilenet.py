"""MobileNetV1 and V2: depthwise separable convolutions, and inverted residuals made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 1 of the first paper: output channels and stride of each separable convolution.
SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
# Table 2 of the second: expansion, output channels, repetitions, stride of the first.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@zoo_model(
    "mobilenet_v1",
    family="mobilenet",
    summary="MobileNetV1 (width 1.0) image classifier",
    inputs=IMAGE_224,
    source="Howard et al., MobileNets, arXiv:1704.04861; ReLU6 and padding as in timm's PyTorch model",
    options=(IMAGE_SIZE_224,),
)
def mobilenet_v1(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Thirteen separable convolutions: a depthwise one and a 1 x 1 one each."""
    x = image_input(b, batch, image_size)
    x = nn.relu6(b, nn.conv(b, x, 32, 3, name="stem", stride=2))
    for index, (channels, stride) in enumerate(SEPARABLE, start=1):
        with b.scope(f"block{index}"):
            width = x.shape[1]
            x = nn.relu6(b, nn.conv(b, x, width, 3, name="depthwise", stride=stride, groups=width))
            x = nn.relu6(b, nn.conv(b, x, channels, 1, name="pointwise"))
    pooled_classifier(b, x, name="classifier")


@zoo_model(
    "mobilenet_v2",
    family="mobilenet",
    summary="MobileNetV2 (width 1.0) image classifier",
    inputs=IMAGE_224,
    source="Sandler et al., MobileNetV2, CVPR 2018; layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def mobilenet_v2(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Seventeen inverted residual blocks."""
    x = image_input(b, batch, image_size)
    x = nn.relu6(b, nn.conv(b, x, 32, 3, name="features.0", stride=2))
    index = 0
    for expansion, channels, repetitions, first_stride in STAGES:
        for repetition in range(repetitions):
            index += 1
            with b.scope(f"features.{index}"):
                x = _inverted_residual(b, x, expansion, channels, first_stride if repetition == 0 else 1)
    x = nn.relu6(b, nn.conv(b, x, 1280, 1, name="features.18"))
    pooled_classifier(b, x, name="classifier")


def _inverted_residual(b: GraphBuilder, x: Tensor, expansion: int, channels: int, stride: int) -> Tensor:
    width = x.shape[1] * expansion
    y = nn.relu6(b, nn.conv(b, x, width, 1, name="expand")) if expansion > 1 else x
    y = nn.relu6(b, nn.conv(b, y, width, 3, name="depthwise", stride=stride, groups=width))
    y = nn.conv(b, y, channels, 1, name="project", gain=nn.LINEAR_GAIN)
    return nn.add(b, x, y) if stride == 1 and x.shape[1] == channels else y
