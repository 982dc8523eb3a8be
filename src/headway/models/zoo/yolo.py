"""YOLO-LITE: a seven-layer detector for machines without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, image_input
from headway.models.zoo.registry import zoo_model

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# 5 anchors x (4 coordinates + confidence + 20 classes of PASCAL VOC), as in YOLOv2.
DETECTION_CHANNELS = 125
LEAKY_SLOPE = 0.1


@zoo_model(
    "yolo_lite",
    family="yolo",
    summary="YOLO-LITE detector (trial 3 without batch normalisation, PASCAL VOC), boxes not decoded",
    inputs=IMAGE_224,
    source="Huang et al., YOLO-LITE, IEEE Big Data 2018, arXiv:1811.05588: 7 layers, 749 filters, 482 MFLOP",
    options=(IMAGE_SIZE_224,),
)
def yolo_lite(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Five convolutions with a pooling behind each, one more, and a 1 x 1 one to the grid of boxes."""
    x = image_input(b, batch, image_size)
    for index, channels in enumerate((16, 32, 64, 128, 128), start=1):
        x = nn.leaky_relu(b, nn.conv(b, x, channels, 3, name=f"conv{index}"), LEAKY_SLOPE)
        x = nn.max_pool(b, x, 2, 2)
    x = nn.leaky_relu(b, nn.conv(b, x, 256, 3, name="conv6"), LEAKY_SLOPE)
    grid = nn.conv(b, x, DETECTION_CHANNELS, 1, name="conv7", gain=nn.LINEAR_GAIN)
    b.output(grid, "grid")
