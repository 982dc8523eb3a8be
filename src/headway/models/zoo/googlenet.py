"""GoogLeNet (Inception v1) with batch normalisation, without the auxiliary heads used in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 1 of the paper: 1x1; reduce and 3x3; reduce and "5x5"; projection behind the pooling.
INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
# Side of the max pooling with stride 2 behind these modules.
POOLS = {"3b": 3, "4e": 2}


@zoo_model(
    "googlenet",
    family="googlenet",
    summary="GoogLeNet image classifier",
    inputs=IMAGE_224,
    source="Szegedy et al., Going Deeper with Convolutions, CVPR 2015; layout of torchvision, whose third "
    "branch has 3 x 3 in place of 5 x 5 kernels, without its change of input scale",
    options=(IMAGE_SIZE_224,),
)
def googlenet(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Nine inception modules of four branches each."""
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 64, 7, name="conv1", stride=2))
    x = nn.max_pool(b, x, 3, 2, ceil=True)
    x = nn.relu(b, nn.conv(b, x, 64, 1, name="conv2"))
    x = nn.relu(b, nn.conv(b, x, 192, 3, name="conv3"))
    x = nn.max_pool(b, x, 3, 2, ceil=True)
    for name, widths in INCEPTIONS.items():
        with b.scope(f"inception{name}"):
            x = _inception(b, x, widths)
        if name in POOLS:
            x = nn.max_pool(b, x, POOLS[name], 2, ceil=True)
    pooled_classifier(b, x, name="fc")


def _inception(b: GraphBuilder, x: Tensor, widths: tuple[int, ...]) -> Tensor:
    direct, reduce_middle, middle, reduce_wide, wide, projection = widths
    first = _conv_relu(b, x, direct, 1, "branch1")
    second = _conv_relu(b, _conv_relu(b, x, reduce_middle, 1, "branch2.0"), middle, 3, "branch2.1")
    third = _conv_relu(b, _conv_relu(b, x, reduce_wide, 1, "branch3.0"), wide, 3, "branch3.1")
    fourth = _conv_relu(b, nn.max_pool(b, x, 3, 1, padding=1, ceil=True), projection, 1, "branch4")
    return nn.concat(b, [first, second, third, fourth])


def _conv_relu(b: GraphBuilder, x: Tensor, channels: int, kernel: int, name: str) -> Tensor:
    return nn.relu(b, nn.conv(b, x, channels, kernel, name=name))
