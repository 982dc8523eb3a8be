"""ZigZag's workloads: a YAML list of layers, each an equation over named loops.

The fields are those that ZigZag 3 accepts (zigzag/parser/workload_validator.py). What a layer is follows
from its equation: a loop in O and W but not in I is an output channel, one in I and W but not in O is
reduced, one in all three is a group, and an index of I that `dimension_relations` defines slides a
window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph, LayerKind, LoopDims
from headway.models.importers.table import (
    Entry,
    Shape,
    graph_of,
    product,
    read_text,
    window,
)
from headway.models.importers.zigzag_fields import Fields, parsed

_EQUATION: Final = re.compile(
    r"O((?:\[\w+\])+)\s*\+?=\s*([IW])((?:\[\w+\])+)\s*([*+])\s*([IW])((?:\[\w*\])*)", re.IGNORECASE
)
_POOLS: Final = ("Pooling", "Pool", "MaxPool", "AveragePool", "GlobalAveragePool")
_OPERATORS: Final = ("Conv", "Conv_downsample", "Gemm", "Add", *_POOLS)


def is_zigzag_workload(data: object) -> bool:
    """Whether plain data looks like a workload: a list of mappings with operator types."""
    return isinstance(data, list) and any(isinstance(item, dict) and "operator_type" in item for item in data)


def read_zigzag_workload(path: Path) -> Graph:
    """The graph of a workload.

    Elements take the widths of `operand_precision`: I, W, and O_final (or O) for the output; partial sums
    take the accumulators of the hardware. An operand whose source is its own layer, or that has none, is the
    network's input or constant.

    Raises HeadwayError naming line, layer and field for whatever cannot be read or has no counterpart.
    """
    text = read_text(path)
    data, lines = parsed(path, text)
    if not is_zigzag_workload(data):
        raise HeadwayError(
            f"{path}: not a workload of ZigZag; accepted: a list of layers with id, operator_type, equation, "
            "loop_dims, loop_sizes and operand_precision"
        )
    entries: list[Entry] = []
    known: dict[int, int] = {}
    wide: list[int] = []
    for position, (item, line) in enumerate(zip(data, lines, strict=True)):
        layer = Fields(f"{path}:{line}: layer {position}", item)
        if layer.id in known:
            raise layer.error("id", f"{layer.id} is already taken by layer {known[layer.id]}")
        entries.append(_entry(layer, known))
        known[layer.id] = position
        precision = layer.widths
        if precision.get("O", 0) != precision.get("O_final", precision.get("O", 0)):
            wide.append(precision["O"])
    warnings = []
    if wide:
        warnings.append(
            "operand_precision.O of partial sums not read: their width is that of the hardware's accumulators"
        )
    return graph_of(entries, name=path.stem, path=path, text=text, warnings=warnings)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: the loop of the output, that of the filter if it slides, and how."""

    index: str
    out: str
    kernel: str | None = None
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True, slots=True)
class _Equation:
    """The indices of each operand, in the order in which they are written."""

    output: tuple[str, ...]
    input: tuple[str, ...]
    weight: tuple[str, ...]
    sums: bool  # I + W rather than I * W
    axes: tuple[_Axis, ...]


def _entry(layer: Fields, known: Mapping[int, int]) -> Entry:
    if layer.operator not in _OPERATORS:
        raise layer.error(
            "operator_type", f"{layer.operator} has no counterpart; accepted: {', '.join(_OPERATORS)}"
        )
    equation = _equation(layer)
    sources = (layer.source("I", known), layer.source("W", known))
    pools = layer.operator in _POOLS
    if equation.sums:
        entry = _sum(layer, equation, constant=sources[1] is None)
    elif equation.axes or pools:
        if sources[1] is not None and not pools:
            raise layer.error("operand_source.W", "a filter that another layer makes has no counterpart")
        entry = _window(layer, equation, pools)
    else:
        entry = _product(layer, equation, constant=sources[1] is None)
    return replace(
        entry,
        sources=sources,
        input_dtype=layer.dtype("I"),
        weight_dtype=layer.dtype("W") if entry.weights or entry.second else "int8",
        output_dtype=layer.dtype("O_final", "O"),
    )


def _equation(layer: Fields) -> _Equation:
    text = layer.text("equation")
    match = _EQUATION.fullmatch(text)
    if match is None or match[2].upper() == match[5].upper():
        raise layer.error(
            "equation", f"found {text!r}; accepted: such as O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"
        )
    named = {match[2].upper(): _indices(match[3]), match[5].upper(): _indices(match[6])}
    output, first, weight = _indices(match[1]), named["I"], named["W"]
    relations = layer.relations()
    axes = []
    for index in first:
        if index in relations:
            one, name, other, second = relations[index]
            if name not in output:
                one, name, other, second = other, second, one, name
            if name not in output or second not in weight:
                raise layer.error(
                    "dimension_relations",
                    f"{index}: accepted: loops of O and of W, such as ix=2*ox+1*fx",
                )
            axes.append(_Axis(index, name, second, one, other))
        elif index in ("oy", "ox"):
            axes.append(_Axis(index, index))
    sliding = {axis.index for axis in axes}
    for index in (*output, *weight, *(name for name in first if name not in sliding)):
        if index not in layer.sizes:
            raise layer.error("loop_dims", f"{index.upper()} of the equation is missing")
    if len(axes) > 2:
        raise layer.error("dimension_relations", f"{len(axes)} spatial axes; accepted: two")
    return _Equation(output, first, weight, match[4] == "+", tuple(axes))


