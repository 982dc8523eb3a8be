"""SqueezeNet 1.1: fire modules, no fully connected layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, IMAGENET_CLASSES, image_input
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Squeeze width and width of each of the two expansions; a pooling follows the second and the fourth.
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
POOL_AFTER = (1, 3)


@zoo_model(
    "squeezenet",
    family="squeezenet",
    summary="SqueezeNet 1.1 image classifier",
    inputs=IMAGE_224,
    source="Iandola et al., SqueezeNet, arXiv:1602.07360, version 1.1 of the authors; layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def squeezenet(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Eight fire modules."""
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 64, 3, name="conv1", stride=2, padding=0))
    x = nn.max_pool(b, x, 3, 2, ceil=True)
    for index, (squeeze, expand) in enumerate(FIRES):
        with b.scope(f"fire{index + 2}"):
            x = _fire(b, x, squeeze, expand)
        if index in POOL_AFTER:
            x = nn.max_pool(b, x, 3, 2, ceil=True)
    x = nn.relu(b, nn.conv(b, x, IMAGENET_CLASSES, 1, name="classifier"))
    b.output(nn.flatten(b, nn.global_average_pool(b, x)), "logits")


def _fire(b: GraphBuilder, x: Tensor, squeeze: int, expand: int) -> Tensor:
    squeezed = nn.relu(b, nn.conv(b, x, squeeze, 1, name="squeeze"))
    small = nn.relu(b, nn.conv(b, squeezed, expand, 1, name="expand1x1"))
    large = nn.relu(b, nn.conv(b, squeezed, expand, 3, name="expand3x3"))
    return nn.concat(b, [small, large])
