"""From the rows of a layer table to a graph: which layer reads which, what is padding, what is in bytes.

A table gives sizes, layer by layer. Two things it mostly leaves open are settled here, by size alone:

- **Who reads whom.** Where the format has no edges, a layer reads the one before it if the sizes allow that;
  otherwise something that the table leaves out lies between them (pooling, a branch), and the layer's
  input comes from DRAM.
- **Padding.** A table gives the input as the filter sees it, padding included. Where it is larger than the
  map its producer makes, by less than one filter, the difference is padding: it is computed on, but never
  fetched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.dtypes import bits_of
from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand

LARGEST_SIZE: Final = 2**24  # of one loop: beyond it products of loops would leave 64 bits
_MOST_MACS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Shape:
    """A feature map, or a matrix with `rows` rows of `channels` elements."""

    batch: int
    channels: int
    rows: int
    columns: int

    @property
    def elements(self) -> int:
        return self.batch * self.channels * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Entry:
    """One layer as its table gives it.

    `dims.IY` and `dims.IX` are the input's sizes as the filter sees them, padding included unless the file
    tells padding apart. `sources` are the indices of the layers it reads, None for the network's input;
    without it the layer reads the one before it if sizes allow. `second` is the other activation of a sum
    or of a product of two activations, `weights` the elements of the constant operand.
    """

    name: str
    op: str
    kind: LayerKind
    dims: LoopDims
    input: Shape
    output: Shape
    weights: int = 0
    second: Shape | None = None
    vector_ops: int = 0
    row_kernel: int = 1
    row_stride: float = 1.0
    sources: tuple[int | None, ...] | None = None
    input_dtype: str = "float32"
    weight_dtype: str = "float32"
    output_dtype: str = "float32"
    note: str = ""


def window(
    dims: LoopDims, *, kind: LayerKind = LayerKind.CONV, name: str, op: str, weights: bool = True
) -> Entry:
    """A convolution's or a pooling window's entry, with what follows from its loop nest."""
    pool = kind is LayerKind.POOL
    output = Shape(dims.B, dims.K, dims.OY, dims.OX)
    return Entry(
        name=name,
        op=op,
        kind=kind,
        dims=dims,
        input=Shape(dims.B, dims.C, dims.IY, dims.IX),
        output=output,
        weights=dims.K * dims.k if weights and not pool else 0,
        vector_ops=output.elements * dims.FY * dims.FX if pool else 0,
        row_kernel=dims.dilation_y * (dims.FY - 1) + 1,
        row_stride=float(dims.stride_y),
    )


def product(name: str, op: str, *, m: int, n: int, k: int, batch: int = 1, constant: bool = True) -> Entry:
    """`batch` products of an m x k by a k x n matrix, the second constant or an activation too."""
    if constant and batch > 1:  # each product has its own weights: groups, side by side in the channels
        dims = LoopDims(K=batch * n, C=batch * k, OY=m, IY=m, groups=batch)
        first, output = Shape(1, batch * k, m, 1), Shape(1, batch * n, m, 1)
    else:
        dims = LoopDims(B=batch, K=n, C=k, OY=m, IY=m)
        first, output = Shape(batch, k, m, 1), Shape(batch, n, m, 1)
    return Entry(
        name=name,
        op=op,
        kind=LayerKind.MATMUL,
        dims=dims,
        input=first,
        output=output,
        weights=batch * n * k if constant else 0,
        second=None if constant else Shape(batch, n, k, 1),
    )


def output_size(padded: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Positions of a window in an input with its padding; below 1 if it does not fit."""
    return (padded - dilation * (kernel - 1) - 1) // stride + 1


def read_text(path: Path) -> str:
    """A table's text. Raises HeadwayError if it is not there or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise HeadwayError(f"{path}: {error.strerror or error}") from None


def graph_of(
    entries: Sequence[Entry], *, name: str, path: Path, text: str, warnings: Iterable[str] = ()
) -> Graph:
    """The graph of a table's layers in their order. Raises HeadwayError for one too large to count."""
    said = list(warnings)
    layers: list[Layer] = []
    inputs: dict[str, tuple[int, ...]] = {}
    apart: list[str] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        unique = entry.name
        while unique in names:
            unique = f"{entry.name}_{index}"
            entry = replace(entry, name=unique)
        names.add(unique)
        layer = _layer(index, entry, entries)
        if layer.macs >= _MOST_MACS:
            raise HeadwayError(f"{path}: layer {entry.name!r}: its sizes give more than 2^62 MACs")
        if entry.sources is None and index and layer.operands[0].producer is None:
            apart.append(entry.name)
        for operand, shape in zip(layer.operands, (entry.input, entry.second), strict=False):
            if operand.producer is None and shape is not None:
                sizes = (shape.batch, shape.channels, shape.rows, shape.columns)
                inputs[operand.tensor] = sizes
        layers.append(layer)
    for layer in layers:
        entry = entries[layer.index]
        for shape, source in zip((entry.input, entry.second), entry.sources or (), strict=False):
            if shape and source is not None and _fitted(entry, shape, entries[source].output) is None:
                said.append(
                    f"layer {layer.name!r} reads {layers[source].name!r}, whose sizes are others: all of it "
                    "has to be there first"
                )
    if apart:
        said.append(
            f"{len(apart)} of {len(layers)} layers cannot follow the one before them by their sizes (the "
            f"first is {apart[0]!r}): the table leaves out what lies between, so their input comes from DRAM"
        )
    read = {operand.producer for layer in layers for operand in layer.operands}
    layers = [replace(layer, is_output=layer.index not in read) for layer in layers]
    outputs = {
        layer.output: (shape.batch, shape.channels, shape.rows, shape.columns)
        for layer, shape in zip(layers, (entry.output for entry in entries), strict=True)
        if layer.is_output
    }
    return Graph(
        name=name,
        layers=tuple(layers),
        content_hash=hashlib.sha256(f"{name}\n{text}".encode()).hexdigest(),
        params=sum(layer.params for layer in layers),
        weight_bytes=sum(layer.weight_bytes for layer in layers),
        source=str(path),
        inputs=MappingProxyType(inputs),
        outputs=MappingProxyType(outputs),
        weights_present=False,
        warnings=tuple(said),
    )


