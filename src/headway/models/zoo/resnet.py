"""ResNets (version 1.5: the stride sits in the 3 x 3 convolution of a bottleneck, as in torchvision)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

Block = Callable[["GraphBuilder", Tensor, int, int], Tensor]

# Each residual branch ends at a smaller scale than the skip beside it, so that the sum of many does not grow.
BRANCH_GAIN = 0.5


def _resnet(b: GraphBuilder, batch: int, *, image_size: int, block: Block, depths: tuple[int, ...]) -> None:
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 64, 7, name="conv1", stride=2))
    x = nn.max_pool(b, x, 3, 2, padding=1)
    for stage, depth in enumerate(depths):
        for index in range(depth):
            with b.scope(f"layer{stage + 1}.{index}"):
                x = block(b, x, 64 * 2**stage, 2 if stage > 0 and index == 0 else 1)
    pooled_classifier(b, x, name="fc")


def _basic_block(b: GraphBuilder, x: Tensor, width: int, stride: int) -> Tensor:
    y = nn.relu(b, nn.conv(b, x, width, 3, name="conv1", stride=stride))
    y = nn.conv(b, y, width, 3, name="conv2", gain=BRANCH_GAIN)
    return nn.relu(b, nn.add(b, y, _shortcut(b, x, width, stride)))


def _bottleneck(b: GraphBuilder, x: Tensor, width: int, stride: int) -> Tensor:
    y = nn.relu(b, nn.conv(b, x, width, 1, name="conv1"))
    y = nn.relu(b, nn.conv(b, y, width, 3, name="conv2", stride=stride))
    y = nn.conv(b, y, 4 * width, 1, name="conv3", gain=BRANCH_GAIN)
    return nn.relu(b, nn.add(b, y, _shortcut(b, x, 4 * width, stride)))


def _shortcut(b: GraphBuilder, x: Tensor, channels: int, stride: int) -> Tensor:
    if x.shape[1] == channels and stride == 1:
        return x
    return nn.conv(b, x, channels, 1, name="downsample", stride=stride, gain=nn.LINEAR_GAIN)


# Table 1 of the paper: title, block, blocks per stage.
VARIANTS: dict[str, tuple[str, Block, tuple[int, ...]]] = {
    "resnet18": ("ResNet-18", _basic_block, (2, 2, 2, 2)),
    "resnet34": ("ResNet-34", _basic_block, (3, 4, 6, 3)),
    "resnet50": ("ResNet-50 v1.5", _bottleneck, (3, 4, 6, 3)),
    "resnet101": ("ResNet-101 v1.5", _bottleneck, (3, 4, 23, 3)),
    "resnet152": ("ResNet-152 v1.5", _bottleneck, (3, 8, 36, 3)),
}
for _name, (_title, _block, _depths) in VARIANTS.items():
    zoo_model(
        _name,
        family="resnet",
        summary=f"{_title} image classifier",
        inputs=IMAGE_224,
        source="He et al., Deep Residual Learning for Image Recognition, CVPR 2016; layout of torchvision",
        options=(IMAGE_SIZE_224,),
    )(partial(_resnet, block=_block, depths=_depths))
