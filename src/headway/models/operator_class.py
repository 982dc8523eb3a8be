"""Sorts of operators that use a processor alike."""

from __future__ import annotations

from enum import StrEnum


class OperatorClass(StrEnum):
    """What sort of kernel runs an operator."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"  # convolutions with one input channel for each group
    MATMUL = "matmul"
    ATTENTION = "attention"  # products of two activations, and fused attention
    NORMALISATION = "normalisation"  # with softmax
    ELEMENTWISE = "elementwise"
    RECURRENT = "recurrent"
    POOLING = "pooling"  # with other reductions
    MOVEMENT = "movement"
