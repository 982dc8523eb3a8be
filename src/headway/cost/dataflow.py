"""Cycles of a systolic array, in closed form.

The array has `rows` x `columns` multiply-accumulate units and computes out[M, N] = a[M, K] * b[K, N].
Source: SCALE-Sim (Samajdar et al., ISPASS 2020), as its code behaves rather than as the paper prints it:
the formulas equal every layer measured with SCALE-Sim 3.0.0, on non-square arrays too. The paper's
2R + C + T - 2 per output-stationary fold has one R too many (scale-sim-v3, issue 4).

All functions take numbers or NumPy integer arrays that broadcast against each other.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.device import Dataflow

Ints = int | npt.NDArray[np.int64]
Convention = Literal["true", "scalesim"]


def ceil_div(a: Any, b: Any) -> Any:
    """The least integer not below a / b, for integers or integer arrays."""
    return -(-a // b)


def systolic_steps(M: Ints, N: Ints, K: Ints, rows: Ints, columns: Ints, dataflow: Dataflow) -> Any:
    """Array steps of one product: one more than the cycles that SCALE-Sim reports.

    Output stationary: ceil(M/R) * ceil(N/C) folds, each K steps of accumulation plus R + C - 2 of skew.
    Weight stationary: K lies along the rows, so ceil(K/R) * ceil(N/C) folds, each R steps to load weights,
    M to stream inputs, and R + C - 2 of skew. Input stationary: the same with M and N exchanged, inputs being
    loaded and weights streamed. Steps of products that run one after the other add up.
    """
    if dataflow is Dataflow.INPUT_STATIONARY:
        M, N = N, M
    if dataflow is Dataflow.OUTPUT_STATIONARY:
        return ceil_div(M, rows) * ceil_div(N, columns) * (K + rows + columns - 2)
    return ceil_div(K, rows) * ceil_div(N, columns) * (M + 2 * rows + columns - 2)


def systolic_cycles(
    M: Ints, N: Ints, K: Ints, rows: Ints, columns: Ints, dataflow: Dataflow, products: Ints = 1
) -> Any:
    """Cycles of `products` equal products, one after the other (groups, depthwise channels, attention heads).

    The last step of the last product is not counted, as in SCALE-Sim: steps - 1.
    """
    return products * systolic_steps(M, N, K, rows, columns, dataflow) - 1


def array_accesses(M: Ints, N: Ints, K: Ints, rows: Ints, columns: Ints, dataflow: Dataflow) -> Any:
    """Elements that cross between SRAM and array during one product.

    Output stationary: inputs are read once per fold of columns, weights once per fold of rows, outputs
    written once; the reads equal SCALE-Sim's reports. Weight stationary: weights once, inputs once per fold
    of columns, and partial sums written in every fold of K and read back in all but the first. Input
    stationary: the same with inputs and weights exchanged.
    """
    if dataflow is Dataflow.INPUT_STATIONARY:
        M, N = N, M
    column_folds = ceil_div(N, columns)
    if dataflow is Dataflow.OUTPUT_STATIONARY:
        return M * K * column_folds + K * N * ceil_div(M, rows) + M * N
    return K * N + M * K * column_folds + M * N * (2 * ceil_div(K, rows) - 1)


class Gemm(NamedTuple):
    """A convolution written as a matrix product of one batch item: M pixels, N channels out, K reduction."""

    M: int
    N: int
    K: int


def conv_gemm(
    input_height: int,
    input_width: int,
    filter_height: int,
    filter_width: int,
    channels_in: int,
    channels_out: int,
    stride: int = 1,
    convention: Convention = "true",
) -> Gemm:
    """The matrix product of a convolution, given the size of its input with padding included.

    The true output height is floor((H - F) / S) + 1. `convention="scalesim"` copies SCALE-Sim's
    ceil((H - F + S) / S) (its topology_utils.py), which has a row and a column too many where the stride does
    not divide H - F; use it only to compare with its reports.
    """
    if convention == "scalesim":
        height = ceil_div(input_height - filter_height + stride, stride)
        width = ceil_div(input_width - filter_width + stride, stride)
    elif convention == "true":
        height = (input_height - filter_height) // stride + 1
        width = (input_width - filter_width) // stride + 1
    else:
        raise ValueError(f'convention is "true" or "scalesim", not {convention!r}')
    return Gemm(height * width, channels_out, filter_height * filter_width * channels_in)