def _layer(index: int, entry: Entry, entries: Sequence[Entry]) -> Layer:
    sources = entry.sources
    if sources is None:
        follows = index > 0 and _fitted(entry, entry.input, entries[index - 1].output) is not None
        sources = (index - 1 if follows else None, None)
    dims, operands = entry.dims, []
    shapes = [entry.input] if entry.second is None else [entry.input, entry.second]
    for position, shape in enumerate(shapes):
        producer = sources[position] if position < len(sources) else None
        held = position == 1 and entry.kind is LayerKind.MATMUL  # all of it, before the first output row
        row_wise = not held
        if producer is not None:
            fitted = _fitted(entry, shape, entries[producer].output)
            row_wise = row_wise and fitted is not None and fitted.row_wise
            if fitted is not None and position == 0 and entry.kind in (LayerKind.CONV, LayerKind.POOL):
                dims, shape = fitted.dims, replace(shape, rows=fitted.dims.IY, columns=fitted.dims.IX)
        suffix = ".second" if position else ".input"
        operands.append(
            Operand(
                tensor=f"{entry.name}{suffix}" if producer is None else _output_name(producer, entries),
                bytes=_bytes(shape.elements, entry.input_dtype if position == 0 else entry.weight_dtype),
                rows=shape.batch * shape.rows,
                producer=producer,
                row_wise=row_wise,
                dtype=entry.input_dtype if position == 0 else entry.weight_dtype,
            )
        )
    multiplies = entry.kind in (LayerKind.CONV, LayerKind.MATMUL)
    return Layer(
        index=index,
        name=entry.name,
        op=entry.op,
        kind=entry.kind,
        dims=dims,
        macs=dims.macs if multiplies else 0,
        vector_ops=entry.vector_ops,
        params=entry.weights,
        weight_bytes=_bytes(entry.weights, entry.weight_dtype),
        operands=tuple(operands),
        output=_output_name(index, entries),
        output_bytes=_bytes(entry.output.elements, entry.output_dtype),
        output_rows=entry.output.batch * entry.output.rows,
        output_dtype=entry.output_dtype,
        weight_dtype=entry.weight_dtype,
        row_kernel=entry.row_kernel,
        row_stride=entry.row_stride,
        row_pad=dims.pad_top,
        weight_is_activation=multiplies and entry.second is not None,
        note=entry.note,
    )


def _output_name(index: int, entries: Sequence[Entry]) -> str:
    return f"{index}:{entries[index].name}"


def _bytes(elements: int, dtype: str) -> int:
    return ceil(elements * bits_of(dtype) / 8)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How a layer reads what another makes: its nest with the padding known, and whether row by row."""

    dims: LoopDims
    row_wise: bool


def _fitted(entry: Entry, wanted: Shape, made: Shape) -> _Fit | None:
    """How one operand of a layer can be the map that is made, or None if the sizes contradict it."""
    dims = entry.dims
    if made.batch == wanted.batch and made.channels == wanted.channels:
        rows = _padding(made.rows, wanted.rows, dims.OY, dims.FY, dims.stride_y, dims.dilation_y)
        columns = _padding(made.columns, wanted.columns, dims.OX, dims.FX, dims.stride_x, dims.dilation_x)
        if entry.kind not in (LayerKind.CONV, LayerKind.POOL):
            rows = (0, 0) if made.rows == wanted.rows else None
            columns = (0, 0) if made.columns == wanted.columns else None
        elif dims.pad_top + dims.pad_bottom + dims.pad_left + dims.pad_right:
            rows = (dims.pad_top, dims.pad_bottom) if made.rows == wanted.rows else None
            columns = (dims.pad_left, dims.pad_right) if made.columns == wanted.columns else None
        if rows is not None and columns is not None:
            padded = replace(
                dims,
                pad_top=rows[0],
                pad_bottom=rows[1],
                pad_left=columns[0],
                pad_right=columns[1],
                IY=made.rows,
                IX=made.columns,
            )
            return _Fit(padded, True)
    if made.elements == wanted.elements:
        return _Fit(dims, False)  # the same tensor under another shape
    return None


def _padding(
    made: int, wanted: int, out: int, kernel: int, stride: int, dilation: int
) -> tuple[int, int] | None:
    """Padding before and after that makes an extent of `made` one of `wanted`, or None if none can.

    An odd amount has the larger part before, as symmetric padding has whose last row the stride leaves out.
    """
    if made >= wanted:
        return (0, 0) if output_size(made, kernel, stride, dilation) == out else None
    missing = wanted - made
    if missing > dilation * (kernel - 1):
        return None
    return ceil(missing / 2), missing // 2
