"""U-Net: an encoder and a decoder with a skip between them at every scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import image_input
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

LEVELS = 4
CLASSES = 2


@zoo_model(
    "unet",
    family="unet",
    summary="U-Net segmenter, a quarter of the paper's width (base_width=64 is the paper's)",
    inputs="image: N x 1 x 256 x 256 float32",
    source="Ronneberger et al., U-Net, MICCAI 2015, with padded convolutions: the mask has the image's size",
    options=(
        ZooOption("image_size", 256, "pixels per side of the square image, a multiple of 16"),
        ZooOption("base_width", 16, "channels at full resolution, doubled at each of the 4 scales below"),
    ),
)
def unet(b: GraphBuilder, batch: int, *, image_size: int, base_width: int) -> None:
    """Two 3 x 3 convolutions per scale on the way down and up.

    At the default width a layer-by-layer run in int8 moves about 25 MB (23 MB of activations and 1.9 MB of
    weights), so that activations dominate, which layer fusion is about. The paper's width (31.0 million
    parameters) would move 123 MB.
    """
    if image_size % 2**LEVELS:
        raise b.error(f"image_size = {image_size}; accepted: a multiple of {2**LEVELS}")
    x = image_input(b, batch, image_size, channels=1)
    skips = []
    for level in range(LEVELS):
        x = _double_conv(b, x, base_width * 2**level, f"down{level}")
        skips.append(x)
        x = nn.max_pool(b, x, 2, 2)
    x = _double_conv(b, x, base_width * 2**LEVELS, "bottom")
    for level in reversed(range(LEVELS)):
        width = base_width * 2**level
        x = nn.conv_transpose(b, x, width, 2, name=f"up{level}.upconv", stride=2)
        x = _double_conv(b, nn.concat(b, [skips[level], x]), width, f"up{level}")
    b.output(nn.conv(b, x, CLASSES, 1, name="classes", gain=nn.LINEAR_GAIN), "mask_logits")


def _double_conv(b: GraphBuilder, x: Tensor, width: int, name: str) -> Tensor:
    with b.scope(name):
        x = nn.relu(b, nn.conv(b, x, width, 3, name="conv1"))
        return nn.relu(b, nn.conv(b, x, width, 3, name="conv2"))
