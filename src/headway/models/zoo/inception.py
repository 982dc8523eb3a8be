"""Inception v3, without the auxiliary head used in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.images import image_input, image_size_option, image_text, pooled_classifier
from headway.models.zoo.layers import Pair
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

ROW, COLUMN = (1, 7), (7, 1)


@zoo_model(
    "inception_v3",
    family="inception",
    summary="Inception v3 image classifier",
    inputs=image_text(299),
    source="Szegedy et al., Rethinking the Inception Architecture, CVPR 2016; layout of torchvision",
    options=(image_size_option(299),),
)
def inception_v3(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Eleven modules of three or four branches, with 1 x 7 and 7 x 1 kernels in the middle ones."""
    x = image_input(b, batch, image_size)
    x = _conv(b, x, 32, 3, "conv1a", stride=2, padding=0)
    x = _conv(b, x, 32, 3, "conv2a", padding=0)
    x = _conv(b, x, 64, 3, "conv2b")
    x = nn.max_pool(b, x, 3, 2)
    x = _conv(b, x, 80, 1, "conv3b")
    x = _conv(b, x, 192, 3, "conv4a", padding=0)
    x = nn.max_pool(b, x, 3, 2)
    for name, projection in (("5b", 32), ("5c", 64), ("5d", 64)):
        with b.scope(f"mixed{name}"):
            x = _wide_kernels(b, x, projection)
    with b.scope("mixed6a"):
        x = _first_reduction(b, x)
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        with b.scope(f"mixed{name}"):
            x = _factorised_kernels(b, x, width)
    with b.scope("mixed7a"):
        x = _second_reduction(b, x)
    for name in ("7b", "7c"):
        with b.scope(f"mixed{name}"):
            x = _split_kernels(b, x)
    pooled_classifier(b, x, name="fc")


def _wide_kernels(b: GraphBuilder, x: Tensor, projection: int) -> Tensor:
    direct = _conv(b, x, 64, 1, "branch1")
    five = _chain(b, x, "branch5", ((48, 1), (64, 5)))
    double = _chain(b, x, "branch3dbl", ((64, 1), (96, 3), (96, 3)))
    return nn.concat(b, [direct, five, double, _projection(b, x, projection)])


def _first_reduction(b: GraphBuilder, x: Tensor) -> Tensor:
    three = _conv(b, x, 384, 3, "branch3", stride=2, padding=0)
    double = _chain(b, x, "branch3dbl", ((64, 1), (96, 3)))
    double = _conv(b, double, 96, 3, "branch3dbl.last", stride=2, padding=0)
    return nn.concat(b, [three, double, nn.max_pool(b, x, 3, 2)])


def _factorised_kernels(b: GraphBuilder, x: Tensor, width: int) -> Tensor:
    direct = _conv(b, x, 192, 1, "branch1")
    seven = _chain(b, x, "branch7", ((width, 1), (width, ROW), (192, COLUMN)))
    double = _chain(
        b, x, "branch7dbl", ((width, 1), (width, COLUMN), (width, ROW), (width, COLUMN), (192, ROW))
    )
    return nn.concat(b, [direct, seven, double, _projection(b, x, 192)])


def _second_reduction(b: GraphBuilder, x: Tensor) -> Tensor:
    three = _conv(b, _conv(b, x, 192, 1, "branch3.0"), 320, 3, "branch3.1", stride=2, padding=0)
    seven = _chain(b, x, "branch7", ((192, 1), (192, ROW), (192, COLUMN)))
    seven = _conv(b, seven, 192, 3, "branch7.last", stride=2, padding=0)
    return nn.concat(b, [three, seven, nn.max_pool(b, x, 3, 2)])


def _split_kernels(b: GraphBuilder, x: Tensor) -> Tensor:
    direct = _conv(b, x, 320, 1, "branch1")
    three = _fork(b, _conv(b, x, 384, 1, "branch3.0"), "branch3")
    double = _fork(b, _chain(b, x, "branch3dbl", ((448, 1), (384, 3))), "branch3dbl")
    return nn.concat(b, [direct, *three, *double, _projection(b, x, 192)])


def _fork(b: GraphBuilder, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    return _conv(b, x, 384, (1, 3), f"{name}.row"), _conv(b, x, 384, (3, 1), f"{name}.column")


def _projection(b: GraphBuilder, x: Tensor, channels: int) -> Tensor:
    return _conv(b, nn.average_pool(b, x, 3, stride=1, padding=1), channels, 1, "branch_pool")


def _chain(b: GraphBuilder, x: Tensor, name: str, layers: tuple[tuple[int, Pair], ...]) -> Tensor:
    for index, (channels, kernel) in enumerate(layers):
        x = _conv(b, x, channels, kernel, f"{name}.{index}")
    return x


def _conv(
    b: GraphBuilder,
    x: Tensor,
    channels: int,
    kernel: Pair,
    name: str,
    *,
    stride: int = 1,
    padding: int | None = None,
) -> Tensor:
    return nn.relu(b, nn.conv(b, x, channels, kernel, name=name, stride=stride, padding=padding))
