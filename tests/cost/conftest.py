"""Small graphs and devices, built by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headway.core.device import Core, Dataflow, Device, Link
from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand

sys.path.insert(0, str(Path(__file__).parent))  # for `row_dependencies`, which lies beside the tests

Source = tuple[str, int, int, int | None]  # tensor, bytes, rows, producer


def source(layer: Layer) -> Source:
    return layer.output, layer.output_bytes, layer.output_rows, layer.index


def network_input(channels: int, height: int, width: int) -> Source:
    return "input", channels * height * width, height, None


class Network:
    """Adds layers one by one; one byte per element."""

    def __init__(self, channels: int, height: int, width: int) -> None:
        self.layers: list[Layer] = []
        self.input = network_input(channels, height, width)

    def last(self) -> Source:
        return source(self.layers[-1]) if self.layers else self.input

    def conv(
        self,
        channels_out: int,
        kernel: int = 3,
        stride: int = 1,
        inputs: Sequence[Source] | None = None,
        groups: int = 1,
        row_wise: bool = True,
    ) -> Source:
        """A convolution with padding kernel // 2; inputs after the first are added to its output."""
        inputs = [self.last()] if inputs is None else list(inputs)
        _, size, height, _ = inputs[0]
        width = self._width(inputs[0])
        channels_in = size // (height * width)
        pad = kernel // 2
        oy, ox = (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1
        dims = LoopDims(
            K=channels_out, C=channels_in, OY=oy, OX=ox, FY=kernel, FX=kernel,
            stride_y=stride, stride_x=stride, pad_top=pad, pad_left=pad, pad_bottom=pad, pad_right=pad,
            groups=groups, IY=height, IX=width,
        )  # fmt: skip
        weights = channels_out * channels_in // groups * kernel * kernel
        self.layers.append(
            Layer(
                index=len(self.layers), name=f"layer{len(self.layers)}", op="Conv", kind=LayerKind.CONV,
                dims=dims, macs=dims.macs, vector_ops=channels_out * oy * ox, params=weights,
                weight_bytes=weights,
                operands=tuple(
                    Operand(*read, row_wise, at_output=position > 0) for position, read in enumerate(inputs)
                ),
                output=f"t{len(self.layers)}", output_bytes=channels_out * oy * ox, output_rows=oy,
                row_kernel=kernel, row_stride=stride, row_pad=pad,
            )
        )  # fmt: skip
        return self.last()

    def matmul(self, columns: int, inputs: Sequence[Source] | None = None) -> Source:
        """A product with a weight; rows are those of the input."""
        inputs = [self.last()] if inputs is None else list(inputs)
        _, size, rows, _ = inputs[0]
        dims = LoopDims(K=columns, C=size // rows, OY=rows)
        weights = columns * (size // rows)
        self._plain("MatMul", LayerKind.MATMUL, dims, dims.macs, 0, weights, inputs, columns * rows, rows)
        return self.last()

    def add(self, inputs: Sequence[Source]) -> Source:
        _, size, rows, _ = inputs[0]
        self._plain("Add", LayerKind.ELEMENTWISE, LoopDims(), 0, size, 0, inputs, size, rows)
        return self.last()

    def pool_all(self) -> Source:
        """Global pooling: needs all rows."""
        tensor, size, rows, producer = self.last()
        height_width = rows * self._width(self.last())
        layer_input = [(tensor, size, rows, producer)]
        self._plain(
            "Pool",
            LayerKind.REDUCE,
            LoopDims(),
            0,
            size,
            0,
            layer_input,
            size // height_width,
            1,
            row_wise=False,
        )
        return self.last()

    def _plain(self, op, kind, dims, macs, vector_ops, weights, inputs, output_bytes, rows, row_wise=True):
        index = len(self.layers)
        self.layers.append(
            Layer(
                index=index, name=f"layer{index}", op=op, kind=kind, dims=dims, macs=macs,
                vector_ops=vector_ops, params=weights, weight_bytes=weights,
                operands=tuple(
                    Operand(tensor, size, high, maker, row_wise) for tensor, size, high, maker in inputs
                ),
                output=f"t{index}", output_bytes=output_bytes, output_rows=rows,
            )
        )  # fmt: skip

    def _width(self, of: Source) -> int:
        """Maps are square unless they are matrices."""
        _, _, height, producer = of
        return height if producer is None or self.layers[producer].dims.OX > 1 else 1

    def graph(self, name: str = "net") -> Graph:
        """All layers; what nobody reads leaves the network."""
        read = {operand.tensor for layer in self.layers for operand in layer.operands}
        layers = tuple(
            Layer(
                **{f: getattr(layer, f) for f in Layer.__slots__ if f != "is_output"},
                is_output=layer.output not in read,
            )
            for layer in self.layers
        )
        weights = sum(layer.weight_bytes for layer in layers)
        return Graph(name, layers, "hash", weights, weights)


def convolution_chain(count: int = 4, height: int = 56, channels: int = 64, kernel: int = 3) -> Graph:
    """The same convolution over and over: Stream's chain by default."""
    network = Network(channels, height, height)
    for _ in range(count):
        network.conv(channels, kernel)
    return network.graph("chain")


def residual_network(height: int = 56) -> Graph:
    """A stem, a bottleneck with a projection, one without, a strided one, global pooling and a classifier."""
    network = Network(3, 2 * height, 2 * height)
    stem = network.conv(64, 7, stride=2)
    for stride, width in ((1, 64), (1, 64), (2, 128)):
        entry = network.last()
        network.conv(width, 1)
        body = network.conv(width, 3, stride=stride)
        projected = entry[1] // (entry[2] ** 2) != 4 * width or stride != 1
        skip = network.conv(4 * width, 1, stride=stride, inputs=[entry]) if projected else entry
        network.conv(4 * width, 1, inputs=[body, skip])
    assert stem[3] == 0
    network.pool_all()
    network.matmul(1000)
    return network.graph("residual")


def accelerator(
    bandwidth: float = 8e9, sram: int = 2 << 20, double_buffered: bool = True, cores: int = 4, **device
) -> Device:
    """Cores of two kinds in turn: 32x32 output stationary and 64x16 weight stationary, at 1 GHz."""
    kinds = (("os", 32, 32, Dataflow.OUTPUT_STATIONARY), ("ws", 64, 16, Dataflow.WEIGHT_STATIONARY))
    made = tuple(
        Core(i, f"core{i}", *kinds[i % 2], 1e9, sram, 64, 0.04, 0.5, double_buffered) for i in range(cores)
    )
    settings = {"dispatch_s": 1e-6, "switch_s": 1e-7, "operand_bytes": 1.0, **device}
    return Device("test", made, bandwidth, 87.5, Link(4e9, 5.6), **settings)


@pytest.fixture(scope="session")
def device() -> Callable[..., Device]:
    return accelerator


@pytest.fixture(scope="session")
def chain() -> Callable[..., Graph]:
    return convolution_chain


@pytest.fixture(scope="session")
def network() -> type[Network]:
    return Network


@pytest.fixture(scope="session")
def residual() -> Callable[..., Graph]:
    return residual_network
