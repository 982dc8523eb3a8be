"""A recurrent speech encoder: LSTM layers over frames of audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.models.zoo import layers as nn
from headway.models.zoo.registry import ZooOption, zoo_model
from headway.models.zoo.tensor import Tensor

if TYPE_CHECKING:
    from headway.models.zoo.builder import GraphBuilder

FEATURES = 240
HIDDEN = 1024
LAYERS_BEFORE = 2
STACKED = 2
LAYERS_BEHIND = 3
GATES = 4


@zoo_model(
    "rnnt_encoder",
    family="rnnt",
    summary="Encoder of an RNN transducer for speech: five LSTM layers of 1024",
    inputs="features: N x 200 x 240 float32 (steps of 30 ms x three frames of 80 coefficients)",
    source="Graves, Sequence Transduction with Recurrent Neural Networks, arXiv:1211.3711; sizes of MLPerf "
    "Inference's RNN-T",
    options=(ZooOption("steps", 200, "steps of 30 ms of audio, an even number", minimum=2),),
)
def rnnt_encoder(b: GraphBuilder, batch: int, *, steps: int) -> None:
    """Two layers, two steps stacked into one, three layers; states start at zero."""
    if steps % STACKED:
        raise b.error(f"steps = {steps}; accepted: an even number")
    features = b.input("features", (batch, steps, FEATURES))
    x = nn.transpose(b, features, (1, 0, 2))
    for index in range(LAYERS_BEFORE):
        x = _lstm(b, x, f"before.{index}")
    x = nn.reshape(b, nn.transpose(b, x, (1, 0, 2)), (batch, steps // STACKED, STACKED * HIDDEN))
    x = nn.transpose(b, x, (1, 0, 2))
    for index in range(LAYERS_BEHIND):
        x = _lstm(b, x, f"behind.{index}")
    b.output(nn.transpose(b, x, (1, 0, 2)), "encoded")


def _lstm(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """One direction over steps x N x width; the two biases of PyTorch and ONNX count as parameters both."""
    steps, batch, width = x.shape
    std = (3 * HIDDEN) ** -0.5  # as wide as PyTorch's uniform distribution
    weights = [
        b.parameter(f"{name}.weight_ih", (1, GATES * HIDDEN, width), std=std),
        b.parameter(f"{name}.weight_hh", (1, GATES * HIDDEN, HIDDEN), std=std),
        b.parameter(f"{name}.bias", (1, 2 * GATES * HIDDEN), std=std),
    ]
    y = b.node("LSTM", [x, *weights], (steps, 1, batch, HIDDEN), name=name, hidden_size=HIDDEN)
    return nn.reshape(b, y, (steps, batch, HIDDEN))
