"""What the image classifiers have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.registry import ZooOption
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

IMAGENET_CLASSES = 1000
IMAGE_224 = "image: N x 3 x 224 x 224 float32"
IMAGE_SIZE_224 = ZooOption("image_size", 224, "pixels per side of the square image")


def image_input(b: GraphBuilder, batch: int, image_size: int, channels: int = 3) -> Tensor:
    """The input ``image``, N x C x size x size."""
    return b.input("image", (batch, channels, image_size, image_size))


def pooled_classifier(b: GraphBuilder, x: Tensor, *, name: str) -> None:
    """Global average pooling and one fully connected layer to the 1000 ImageNet classes, as ``logits``."""
    features = nn.flatten(b, nn.global_average_pool(b, x))
    b.output(nn.gemm(b, features, IMAGENET_CLASSES, name=name), "logits")
