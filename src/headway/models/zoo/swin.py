"""Swin: attention inside windows, which every second layer shifts by half their side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import join_heads, scores_to_context, split_heads
from headway.models.zoo.images import IMAGE_224, image_input, image_size_option, pooled_classifier
from headway.models.zoo.registry import zoo_model
from headway.models.zoo.slices import pad, roll, slice_axis
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

PATCH = 4
WIDTH = 96
DEPTHS = (2, 2, 6, 2)
HEADS = (3, 6, 12, 24)
WINDOW = 7
REDUCTION = PATCH * 2 ** (len(DEPTHS) - 1)
STD = 0.02
EPSILON = 1e-5
# What is added to the scores of places that only the shift has made neighbours.
MASKED_SCORE = -100.0


@zoo_model(
    "swin_tiny",
    family="swin",
    summary="Swin-T image classifier",
    inputs=IMAGE_224,
    source="Liu et al., Swin Transformer, ICCV 2021; layout of torchvision",
    options=(image_size_option(224, f", a multiple of {REDUCTION}"),),
)
def swin_tiny(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """Twelve layers on windows of 7 x 7; features padded where windows do not fill them."""
    if image_size % REDUCTION:
        raise b.error(f"image_size = {image_size}; accepted: a multiple of {REDUCTION}")
    x = image_input(b, batch, image_size)
    x = nn.conv(b, x, WIDTH, PATCH, name="patches", stride=PATCH, padding=0, gain=nn.LINEAR_GAIN)
    x = nn.layer_norm(b, nn.transpose(b, x, (0, 2, 3, 1)), name="patches.norm", epsilon=EPSILON)
    for stage, (depth, heads) in enumerate(zip(DEPTHS, HEADS, strict=True)):
        with b.scope(f"stage{stage}"):
            if stage > 0:
                x = _merge_patches(b, x)
            for index in range(depth):
                with b.scope(str(index)):
                    x = _layer(b, x, heads, shifted=index % 2 == 1)
    x = nn.layer_norm(b, x, name="norm", epsilon=EPSILON)
    pooled_classifier(b, nn.transpose(b, x, (0, 3, 1, 2)), name="head")


def _layer(b: GraphBuilder, x: Tensor, heads: int, *, shifted: bool) -> Tensor:
    width = x.shape[-1]
    y = nn.layer_norm(b, x, name="norm1", epsilon=EPSILON)
    x = nn.add(b, x, _window_attention(b, y, heads, shifted=shifted))
    y = nn.layer_norm(b, x, name="norm2", epsilon=EPSILON)
    y = nn.gelu_erf(b, nn.linear(b, y, 4 * width, name="mlp.0", std=STD))
    return nn.add(b, x, nn.linear(b, y, width, name="mlp.3", std=STD))


def _window_attention(b: GraphBuilder, x: Tensor, heads: int, *, shifted: bool) -> Tensor:
    batch, side, _, width = x.shape
    across = -(-side // WINDOW)
    padded = across * WINDOW
    missing = (0, padded - side, padded - side, 0)
    y = pad(b, x, (0, 0, 0, 0), missing)
    # A single window has nothing to shift into.
    shift = WINDOW // 2 if shifted and across > 1 else 0
    if shift:
        y = roll(b, roll(b, y, 1, shift), 2, shift)
    y = nn.reshape(b, y, (batch, across, WINDOW, across, WINDOW, width))
    y = nn.reshape(b, nn.transpose(b, y, (0, 1, 3, 2, 4, 5)), (batch * across**2, WINDOW**2, width))
    y = _attention(b, y, heads, across=across, shift=shift)
    y = nn.reshape(b, y, (batch, across, across, WINDOW, WINDOW, width))
    y = nn.reshape(b, nn.transpose(b, y, (0, 1, 3, 2, 4, 5)), (batch, padded, padded, width))
    if shift:
        y = roll(b, roll(b, y, 1, padded - shift), 2, padded - shift)
    if padded > side:
        y = slice_axis(b, slice_axis(b, y, 1, 0, side), 2, 0, side)
    return y


def _attention(b: GraphBuilder, x: Tensor, heads: int, *, across: int, shift: int) -> Tensor:
    windows, places, width = x.shape
    query, key, value = nn.split(b, nn.linear(b, x, 3 * width, name="attention.qkv", std=STD), 3)
    query = nn.mul(b, split_heads(b, query, heads), b.constant(1 / math.sqrt(width // heads)))
    scores = nn.matmul(b, query, split_heads(b, key, heads, transposed=True), name="attention.scores")
    scores = nn.add(b, scores, _position_bias(b, heads))
    if shift:
        images = windows // across**2
        scores = nn.reshape(b, scores, (images, across**2, heads, places, places))
        scores = nn.add(b, scores, b.constant(_shift_mask(across, shift)))
        scores = nn.reshape(b, scores, (windows, heads, places, places))
    context = join_heads(b, scores_to_context(b, scores, split_heads(b, value, heads)))
    return nn.linear(b, context, width, name="attention.proj", std=STD)


def _position_bias(b: GraphBuilder, heads: int) -> Tensor:
    """One learned number per head and relative position of two places in a window, heads x 49 x 49."""
    table = b.parameter("attention.position_bias", ((2 * WINDOW - 1) ** 2, heads), std=STD)
    rows, columns = np.divmod(np.arange(WINDOW**2), WINDOW)
    down, right = (place[:, None] - place[None, :] + WINDOW - 1 for place in (rows, columns))
    index = b.constant(down * (2 * WINDOW - 1) + right, np.int64)
    return nn.transpose(b, nn.gather_rows(b, table, index), (2, 0, 1))


def _shift_mask(across: int, shift: int) -> npt.NDArray[np.float32]:
    """What is added to the scores, 1 x windows x 1 x 49 x 49, so that places brought together stay apart."""
    side = across * WINDOW
    zone = np.zeros(side, dtype=np.int64)
    zone[side - WINDOW : side - shift] = 1
    zone[side - shift :] = 2
    zones = 3 * zone[:, None] + zone[None, :]
    zones = zones.reshape(across, WINDOW, across, WINDOW).transpose(0, 2, 1, 3).reshape(across**2, -1)
    apart = zones[:, :, None] != zones[:, None, :]
    return np.where(apart, MASKED_SCORE, 0.0).astype(np.float32)[None, :, None]


def _merge_patches(b: GraphBuilder, x: Tensor) -> Tensor:
    _, side, _, width = x.shape
    parts = []
    for column in range(2):
        for row in range(2):
            rows = slice_axis(b, x, 1, row, side, 2)
            parts.append(slice_axis(b, rows, 2, column, side, 2))
    x = nn.layer_norm(b, nn.concat(b, parts, axis=-1), name="merge.norm", epsilon=EPSILON)
    weight = b.parameter("merge.reduction.weight", (4 * width, 2 * width), std=STD)
    return nn.matmul(b, x, weight, name="merge.reduction")
