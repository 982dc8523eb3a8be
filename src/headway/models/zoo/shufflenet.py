"""ShuffleNetV2: half of the channels skip each block, and a shuffle mixes the halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 5 of the paper at 1x: output channels and blocks of each stage.
STAGES = ((116, 4), (232, 8), (464, 4))


@zoo_model(
    "shufflenet_v2",
    family="shufflenet",
    summary="ShuffleNetV2 (1x) image classifier",
    inputs=IMAGE_224,
    source="Ma et al., ShuffleNet V2, ECCV 2018; layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def shufflenet_v2(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Sixteen blocks; the shuffle as Reshape, Transpose and Reshape."""
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 24, 3, name="conv1", stride=2))
    x = nn.max_pool(b, x, 3, 2, padding=1)
    for stage, (channels, depth) in enumerate(STAGES, start=2):
        for index in range(depth):
            with b.scope(f"stage{stage}.{index}"):
                x = _block(b, x, channels // 2, 2 if index == 0 else 1)
    x = nn.relu(b, nn.conv(b, x, 1024, 1, name="conv5"))
    pooled_classifier(b, x, name="fc")


def _block(b: GraphBuilder, x: Tensor, half: int, stride: int) -> Tensor:
    if stride == 1:
        first, x = nn.split(b, x, 2, axis=1)
    else:
        first = _depthwise(b, x, stride, "branch1.depthwise")
        first = nn.relu(b, nn.conv(b, first, half, 1, name="branch1.pointwise"))
    y = nn.relu(b, nn.conv(b, x, half, 1, name="branch2.reduce"))
    y = _depthwise(b, y, stride, "branch2.depthwise")
    y = nn.relu(b, nn.conv(b, y, half, 1, name="branch2.pointwise"))
    return _shuffled(b, nn.concat(b, [first, y]))


def _depthwise(b: GraphBuilder, x: Tensor, stride: int, name: str) -> Tensor:
    width = x.shape[1]
    return nn.conv(b, x, width, 3, name=name, stride=stride, groups=width, gain=nn.LINEAR_GAIN)


def _shuffled(b: GraphBuilder, x: Tensor) -> Tensor:
    """The channels of the two halves in turns."""
    batch, channels, height, width = x.shape
    halves = nn.reshape(b, x, (batch, 2, channels // 2, height, width))
    return nn.reshape(b, nn.transpose(b, halves, (0, 2, 1, 3, 4)), x.shape)
