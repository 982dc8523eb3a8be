"""DenseNets: every layer of a block reads the outputs of all layers before it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# Table 1 of the paper: growth rate, channels of the first convolution, layers per block.
VARIANTS = {
    "densenet121": (32, 64, (6, 12, 24, 16)),
    "densenet161": (48, 96, (6, 12, 36, 24)),
    "densenet169": (32, 64, (6, 12, 32, 32)),
    "densenet201": (32, 64, (6, 12, 48, 32)),
}
# Width of a layer's 1 x 1 convolution, in growth rates.
BOTTLENECK = 4


def _densenet(
    b: GraphBuilder, batch: int, *, image_size: int, growth: int, first: int, depths: tuple[int, ...]
) -> None:
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, first, 7, name="conv0", stride=2))
    x = nn.max_pool(b, x, 3, 2, padding=1)
    for block, depth in enumerate(depths, start=1):
        with b.scope(f"denseblock{block}"):
            parts = [x]
            for index in range(1, depth + 1):
                with b.scope(f"denselayer{index}"):
                    joined = nn.concat(b, parts) if len(parts) > 1 else x
                    parts.append(_dense_layer(b, joined, growth))
            x = nn.concat(b, parts)
        if block < len(depths):
            with b.scope(f"transition{block}"):
                x = nn.conv(b, _norm_relu(b, x, "norm"), x.shape[1] // 2, 1, name="conv", bias=False)
                x = nn.average_pool(b, x, 2)
    pooled_classifier(b, _norm_relu(b, x, "norm5"), name="classifier")


def _dense_layer(b: GraphBuilder, x: Tensor, growth: int) -> Tensor:
    y = nn.relu(b, nn.conv(b, _norm_relu(b, x, "norm1"), BOTTLENECK * growth, 1, name="conv1"))
    return nn.conv(b, y, growth, 3, name="conv2", bias=False)


def _norm_relu(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """Batch normalisation that no convolution stands before, so that it stays a node, and ReLU.

    Mean 0 and variance 1, an untrained network's, are no parameters and hence Constant nodes.
    """
    channels = x.shape[1]
    scale = b.parameter(f"{name}.weight", (channels,), mean=1.0, std=nn.BIAS_STD)
    shift = b.parameter(f"{name}.bias", (channels,), std=nn.BIAS_STD)
    statistics = [b.constant(np.zeros(channels)), b.constant(np.ones(channels))]
    normalised = b.node("BatchNormalization", [x, scale, shift, *statistics], x.shape, name=name)
    return nn.relu(b, normalised)


for _name, (_growth, _first, _depths) in VARIANTS.items():
    zoo_model(
        _name,
        family="densenet",
        summary=f"DenseNet-{_name.removeprefix('densenet')} image classifier",
        inputs=IMAGE_224,
        source="Huang et al., Densely Connected Convolutional Networks, CVPR 2017; layout of torchvision",
        options=(IMAGE_SIZE_224,),
    )(partial(_densenet, growth=_growth, first=_first, depths=_depths))
