"""What the image classifiers have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.registry import ZooOption
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

IMAGENET_CLASSES = 1000


def image_text(side: int) -> str:
    """The input ``image`` in words."""
    return f"image: N x 3 x {side} x {side} float32"


def image_size_option(side: int, also: str = "") -> ZooOption:
    """The option ``image_size`` with its default, and what else ``build`` asks of it."""
    return ZooOption("image_size", side, f"pixels per side of the square image{also}")


IMAGE_224 = image_text(224)
IMAGE_SIZE_224 = image_size_option(224)


def round_to_eight(width: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth below: how MobileNets round their widths."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


def image_input(b: GraphBuilder, batch: int, image_size: int, channels: int = 3) -> Tensor:
    """The input ``image``, N x C x size x size."""
    return b.input("image", (batch, channels, image_size, image_size))


def pooled_classifier(b: GraphBuilder, x: Tensor, *, name: str) -> None:
    """Global average pooling and one fully connected layer to the 1000 ImageNet classes, as ``logits``."""
    features = nn.flatten(b, nn.global_average_pool(b, x))
    b.output(nn.gemm(b, features, IMAGENET_CLASSES, name=name), "logits")
