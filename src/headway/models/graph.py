"""An immutable description of a model: its layers, what each computes, and the bytes between them.

A graph is what the cost model, the splitter and `headway inspect` read. It holds no weights and no
framework objects, only shapes and counts, so a model whose weights are absent has a graph all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType


class LayerKind(StrEnum):
    """What sort of work a layer does: it decides which cost formula applies."""

    CONV = "conv"  # dense, grouped, depthwise or transposed convolution
    MATMUL = "matmul"  # matrix product with a weight, or of two activations (attention)
    ELEMENTWISE = "elementwise"  # one output element from the same element of each operand
    POOL = "pool"  # a sliding window without weights
    NORM = "norm"  # layer or instance normalisation, softmax, and other reductions followed by a map
    REDUCE = "reduce"  # sums, means, maxima and global pooling
    RECURRENT = "recurrent"  # LSTM, GRU, RNN: matrix products in sequence
    MOVE = "move"  # data movement: transpose, reshape that copies, gather, concat, slice, pad, resize
    OTHER = "other"  # control flow and operators without a formula, priced by an analytic bound


@dataclass(frozen=True, slots=True)
class LoopDims:
    """The loop nest of a layer.

    A convolution uses all dimensions: batch B, output channels K, input channels C (of the whole layer,
    not of one group), output rows OY and columns OX, filter rows FY and columns FX. A matrix product
    M x K x N is the same nest: B is the number of independent products, OY holds M (rows), C the
    reduction and K the columns; `m`, `k`, `n` below give them by their usual names.
    """

    B: int = 1
    K: int = 1
    C: int = 1
    OY: int = 1
    OX: int = 1
    FY: int = 1
    FX: int = 1
    stride_y: int = 1
    stride_x: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0
    dilation_y: int = 1
    dilation_x: int = 1
    groups: int = 1
    IY: int = 1  # input rows, before padding
    IX: int = 1  # input columns, before padding

    @property
    def m(self) -> int:
        """Rows of the product (im2col rows of a convolution), for one batch item."""
        return self.OY * self.OX

    @property
    def k(self) -> int:
        """Reduction length for one group."""
        return (self.C // self.groups) * self.FY * self.FX

    @property
    def n(self) -> int:
        """Columns of the product (output channels) for one group."""
        return self.K // self.groups

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole nest, padding counted as work (the field's convention)."""
        return self.B * self.groups * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Operand:
    """One activation that a layer reads.

    `producer` is the index of the layer that makes it, or None for a network input. `row_wise` says that
    a band of output rows needs only the band of input rows given by the layer's row window
    (`row_kernel`, `row_stride`, `row_pad`); False makes the operand a fusion barrier, since all of it
    must be there before the first output row (attention scores against all keys, global pooling,
    transposes that mix rows). `at_output` marks what is applied to the result, by the layer itself or by a
    folded follower (the other summand of a residual connection): its rows go with the output's, not with the
    row window.
    """

    tensor: str
    bytes: int
    rows: int  # rows along the fusion axis; 1 if it has none
    producer: int | None
    row_wise: bool = True
    dtype: str = "float32"
    at_output: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: an ONNX node in the graph as read, or a node with its folded followers after `merged()`.

    Rows are the fusion axis: the output rows of a feature map, or the rows of M for a matrix product.
    `row_kernel` is the dilated filter height, and one output row advances the input by `row_stride` rows
    (a fraction below 1 where the layer enlarges its input, as transposed convolution and Resize do).
    """

    index: int
    name: str
    op: str
    kind: LayerKind
    dims: LoopDims
    macs: int
    vector_ops: int  # elementary operations that are not multiply-accumulates
    params: int  # elements of all weights; shared weights are counted where they are first used
    weight_bytes: int  # bytes of the weights this layer reads, shared ones included
    operands: tuple[Operand, ...]
    output: str
    output_bytes: int
    output_rows: int
    output_dtype: str = "float32"
    weight_dtype: str = "float32"
    row_kernel: int = 1
    row_stride: float = 1.0
    row_pad: int = 0
    is_output: bool = False  # some of its output leaves the network
    bounded: bool = False  # priced by an analytic bound since the operator has no formula
    folded: tuple[str, ...] = ()  # names of the followers whose work this layer includes
    weight_is_activation: bool = False  # a product of two activations: no stationary weights
    note: str = ""

    @property
    def input_bytes(self) -> int:
        """Bytes of all activations read."""
        return sum(operand.bytes for operand in self.operands)


@dataclass(frozen=True)
class Graph:
    """A model's layers in topological order, with totals and what was unknown.

    `dims_bound` are the values given to symbolic dimensions and `dims_assumed` the names among them that
    were chosen by default. `unknown_ops` counts operators without a formula, by "domain:Op";
    `unknown_nodes` names their nodes, those in bodies included.
    `runnable` is False where ONNX Runtime is known to refuse the file; `refusal` then says why.
    """

    name: str
    layers: tuple[Layer, ...]
    content_hash: str
    params: int  # elements of all weights, each counted once
    weight_bytes: int  # bytes of all weights, each counted once
    precision: str = "as stored"
    source: str = ""
    dims_bound: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    dims_assumed: tuple[str, ...] = ()
    unknown_ops: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    weights_present: bool = True
    merged: bool = False  # whether followers are folded into the layers before them
    runnable: bool | None = None
    refusal: str = ""
    warnings: tuple[str, ...] = ()

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one inference at the bound shapes."""
        return sum(layer.macs for layer in self.layers)

    @cached_property
    def activation_bytes(self) -> int:
        """Bytes of all layer outputs."""
        return sum(layer.output_bytes for layer in self.layers)

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """For each layer the index of the last reader of its output; len(layers) if it leaves the network."""
        last = [layer.index for layer in self.layers]
        for layer in self.layers:
            for operand in layer.operands:
                if operand.producer is not None:
                    last[operand.producer] = max(last[operand.producer], layer.index)
        return tuple(len(self.layers) if layer.is_output else last[layer.index] for layer in self.layers)

    def renamed(self, name: str) -> Graph:
        """The same graph under another name."""
        return replace(self, name=name)
