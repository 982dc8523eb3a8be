"""RegNetY: residual bottlenecks of grouped convolutions with squeeze and excitation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.squeeze_excite import squeeze_excite
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Compute at 224 x 224; channels of a group, blocks per stage, widths per stage.
VARIANTS = {
    "400mf": (8, (1, 3, 6, 6), (48, 104, 208, 440)),
    "1_6gf": (24, (2, 6, 17, 2), (48, 120, 336, 888)),
}
STEM_CHANNELS = 32
# The gate of an untrained network is about a half: it scales the residual branch down by itself.
BRANCH_GAIN = 1.0


def _regnet(
    b: GraphBuilder,
    batch: int,
    *,
    image_size: int,
    group_width: int,
    depths: tuple[int, ...],
    widths: tuple[int, ...],
) -> None:
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, STEM_CHANNELS, 3, name="stem", stride=2))
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True), start=1):
        for index in range(depth):
            with b.scope(f"block{stage}.{index}"):
                x = _block(b, x, width, 2 if index == 0 else 1, width // group_width)
    pooled_classifier(b, x, name="fc")


def _block(b: GraphBuilder, x: Tensor, width: int, stride: int, groups: int) -> Tensor:
    skip = x
    if stride > 1 or x.shape[1] != width:
        skip = nn.conv(b, x, width, 1, name="proj", stride=stride, gain=nn.LINEAR_GAIN)
    y = nn.relu(b, nn.conv(b, x, width, 1, name="a"))
    y = nn.relu(b, nn.conv(b, y, width, 3, name="b", stride=stride, groups=groups))
    y = squeeze_excite(b, y, round(x.shape[1] / 4), gate=_sigmoid)
    return nn.relu(b, nn.add(b, skip, nn.conv(b, y, width, 1, name="c", gain=BRANCH_GAIN)))


def _sigmoid(b: GraphBuilder, x: Tensor) -> Tensor:
    return nn.unary(b, "Sigmoid", x)


for _size, (_group_width, _depths, _widths) in VARIANTS.items():
    zoo_model(
        f"regnet_y_{_size}",
        family="regnet",
        summary=f"RegNetY-{_size.replace('_', '.').upper()} image classifier",
        inputs=IMAGE_224,
        source="Radosavovic et al., Designing Network Design Spaces, CVPR 2020; layout of torchvision",
        options=(IMAGE_SIZE_224,),
    )(partial(_regnet, group_width=_group_width, depths=_depths, widths=_widths))
