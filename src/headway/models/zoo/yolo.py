"""YOLOv2, its small sister, and YOLO-LITE: one-pass detectors whose output is a grid of boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import (
    IMAGE_224,
    IMAGE_SIZE_224,
    image_input,
    image_size_option,
    image_text,
)
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

# 5 anchors x (4 coordinates + confidence + classes): the 20 classes of PASCAL VOC, the 80 of COCO.
VOC_CHANNELS = 5 * (4 + 1 + 20)
COCO_CHANNELS = 5 * (4 + 1 + 80)
LEAKY_SLOPE = 0.1
# Darknet-19, Table 6 of the paper: widths of the 3 x 3 and 1 x 1 convolutions, a pooling between the stages.
DARKNET_STAGES = (
    (32,),
    (64,),
    (128, 64, 128),
    (256, 128, 256),
    (512, 256, 512, 256, 512),
    (1024, 512, 1024, 512, 1024),
)
YOLOV2_SOURCE = "Redmon and Farhadi, YOLO9000: Better, Faster, Stronger, CVPR 2017; layout of Darknet's "


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
        x = _conv(b, x, channels, 3, f"conv{index}")
        x = nn.max_pool(b, x, 2, 2)
    x = _conv(b, x, 256, 3, "conv6")
    _grid(b, x, VOC_CHANNELS, "conv7")


@zoo_model(
    "yolov2",
    family="yolo",
    summary="YOLOv2 detector (COCO), boxes not decoded",
    inputs=image_text(608),
    source=f"{YOLOV2_SOURCE}yolov2.cfg with COCO's 80 classes and 5 anchors",
    options=(image_size_option(608, ", a multiple of 32"),),
)
def yolov2(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Darknet-19 with a skip of finer features, rearranged from space to depth, into the last layers."""
    if image_size % 32:
        raise b.error(f"image_size = {image_size}; accepted: a multiple of 32")
    x = fine = image_input(b, batch, image_size)
    for stage, widths in enumerate(DARKNET_STAGES):
        if stage > 0:
            fine = x
            x = nn.max_pool(b, x, 2, 2)
        for index, channels in enumerate(widths):
            x = _conv(b, x, channels, 3 - index % 2 * 2, f"stage{stage}.{index}")
    for index in range(2):
        x = _conv(b, x, 1024, 3, f"head.{index}")
    fine = _conv(b, fine, 64, 1, "passthrough")
    channels, side = 4 * fine.shape[1], fine.shape[2] // 2
    fine = b.node("SpaceToDepth", [fine], (batch, channels, side, side), blocksize=2)
    x = _conv(b, nn.concat(b, [fine, x]), 1024, 3, "head.2")
    _grid(b, x, COCO_CHANNELS, "head.3")


@zoo_model(
    "tiny_yolov2",
    family="yolo",
    summary="Tiny YOLOv2 detector (PASCAL VOC), boxes not decoded",
    inputs=image_text(416),
    source=f"{YOLOV2_SOURCE}yolov2-tiny-voc.cfg",
    options=(image_size_option(416),),
)
def tiny_yolov2(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Six convolutions with a pooling behind each, the last one at stride 1, and three more."""
    x = image_input(b, batch, image_size)
    for index, channels in enumerate((16, 32, 64, 128, 256), start=1):
        x = _conv(b, x, channels, 3, f"conv{index}")
        x = nn.max_pool(b, x, 2, 2)
    x = _conv(b, x, 512, 3, "conv6")
    # The window at the last row and column hangs over, so that the size stays.
    x = b.node("MaxPool", [x], x.shape, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    x = _conv(b, x, 1024, 3, "conv7")
    x = _conv(b, x, 1024, 3, "conv8")
    _grid(b, x, VOC_CHANNELS, "conv9")


def _conv(b: GraphBuilder, x: Tensor, channels: int, kernel: int, name: str) -> Tensor:
    return nn.leaky_relu(b, nn.conv(b, x, channels, kernel, name=name), LEAKY_SLOPE)


def _grid(b: GraphBuilder, x: Tensor, channels: int, name: str) -> None:
    b.output(nn.conv(b, x, channels, 1, name=name, gain=nn.LINEAR_GAIN), "grid")
