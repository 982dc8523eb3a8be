"""AlexNet and VGG: plain stacks of convolutions with large fully connected layers behind them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import IMAGE_224, IMAGE_SIZE_224, IMAGENET_CLASSES, image_input
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

VGG_WIDTHS = (64, 128, 256, 512, 512)
# Table 1 of the VGG paper: configuration, convolutions per stage.
VGG_DEPTHS = {
    "vgg11": ("A", (1, 1, 2, 2, 2)),
    "vgg13": ("B", (2, 2, 2, 2, 2)),
    "vgg16": ("D", (2, 2, 3, 3, 3)),
    "vgg19": ("E", (2, 2, 4, 4, 4)),
}


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
    _dense_head(b, _pooled_to(b, x, 6))


def _vgg(b: GraphBuilder, batch: int, *, image_size: int, depths: tuple[int, ...]) -> None:
    x = image_input(b, batch, image_size)
    for stage, (channels, depth) in enumerate(zip(VGG_WIDTHS, depths, strict=True), start=1):
        for index in range(1, depth + 1):
            x = nn.relu(b, nn.conv(b, x, channels, 3, name=f"conv{stage}_{index}"))
        x = nn.max_pool(b, x, 2, 2)
    _dense_head(b, _pooled_to(b, x, 7))


def _pooled_to(b: GraphBuilder, x: Tensor, side: int) -> Tensor:
    """Mean over equal windows that leave ``side`` x ``side``.

    Raises HeadwayError unless the input's sides are multiples of ``side``: other windows differ in size,
    which ONNX has no operator for.
    """
    height, width = x.shape[2:]
    if height % side or width % side:
        raise b.error(
            f"image_size leaves {height} x {width} before the pooling to {side} x {side}; "
            f"accepted: an image_size that leaves a multiple of {side}"
        )
    return nn.average_pool(b, x, (height // side, width // side))


def _dense_head(b: GraphBuilder, x: Tensor) -> None:
    x = nn.flatten(b, x)
    x = nn.relu(b, nn.gemm(b, x, 4096, name="classifier.0"))
    x = nn.relu(b, nn.gemm(b, x, 4096, name="classifier.1"))
    b.output(nn.gemm(b, x, IMAGENET_CLASSES, name="classifier.2"), "logits")


for _name, (_configuration, _depths) in VGG_DEPTHS.items():
    zoo_model(
        _name,
        family="vgg",
        summary=f"VGG-{_name.removeprefix('vgg')} image classifier without batch normalisation",
        inputs=IMAGE_224,
        source=f"Simonyan and Zisserman, arXiv:1409.1556, configuration {_configuration}; "
        "layout of torchvision",
        options=(IMAGE_SIZE_224,),
    )(partial(_vgg, depths=_depths))
