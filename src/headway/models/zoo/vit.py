"""ViT-B/16: an image as a sequence of patches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headway.models.zoo import layers as nn
from headway.models.zoo.attention import join_heads, scores_to_context, split_heads
from headway.models.zoo.images import IMAGE_224, IMAGENET_CLASSES, image_input
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

PATCH = 16
WIDTH = 768
HEADS = 12
LAYERS = 12
EPSILON = 1e-6
STD = 0.02


@zoo_model(
    "vit_b_16",
    family="vit",
    summary="ViT-B/16 image classifier",
    inputs=IMAGE_224,
    source="Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021; layout of torchvision",
    options=(ZooOption("image_size", 224, f"pixels per side of the square image, a multiple of {PATCH}"),),
)
def vit_b_16(b: GraphBuilder, batch: int, *, image_size: int) -> None:
    """12 layers, width 768, 12 heads; the position embedding has one row per patch and one for the class."""
    if image_size % PATCH:
        raise b.error(f"image_size = {image_size}; accepted: a multiple of {PATCH}")
    image = image_input(b, batch, image_size)
    patches = nn.conv(b, image, WIDTH, PATCH, name="conv_proj", stride=PATCH, padding=0, gain=nn.LINEAR_GAIN)
    count = (image_size // PATCH) ** 2
    tokens = nn.transpose(b, nn.reshape(b, patches, (batch, WIDTH, count)), (0, 2, 1))
    token_shape = (batch, 1, WIDTH)
    class_token = b.parameter("class_token", (1, 1, WIDTH), std=STD)
    class_tokens = b.node("Expand", [class_token, b.constant(token_shape, np.int64)], token_shape)
    x = nn.concat(b, [class_tokens, tokens], axis=1)
    x = nn.add(b, x, b.parameter("pos_embedding", (1, count + 1, WIDTH), std=STD))
    for index in range(LAYERS):
        with b.scope(f"layers.{index}"):
            x = _layer(b, x)
    x = nn.layer_norm(b, x, name="ln", epsilon=EPSILON)
    first_token = b.node("Gather", [x, b.constant(0, np.int64)], (batch, WIDTH), axis=1)
    b.output(nn.gemm(b, first_token, IMAGENET_CLASSES, name="head"), "logits")


def _layer(b: GraphBuilder, x: Tensor) -> Tensor:
    y = nn.layer_norm(b, x, name="ln_1", epsilon=EPSILON)
    query, key, value = nn.split(b, nn.linear(b, y, 3 * WIDTH, name="attention.in_proj", std=STD), 3)
    query = nn.div(b, split_heads(b, query, HEADS), b.constant(math.sqrt(WIDTH // HEADS)))
    scores = nn.matmul(b, query, split_heads(b, key, HEADS, transposed=True), name="attention.scores")
    context = join_heads(b, scores_to_context(b, scores, split_heads(b, value, HEADS)))
    x = nn.add(b, nn.token_gemm(b, context, WIDTH, name="attention.out_proj", std=STD), x)
    y = nn.layer_norm(b, x, name="ln_2", epsilon=EPSILON)
    y = nn.gelu_erf(b, nn.linear(b, y, 4 * WIDTH, name="mlp.0", std=STD))
    return nn.add(b, x, nn.linear(b, y, WIDTH, name="mlp.3", std=STD))
