"""ConvNeXt: 7 x 7 depthwise convolutions and layer normalisation over channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, IMAGENET_CLASSES, image_input
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Section 2 of the paper, ConvNeXt-T: width and blocks of each stage.
STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
STD = 0.02
EPSILON = 1e-6
# Training starts at 1e-6, where blocks do next to nothing; this is a size that trained networks have.
LAYER_SCALE = 0.1
CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)


@zoo_model(
    "convnext_tiny",
    family="convnext",
    summary="ConvNeXt-T image classifier",
    inputs=IMAGE_224,
    source="Liu et al., A ConvNet for the 2020s, CVPR 2022; layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def convnext_tiny(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Eighteen blocks; a strided convolution before each stage, normalisation on transposed features."""
    x = image_input(b, batch, image_size)
    for stage, (width, depth) in enumerate(STAGES):
        with b.scope(f"stage{stage}"):
            side = 4 if stage == 0 else 2
            if stage > 0:
                x = _channel_norm(b, x, "downsample.norm")
            x = nn.conv(b, x, width, side, name="downsample", stride=side, padding=0, gain=nn.LINEAR_GAIN)
            if stage == 0:
                x = _channel_norm(b, x, "downsample.norm")
            for index in range(depth):
                with b.scope(str(index)):
                    x = _block(b, x)
    x = nn.flatten(b, _channel_norm(b, nn.global_average_pool(b, x), "classifier.norm"))
    b.output(nn.gemm(b, x, IMAGENET_CLASSES, name="classifier"), "logits")


def _block(b: GraphBuilder, x: Tensor) -> Tensor:
    width = x.shape[1]
    y = nn.conv(b, x, width, 7, name="depthwise", groups=width, gain=nn.LINEAR_GAIN)
    y = nn.layer_norm(b, nn.transpose(b, y, CHANNELS_LAST), name="norm", epsilon=EPSILON)
    y = nn.gelu_erf(b, nn.linear(b, y, 4 * width, name="expand", std=STD))
    y = nn.transpose(b, nn.linear(b, y, width, name="project", std=STD), CHANNELS_FIRST)
    scale = b.parameter("layer_scale", (width, 1, 1), mean=LAYER_SCALE, std=nn.BIAS_STD)
    return nn.add(b, nn.mul(b, y, scale), x)


def _channel_norm(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    y = nn.layer_norm(b, nn.transpose(b, x, CHANNELS_LAST), name=name, epsilon=EPSILON)
    return nn.transpose(b, y, CHANNELS_FIRST)
