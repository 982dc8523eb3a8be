"""AlexNet and VGG-16: plain stacks of convolutions with large fully connected layers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, IMAGENET_CLASSES, image_input
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder


@zoo_model(
    "alexnet",
    family="vgg",
    summary="AlexNet image classifier",
    inputs=IMAGE_224,
    source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv:1404.5997; "
    "layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def alexnet(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Five convolutions, three fully connected layers."""
    x = image_input(b, batch, image_size)
    x = nn.relu(b, nn.conv(b, x, 64, 11, name="features.0", stride=4, padding=2))
    x = nn.max_pool(b, x, 3, 2)
    x = nn.relu(b, nn.conv(b, x, 192, 5, name="features.1"))
    x = nn.max_pool(b, x, 3, 2)
    for index, channels in enumerate((384, 256, 256), start=2):
        x = nn.relu(b, nn.conv(b, x, channels, 3, name=f"features.{index}"))
    x = nn.max_pool(b, x, 3, 2)
    _dense_head(b, nn.adaptive_average_pool(b, x, 6))


@zoo_model(
    "vgg16",
    family="vgg",
    summary="VGG-16 image classifier without batch normalisation",
    inputs=IMAGE_224,
    source="Simonyan and Zisserman, arXiv:1409.1556, configuration D; layout of torchvision",
    options=(IMAGE_SIZE_224,),
)
def vgg16(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Thirteen 3 x 3 convolutions in five stages, three fully connected layers."""
    x = image_input(b, batch, image_size)
    for stage, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1):
        for index in range(1, depth + 1):
            x = nn.relu(b, nn.conv(b, x, channels, 3, name=f"conv{stage}_{index}"))
        x = nn.max_pool(b, x, 2, 2)
    _dense_head(b, nn.adaptive_average_pool(b, x, 7))


def _dense_head(b: GraphBuilder, x: Tensor) -> None:
    x = nn.flatten(b, x)
    x = nn.relu(b, nn.gemm(b, x, 4096, name="classifier.0"))
    x = nn.relu(b, nn.gemm(b, x, 4096, name="classifier.1"))
    b.output(nn.gemm(b, x, IMAGENET_CLASSES, name="classifier.2"), "logits")
