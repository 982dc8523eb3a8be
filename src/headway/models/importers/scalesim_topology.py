"""SCALE-Sim's topology tables: convolutions, or matrix products as M, N, K.

The columns are those of SCALE-Sim 2 and 3 (scalesim/topology_utils.py, `load_arrays_conv` and
`load_arrays_gemm`): the first line is a header, a comma may end each line, one stride serves both axes, a
layer whose name holds "DP" is depthwise, and a table of products may have a batch or a sparsity column.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from headway.core.errors import HeadwayError
from headway.models.graph import Graph, LoopDims
from headway.models.importers.table import (
    LARGEST_SIZE,
    Entry,
    graph_of,
    output_size,
    product,
    read_text,
    window,
)

_CONVOLUTION: Final = (
    "ifmap height",
    "ifmap width",
    "filter height",
    "filter width",
    "channels",
    "num filter",
    "strides",
)
_PRODUCT: Final = ("m", "n", "k")
_SAME: Final = {"num filters": "num filter", "stride": "strides", "layer name": "layer", "name": "layer"}
Convention = Literal["true", "scalesim"]
_OPTIONAL: Final = ("stride height", "stride width", "sparsity", "batch")


def read_scalesim_topology(path: Path, convention: Convention = "true") -> Graph:
    """The graph of a topology table, convolutions or matrix products, told apart by the header.

    Output sizes are those of the hardware, (input - filter) / stride + 1 rounded down; SCALE-Sim rounds up,
    which adds a row and a column wherever the stride does not divide. With the convention `scalesim` they are
    as there, on padding below and to the right, and each channel of a depthwise layer is a layer of its own,
    NAMEChannel_0 and so on, so that cycles can be compared with its reports line by line. Elements are 32-bit
    floats, which take the width of the hardware they are priced on.

    Raises HeadwayError naming line and column for whatever cannot be read, and for a sparsity ratio, which
    has no counterpart.
    """
    text = read_text(path)
    lines = list(_lines(text))
    if not lines:
        raise HeadwayError(f"{path}: the file is empty; accepted: a topology table of SCALE-Sim")
    line, header = lines[0]
    columns = [_column(name) for name in header]
    kind = _CONVOLUTION if "ifmap height" in columns else _PRODUCT
    _check_header(f"{path}:{line}", header, columns, kind)
    if len(lines) == 1:
        raise HeadwayError(f"{path}: a header without layers")
    entries = []
    for line, values in lines[1:]:
        row = _Row(f"{path}:{line}", columns, values)
        if kind is _PRODUCT:
            entries.append(_product(row))
        elif convention == "scalesim":
            entries += _as_scalesim(_convolution(row))
        else:
            entries.append(_convolution(row))
    return graph_of(entries, name=path.stem, path=path, text=text)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, values in enumerate(csv.reader(text.splitlines()), 1):
        cells = [value.strip() for value in values]
        if cells and cells[-1].startswith("#"):
            cells.pop()  # SCALE-Sim reads nothing after the last comma, where its own files have remarks
        while cells and not cells[-1]:
            cells.pop()  # the comma at the end of a line
        if cells:
            yield number, cells


def _column(name: str) -> str:
    plain = re.sub(r"[\s_]+", " ", name.strip().lower())
    return _SAME.get(plain, plain)


def _check_header(where: str, header: list[str], columns: list[str], kind: tuple[str, ...]) -> None:
    required = [name for name in kind if name != "strides" or "stride height" not in columns]
    if "stride height" in columns:
        required.append("stride width")
    missing = [name for name in ("layer", *required) if name not in columns]
    if missing:
        raise HeadwayError(
            f"{where}: found the header {', '.join(header)!r}; missing: {', '.join(missing)}; accepted: "
            "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
            "Strides (convolutions) or Layer, M, N, K (matrix products)"
        )
    for name, column in zip(header, columns, strict=True):
        if column not in ("layer", *kind, *_OPTIONAL):
            raise HeadwayError(f"{where}: column {name!r} has no counterpart")
        if columns.count(column) > 1:
            raise HeadwayError(f"{where}: column {name!r} is there twice")


class _Row:
    """One line of the table, its values by column."""

    def __init__(self, where: str, columns: list[str], values: list[str]) -> None:
        names = [column for column in columns if column not in ("sparsity", "batch")]
        if not len(names) <= len(values) <= len(columns):
            # A batch column is optional even where the header does not have it, and so is a second stride.
            if len(values) == len(columns) + 1 and columns[-1] == "strides" and values[-1] == values[-2]:
                values = values[:-1]
            elif len(values) == len(columns) + 1 and columns[-1] == "k":
                columns = [*columns, "sparsity" if ":" in values[-1] else "batch"]
            else:
                raise HeadwayError(
                    f"{where}: found {len(values)} values; accepted: {len(columns)}, as the header has"
                )
        self.where = where
        self._values = dict(zip(columns, values, strict=False))
        self.name = self._values["layer"]
        if not self.name:
            raise HeadwayError(f"{where}: a layer without a name")
        self._check_sparsity()

    def has(self, column: str) -> bool:
        return column in self._values

    def number(self, column: str) -> int:
        """A size. Raises HeadwayError unless it is a whole number from 1 on."""
        text = self._values[column]
        if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= LARGEST_SIZE:
            raise HeadwayError(
                f"{self.where}: layer {self.name!r}, {column}: found {text!r}; accepted: a whole number from "
                f"1 to {LARGEST_SIZE}"
            )
        return int(text)

    def _check_sparsity(self) -> None:
        ratio = self._values.get("sparsity", "")
        if not ratio:
            return
        kept, separator, of = ratio.partition(":")
        if not separator or kept.strip() != of.strip():
            raise HeadwayError(
                f"{self.where}: layer {self.name!r}, sparsity: found {ratio!r}, which has no counterpart; "
                "accepted: a dense ratio such as 1:1"
            )


def _convolution(row: _Row) -> Entry:
    rows, columns = row.number("ifmap height"), row.number("ifmap width")
    fy, fx = row.number("filter height"), row.number("filter width")
    channels, filters = row.number("channels"), row.number("num filter")
    if row.has("stride height"):
        stride_y, stride_x = row.number("stride height"), row.number("stride width")
    else:
        stride_y = stride_x = row.number("strides")
    for axis, size, kernel in (("height", rows, fy), ("width", columns, fx)):
        if kernel > size:
            raise HeadwayError(
                f"{row.where}: layer {row.name!r}, filter {axis}: {kernel} does not fit into an IFMAP "
                f"{axis} of {size}"
            )
    depthwise = "DP" in row.name
    dims = LoopDims(
        K=filters * channels if depthwise else filters,
        C=channels,
        OY=output_size(rows, fy, stride_y),
        OX=output_size(columns, fx, stride_x),
        FY=fy,
        FX=fx,
        stride_y=stride_y,
        stride_x=stride_x,
        groups=channels if depthwise else 1,
        IY=rows,
        IX=columns,
    )
    return window(dims, name=row.name, op="Conv")


def _as_scalesim(entry: Entry) -> list[Entry]:
    """What SCALE-Sim computes for a convolution (its topology_utils.py): one layer for each group, and output
    sizes of (input - filter + stride) / stride, rounded up.
    """
    dims = entry.dims
    rows = -(-(dims.IY - dims.FY + dims.stride_y) // dims.stride_y)
    columns = -(-(dims.IX - dims.FX + dims.stride_x) // dims.stride_x)
    one = replace(
        dims,
        K=dims.K // dims.groups,
        C=dims.C // dims.groups,
        OY=rows,
        OX=columns,
        pad_bottom=max(0, (rows - 1) * dims.stride_y + dims.FY - dims.IY),
        pad_right=max(0, (columns - 1) * dims.stride_x + dims.FX - dims.IX),
        groups=1,
    )
    names = [entry.name] if dims.groups == 1 else [f"{entry.name}Channel_{n}" for n in range(dims.groups)]
    return [window(one, name=name, op=entry.op) for name in names]


def _product(row: _Row) -> Entry:
    batch = row.number("batch") if row.has("batch") else 1
    # A batch is that of a product of two activations, such as the heads of attention.
    return product(
        row.name,
        "MatMul",
        m=row.number("m"),
        n=row.number("n"),
        k=row.number("k"),
        batch=batch,
        constant=batch == 1,
    )
