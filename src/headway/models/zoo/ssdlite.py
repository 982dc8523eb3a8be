"""SSDLite: a detector with separable convolutions on features of six scales."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import image_input, image_size_option, image_text
from headway.models.zoo.mobilenet_v3 import LARGE, inverted_residual, last_convolution, stem
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# The backbone's blocks from the last stride on are half as wide, section 6.3 of the MobileNetV3 paper; the
# first of them gives its expanded features to the detector.
TAIL = 12
EXTRA_WIDTHS = (512, 256, 256, 128)
# Anchors per place and classes of COCO, background included, in torchvision's numbering.
ANCHORS = 6
CLASSES = 91
COORDINATES = 4


@zoo_model(
    "ssd_mobilenet_v3",
    family="ssd",
    summary="SSDLite detector on MobileNetV3-large (COCO), boxes not decoded",
    inputs=image_text(320),
    source="Sandler et al., MobileNetV2, CVPR 2018, and Howard et al., Searching for MobileNetV3, ICCV 2019; "
    "layout of torchvision's ssdlite320_mobilenet_v3_large",
    options=(image_size_option(320),),
)
def ssd_mobilenet_v3(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Coordinates and class scores of all anchors, one row each."""
    maps = _feature_maps(b, image_input(b, batch, image_size))
    for output, values in (("boxes", COORDINATES), ("scores", CLASSES)):
        rows = []
        for index, features in enumerate(maps):
            with b.scope(f"{output}.{index}"):
                rows.append(_predictions(b, features, values))
        b.output(nn.concat(b, rows), output)


def _feature_maps(b: GraphBuilder, image: Tensor) -> list[Tensor]:
    x = stem(b, image)
    maps = []
    for index, row in enumerate(LARGE):
        if index > TAIL:
            row = replace(row, expanded=row.expanded // 2, channels=row.channels // 2)
        elif index == TAIL:
            row = replace(row, channels=row.channels // 2)
        with b.scope(f"features.{index + 1}"):
            expanded, x = inverted_residual(b, x, row)
        if index == TAIL:
            maps.append(expanded)
    maps.append(last_convolution(b, x, f"features.{len(LARGE) + 1}"))
    for index, width in enumerate(EXTRA_WIDTHS):
        with b.scope(f"extra.{index}"):
            maps.append(_extra(b, maps[-1], width))
    return maps


def _extra(b: GraphBuilder, x: Tensor, width: int) -> Tensor:
    half = width // 2
    x = nn.relu6(b, nn.conv(b, x, half, 1, name="reduce"))
    x = nn.relu6(b, nn.conv(b, x, half, 3, name="depthwise", stride=2, groups=half))
    return nn.relu6(b, nn.conv(b, x, width, 1, name="expand"))


def _predictions(b: GraphBuilder, x: Tensor, values: int) -> Tensor:
    """``values`` numbers per anchor, N x (places x anchors) x values."""
    batch, channels, height, width = x.shape
    y = nn.relu6(b, nn.conv(b, x, channels, 3, name="depthwise", groups=channels))
    y = nn.conv(b, y, ANCHORS * values, 1, name="pointwise", gain=nn.LINEAR_GAIN)
    y = nn.reshape(b, y, (batch, ANCHORS, values, height, width))
    y = nn.transpose(b, y, (0, 3, 4, 1, 2))
    return nn.reshape(b, y, (batch, height * width * ANCHORS, values))
