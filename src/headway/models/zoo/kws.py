"""Keyword spotting: res8-narrow on a second of MFCC features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.registry import ZooOption, zoo_model

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

WIDTH = 19
COEFFICIENTS = 40
KEYWORDS = 12
BRANCH_GAIN = 0.5


@zoo_model(
    "kws_res8",
    family="kws",
    summary="res8-narrow keyword spotter (10 keywords, silence, unknown)",
    inputs="mfcc: N x 1 x 101 x 40 float32 (frames x coefficients)",
    source="Tang and Lin, Deep Residual Learning for Small-Footprint Keyword Spotting, arXiv:1710.10361, "
    "as in the authors' Honk (padded convolutions)",
    options=(ZooOption("frames", 101, "10 ms frames of audio", minimum=4),),
)
def kws_res8(b: GraphBuilder, batch: int, *, frames: int) -> None:
    """One convolution, a pooling, and three residual pairs, 19 channels wide.

    The paper's batch normalisation has no learned scale or shift; with the statistics of an untrained network
    it is the identity, and is left out. Padded convolutions take 7.03 million multiplications; the paper says
    5.65 million, XRBench's layer table 5.35 million.
    """
    x = b.input("mfcc", (batch, 1, frames, COEFFICIENTS))
    x = nn.relu(b, nn.conv(b, x, WIDTH, 3, name="conv0", bias=False))
    x = nn.average_pool(b, x, (4, 3))
    for pair in range(3):
        y = nn.relu(b, nn.conv(b, x, WIDTH, 3, name=f"conv{2 * pair + 1}", bias=False))
        y = nn.relu(b, nn.conv(b, y, WIDTH, 3, name=f"conv{2 * pair + 2}", bias=False, gain=BRANCH_GAIN))
        x = nn.add(b, y, x)
    features = nn.flatten(b, nn.global_average_pool(b, x))
    b.output(nn.gemm(b, features, KEYWORDS, name="output"), "logits")
