"""Squeeze and excitation: a gate per channel from the mean of all channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder


def squeeze_excite(
    b: GraphBuilder, x: Tensor, reduced: int, *, gate: Callable[[GraphBuilder, Tensor], Tensor]
) -> Tensor:
    """x times its gates: global mean, 1 x 1 convolution to ``reduced`` channels with ReLU, and one back.

    Hu et al., Squeeze-and-Excitation Networks, CVPR 2018.
    """
    y = nn.relu(b, nn.conv(b, nn.global_average_pool(b, x), reduced, 1, name="se_reduce"))
    return nn.mul(b, x, gate(b, nn.conv(b, y, x.shape[1], 1, name="se_expand", gain=nn.LINEAR_GAIN)))