def _indices(text: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in re.findall(r"\[(\w+)\]", text))


def _sum(layer: Fields, equation: _Equation, *, constant: bool) -> Entry:
    if set(equation.input) != set(equation.output) or not set(equation.weight) <= set(equation.output):
        raise layer.error("equation", "a sum of operands with other loops than its output has no counterpart")
    sizes = layer.sizes
    rows, columns = (sizes.get("oy", 1), sizes.get("ox", 1))
    total = prod(sizes[name] for name in equation.output)
    batch = sizes["b"] if "b" in equation.output else 1
    shape = Shape(batch, total // (batch * rows * columns), rows, columns)
    second = prod(sizes[name] for name in equation.weight)
    if not constant and second != total:
        raise layer.error("equation", "a summand that is repeated along a loop has no counterpart")
    return Entry(
        name=layer.name,
        op=layer.operator,
        kind=LayerKind.ELEMENTWISE,
        dims=LoopDims(),
        input=shape,
        output=shape,
        second=None if constant else shape,
        weights=second if constant else 0,
        vector_ops=total,
    )


def _window(layer: Fields, equation: _Equation, pools: bool) -> Entry:
    sizes = layer.sizes
    spatial = {name for axis in equation.axes for name in (axis.out, axis.kernel, axis.index) if name}
    output, first, weight = (
        [name for name in names if name not in spatial]
        for names in (equation.output, equation.input, equation.weight)
    )
    both = [name for name in output if name in first]
    batch = [name for name in both if name not in weight and (not pools or name == "b")]
    groups = [name for name in both if name not in batch]
    columns = [name for name in output if name not in first]
    reduced = [name for name in first if name not in output]
    if pools and (columns or reduced):
        raise layer.error("equation", "a pooling window that mixes channels has no counterpart")
    for name in (*columns, *reduced, *(() if pools else groups)):
        if name not in weight:
            raise layer.error("equation", f"loop {name.upper()}, in one operand alone, has no counterpart")
    count = prod(sizes[name] for name in groups)
    given, pads = layer.inputs()
    axes = [_extents(layer, axis, given, pads) for axis in _rows_and_columns(equation.axes)]
    rows, wide = axes
    dims = LoopDims(
        B=prod(sizes[name] for name in batch),
        K=count * prod(sizes[name] for name in columns),
        C=count * prod(sizes[name] for name in reduced),
        OY=rows.out,
        OX=wide.out,
        FY=rows.kernel,
        FX=wide.kernel,
        stride_y=rows.stride,
        stride_x=wide.stride,
        pad_top=rows.before,
        pad_bottom=rows.after,
        pad_left=wide.before,
        pad_right=wide.after,
        dilation_y=rows.dilation,
        dilation_x=wide.dilation,
        groups=count,
        IY=rows.size,
        IX=wide.size,
    )
    kind = LayerKind.POOL if pools else LayerKind.CONV
    return window(dims, name=layer.name, op="Conv" if not pools else layer.operator, kind=kind)


@dataclass(frozen=True, slots=True)
class _Extents:
    """One spatial axis in numbers; `size` is without the padding that is known."""

    out: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    size: int = 1
    before: int = 0
    after: int = 0


def _rows_and_columns(axes: tuple[_Axis, ...]) -> Iterator[_Axis | None]:
    """The axis of rows, then that of columns: by name, else in the order of the input."""
    named = sorted(axes, key=lambda axis: axis.index in ("ix", "ox"))
    yield from (*named, None, None)[:2]


def _extents(
    layer: Fields, axis: _Axis | None, given: Mapping[str, int], pads: Mapping[str, tuple[int, int]]
) -> _Extents:
    if axis is None:
        return _Extents()
    out = layer.sizes[axis.out]
    kernel = layer.sizes[axis.kernel] if axis.kernel else 1
    seen = axis.stride * (out - 1) + axis.dilation * (kernel - 1) + 1
    size = given.get(axis.index)
    before, after = pads.get(axis.index, (0, 0))
    if size is None:
        size = seen - before - after
    elif size + before + after < seen:
        raise layer.error(
            f"pr_loop_sizes of {axis.index.upper()}",
            f"{size} with padding of {before} and {after} is less than the {seen} that its loops run over",
        )
    if size < 1:
        raise layer.error("padding", f"{axis.index.upper()}: nothing but padding is left of {seen}")
    return _Extents(out, kernel, axis.stride, axis.dilation, size, before, after)


def _product(layer: Fields, equation: _Equation, *, constant: bool) -> Entry:
    output, first, weight = (set(names) for names in (equation.output, equation.input, equation.weight))
    for name in output | first | weight:
        if (name in output) + (name in first) + (name in weight) < 2:
            raise layer.error("equation", f"loop {name.upper()}, in one operand alone, has no counterpart")

    def size(names: set[str]) -> int:
        return prod(layer.sizes[name] for name in names)

    return product(
        layer.name,
        "MatMul",
        m=size((output & first) - weight),
        n=size((output & weight) - first),
        k=size((first & weight) - output),
        batch=size(output & first & weight),
        constant=constant,
    )
