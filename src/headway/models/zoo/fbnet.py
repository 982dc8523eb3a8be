"""FBNet-C: inverted residuals chosen by search for a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Output channels, stride of the first, kernel and expansion of each block.
STAGES = (
    (16, 1, ((3, 1),)),
    (24, 2, ((3, 6), (3, 1), (3, 1))),
    (32, 2, ((5, 6), (5, 3), (5, 6), (3, 6))),
    (64, 2, ((5, 6), (5, 3), (5, 6), (5, 6))),
    (112, 1, ((5, 6), (5, 6), (5, 6), (5, 3))),
    (184, 2, ((5, 6), (5, 6), (5, 6), (5, 6))),
    (352, 1, ((3, 6),)),
)


@zoo_model(
    "fbnet_c",
    family="fbnet",
    summary="FBNet-C image classifier",
    inputs=IMAGE_224,
    source="Wu et al., FBNet, CVPR 2019; layout of timm's fbnetc_100, where blocks of expansion 1 keep their "
    "first 1 x 1 convolution",
    options=(IMAGE_SIZE_224,),
)
def fbnet_c(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Twenty-one blocks."""
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 16, 3, name="stem", stride=2))
    for stage, (channels, first_stride, blocks) in enumerate(STAGES):
        for index, (kernel, expansion) in enumerate(blocks):
            with b.scope(f"blocks.{stage}.{index}"):
                x = _block(b, x, channels, first_stride if index == 0 else 1, kernel, expansion)
    x = nn.relu(b, nn.conv(b, x, 1984, 1, name="head"))
    pooled_classifier(b, x, name="classifier")


def _block(b: GraphBuilder, x: Tensor, channels: int, stride: int, kernel: int, expansion: int) -> Tensor:
    width = x.shape[1] * expansion
    y = nn.relu(b, nn.conv(b, x, width, 1, name="expand"))
    y = nn.relu(b, nn.conv(b, y, width, kernel, name="depthwise", stride=stride, groups=width))
    y = nn.conv(b, y, channels, 1, name="project", gain=nn.LINEAR_GAIN)
    return nn.add(b, y, x) if stride == 1 and x.shape[1] == channels else y
