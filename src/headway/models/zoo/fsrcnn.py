"""FSRCNN: super-resolution with all work at the low resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import image_input
from headway.models.zoo.registry import ZooOption, zoo_model

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# The paper's d, s and m: feature width, shrunken width, mapping layers.
FEATURES = 56
SHRUNKEN = 12
MAPPINGS = 4


@zoo_model(
    "fsrcnn",
    family="fsrcnn",
    summary="FSRCNN(56, 12, 4) super-resolution of the luminance",
    inputs="image: N x 1 x 560 x 560 float32, the low resolution",
    source="Dong et al., Accelerating the Super-Resolution Convolutional Neural Network, ECCV 2016",
    options=(
        ZooOption("image_size", 560, "pixels per side of the square low-resolution image"),
        ZooOption("scale", 2, "factor by which both sides grow", minimum=2, maximum=4),
    ),
)
def fsrcnn(b: GraphBuilder, batch: int, *, image_size: int, scale: int) -> None:
    """Feature extraction, shrinking, four mappings, expanding, and one 9 x 9 transposed convolution.

    At the defaults a layer-by-layer run in int8 moves 349 bytes per low-resolution pixel, 109.5 MB in all.
    """
    x = image_input(b, batch, image_size, channels=1)
    x = nn.prelu(b, nn.conv(b, x, FEATURES, 5, name="extract"), name="extract")
    x = nn.prelu(b, nn.conv(b, x, SHRUNKEN, 1, name="shrink"), name="shrink")
    for index in range(1, MAPPINGS + 1):
        x = nn.prelu(b, nn.conv(b, x, SHRUNKEN, 3, name=f"map{index}"), name=f"map{index}")
    x = nn.prelu(b, nn.conv(b, x, FEATURES, 1, name="expand"), name="expand")
    x = nn.conv_transpose(b, x, 1, 9, name="upscale", stride=scale, padding=4)
    b.output(x, "enlarged")
