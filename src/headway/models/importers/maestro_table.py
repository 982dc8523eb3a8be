"""MAESTRO's layer tables (`.m`), as XRBench uses them too.

The grammar is read off the tables that MAESTRO publishes (data/model, data/mapping) and those of XRBench:
`Constant NAME SIZE;` and `Network NAME { Layer NAME { Type: ... Stride { ... } Dimensions { ... } } ... }`,
with a colon before a brace or without, commas between sizes or not, and comments from `//` on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph, LoopDims
from headway.models.importers.maestro_grammar import Parser, TableLayer
from headway.models.importers.table import (
    Entry,
    Shape,
    graph_of,
    output_size,
    product,
    read_text,
    window,
)

_CONVOLUTIONS: Final = ("CONV", "FC", "DSCONV", "TRCONV")
_TYPES: Final = (*_CONVOLUTIONS, "GEMM", "BMM")


def read_maestro_table(path: Path, network: str | None = None) -> Graph:
    """The graph of one network of a table; `network` names it where the table has several.

    Y and X are sizes of the input as the filter sees it, so an output has (Y - R) / stride + 1 rows, and one
    at least. A stride that is not given is 1. DSCONV is depthwise with K filters a channel. Elements are
    32-bit floats, which take the width of the hardware they are priced on.

    Raises HeadwayError naming line and field for whatever cannot be read, and for types and fields that have
    no counterpart.
    """
    text = read_text(path)
    parser = Parser(path, text)
    networks = parser.networks()
    if not networks:
        raise HeadwayError(f"{path}: no Network in it; accepted: Network NAME {{ Layer NAME {{ ... }} ... }}")
    if network is None and len(networks) > 1:
        raise HeadwayError(
            f"{path}: it holds several networks: {', '.join(networks)}; say which after the file's name, as "
            f"in {path.name}#{next(iter(networks))}"
        )
    chosen = next(iter(networks)) if network is None else network
    if chosen not in networks:
        raise HeadwayError(f"{path}: no network named {chosen!r}; it holds {', '.join(networks)}")
    warnings = parser.warnings(chosen)
    entries = [_entry(path, layer, warnings) for layer in networks[chosen]]
    if not entries:
        raise HeadwayError(f"{path}: network {chosen!r} has no layers")
    return graph_of(entries, name=chosen, path=path, text=text, warnings=warnings)


def _entry(path: Path, layer: TableLayer, warnings: list[str]) -> Entry:
    where = f"{path}:{layer.line}: layer {layer.name!r}"
    if layer.type is None:
        raise HeadwayError(f"{where}: Type: missing; accepted: {', '.join(_TYPES)}")
    kind = layer.type.text
    if kind not in _TYPES:
        raise HeadwayError(
            f"{path}:{layer.type.line}: layer {layer.name!r}: Type: {kind} has no counterpart; accepted: "
            f"{', '.join(_TYPES)}"
        )
    given = layer.sizes
    if kind in ("GEMM", "BMM"):
        names = ("B", "M", "N", "K") if kind == "BMM" else ("M", "N", "K")
        sizes = _checked(where, "Dimensions", given.get("Dimensions", {}), names, required=names)
        for field in given:
            if field != "Dimensions":
                raise HeadwayError(f"{where}: {field} has no counterpart in a {kind}")
        return product(
            layer.name,
            "MatMul",
            m=sizes["M"],
            n=sizes["N"],
            k=sizes["K"],
            batch=sizes.get("B", 1),
            constant=kind == "GEMM",
        )
    sizes = _checked(
        where, "Dimensions", given.get("Dimensions", {}), tuple("NKCYXRS"), required=tuple("KCYXRS")
    )
    return _convolution(where, layer, kind, sizes, warnings)


def _convolution(
    where: str, layer: TableLayer, kind: str, sizes: Mapping[str, int], warnings: list[str]
) -> Entry:
    axes = ("Y", "X")
    given = layer.sizes
    stride = _checked(where, "Stride", given.get("Stride", {}), axes)
    dilation = _checked(where, "Dilation", given.get("Dilation", {}), axes)
    padding = _checked(where, "Padding", given.get("Padding", {}), axes)
    if kind == "TRCONV":
        for field in ("Dilation", "Padding"):
            if field in given:
                raise HeadwayError(f"{where}: {field} has no counterpart in a TRCONV")
        return _transposed(layer, sizes, stride, warnings)
    extent: dict[str, int] = {}
    pads: dict[str, tuple[int, int]] = {}
    for axis, kernel in (("Y", "R"), ("X", "S")):
        before = after = padding.get(axis, 0)
        span = dilation.get(axis, 1) * (sizes[kernel] - 1) + 1
        if missing := max(0, span - sizes[axis] - before - after):
            # Such layers are in XRBench's tables: deep maps shrunk below the filter that slides over them.
            before, after = before + missing - missing // 2, after + missing // 2
            warnings.append(
                f"layer {layer.name!r}: a filter of {kernel}: {sizes[kernel]} over {axis}: {sizes[axis]} is "
                "read as one position, padded as far as it takes"
            )
        pads[axis] = before, after
        extent[axis] = output_size(
            sizes[axis] + before + after, sizes[kernel], stride.get(axis, 1), dilation.get(axis, 1)
        )
    depthwise = kind == "DSCONV"
    dims = LoopDims(
        B=sizes.get("N", 1),
        K=sizes["K"] * sizes["C"] if depthwise else sizes["K"],
        C=sizes["C"],
        OY=extent["Y"],
        OX=extent["X"],
        FY=sizes["R"],
        FX=sizes["S"],
        stride_y=stride.get("Y", 1),
        stride_x=stride.get("X", 1),
        pad_top=pads["Y"][0],
        pad_bottom=pads["Y"][1],
        pad_left=pads["X"][0],
        pad_right=pads["X"][1],
        dilation_y=dilation.get("Y", 1),
        dilation_x=dilation.get("X", 1),
        groups=sizes["C"] if depthwise else 1,
        IY=sizes["Y"],
        IX=sizes["X"],
    )
    return window(dims, name=layer.name, op="Conv")


def _transposed(
    layer: TableLayer, sizes: Mapping[str, int], stride: Mapping[str, int], warnings: list[str]
) -> Entry:
    """A transposed convolution: its nest runs over input pixels, each of which is spread over a filter."""
    if not stride:
        stride = {"Y": sizes["R"], "X": sizes["S"]}
        warnings.append(f"layer {layer.name!r}: TRCONV without a Stride, read as one as large as the filter")
    dims = LoopDims(
        B=sizes.get("N", 1),
        K=sizes["K"],
        C=sizes["C"],
        OY=sizes["Y"],
        OX=sizes["X"],
        FY=sizes["R"],
        FX=sizes["S"],
        IY=sizes["Y"],
        IX=sizes["X"],
    )
    step_y, step_x = stride.get("Y", 1), stride.get("X", 1)
    rows, columns = (dims.IY - 1) * step_y + dims.FY, (dims.IX - 1) * step_x + dims.FX
    return Entry(
        name=layer.name,
        op="ConvTranspose",
        kind=window(dims, name=layer.name, op="ConvTranspose").kind,
        dims=dims,
        input=Shape(dims.B, dims.C, dims.IY, dims.IX),
        output=Shape(dims.B, dims.K, rows, columns),
        weights=dims.K * dims.k,
        row_kernel=-(-dims.FY // step_y),
        row_stride=1 / step_y,
        note="transposed: the loop nest runs over input pixels",
    )


def _checked(
    where: str,
    field: str,
    sizes: Mapping[str, int],
    accepted: tuple[str, ...],
    required: tuple[str, ...] = (),
) -> Mapping[str, int]:
    for name in sizes:
        if name not in accepted:
            raise HeadwayError(f"{where}: {field}.{name} has no counterpart; accepted: {', '.join(accepted)}")
    missing = [name for name in required if name not in sizes]
    if missing:
        raise HeadwayError(f"{where}: {field}: missing {', '.join(missing)}; accepted: {', '.join(accepted)}")
    return sizes
