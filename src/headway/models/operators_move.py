"""Data movement: no arithmetic, but bytes. A view says that it is one; a copy is one operation an element."""

from __future__ import annotations

from typing import Final

from headway.models.graph import LayerKind
from headway.models.operators import MICROSOFT, NCHWC, Node, Work, formula
from headway.models.tensors import (
    Layout,
    map_layout,
    matrix_layout,
    reshaped_layout,
    transposed_layout,
    trimmed,
    usual_layout,
)

VIEW: Final = "view: no copy"


def _view(node: Node, settings: frozenset[int] = frozenset({1})) -> Work:
    x = node.input(0)
    work = Work(kind=LayerKind.MOVE, settings=settings, view=True, note=VIEW)
    before, after = x.sizes, node.output.sizes
    if x.layout is not None:
        kept = reshaped_layout(x.layout, before, after)
        if kept is not None:
            work.layout, work.wants = kept, {0: x.layout}
        return work
    # Made in no order of rows yet: take one that gives the usual rows behind the view.
    for axes in range(len(before), 0, -1):
        layout = trimmed(range(axes), before)
        if reshaped_layout(layout, before, after) == usual_layout(after):
            work.layout, work.wants = usual_layout(after), {0: layout}
            break
    return work


@formula("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Optional", "OptionalGetElement")
def view(node: Node) -> Work:
    """The same bytes under another shape."""
    if node.input(0).sequence or node.output.sequence:
        return Work(kind=LayerKind.MOVE, view=True, note=VIEW)
    return _view(node)


@formula("Transpose")
def transpose(node: Node) -> Work:
    """A copy, unless only axes of size 1 change places. Rows survive where their axes keep their order."""
    x = node.input(0)
    sizes = x.sizes
    rank = len(sizes)
    perm = list(node.attribute("perm") or reversed(range(rank)))
    moved = [axis for axis in perm if sizes[axis] != 1]
    if moved == sorted(moved):
        return _view(node, frozenset())
    work = Work(kind=LayerKind.MOVE, vector_ops=x.elements)
    if x.layout is not None:
        after = transposed_layout(x.layout, perm)
        if after is not None:
            work.layout, work.wants = after, {0: x.layout}
    return work


def _concat_layout(node: Node, axis: int) -> tuple[Layout | None, dict[int, Layout | None]]:
    layout: Layout | None = None
    for _, tensor in node.activations:
        if tensor.layout is not None:
            layout = tensor.layout
            break
    if layout is None:
        sizes = node.output.sizes
        layout = usual_layout(sizes) if axis != 2 else matrix_layout(sizes)
    if axis in layout:
        return None, {}
    return layout, {position: layout for position, _ in node.activations}


@formula("Concat")
def concat(node: Node) -> Work:
    """No copy where the operands are distinct activations, which then are written side by side at once."""
    axis = int(node.attribute("axis", 1)) % max(1, len(node.output.sizes))
    layout, wants = _concat_layout(node, axis)
    work = Work(kind=LayerKind.MOVE, vector_ops=node.output.elements, layout=layout, wants=wants)
    parts = {id(tensor) for _, tensor in node.activations}
    if len(parts) == len(node.inputs):
        work.vector_ops, work.view, work.note = 0, True, "view: its operands are written side by side"
    return work


@formula("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: Node) -> Work:
    """Concat that rescales each operand; inputs scale, zero point, then (tensor, scale, zero point) each."""
    settings = frozenset({0, 1} | {p for p in range(2, len(node.inputs)) if (p - 2) % 3})
    return Work(kind=LayerKind.MOVE, vector_ops=4 * node.output.elements, settings=settings)


def _along_axis(node: Node, axes: list[int], settings: frozenset[int], note: str = "") -> Work:
    x, y = node.input(0), node.output
    layout: Layout | None = x.layout if x.layout is not None else usual_layout(x.sizes)
    same_rank = len(x.sizes) == len(y.sizes)
    if not same_rank or set(axes) & set(layout or ()):
        layout = None
    return Work(
        kind=LayerKind.MOVE,
        vector_ops=sum(tensor.elements for tensor in node.outputs if tensor is not None),
        layout=layout,
        wants={0: layout} if layout is not None else {},
        settings=settings,
        note=note,
    )


def _part_of(work: Work) -> Work:
    work.vector_ops, work.view, work.note = 0, True, "view: its readers read a part"
    return work


@formula("Split")
def split(node: Node) -> Work:
    """No copy: each reader reads its part of the whole."""
    rank = len(node.input(0).sizes)
    return _part_of(_along_axis(node, [int(node.attribute("axis", 0)) % max(1, rank)], frozenset({1})))


@formula("Slice")
def slice_part(node: Node) -> Work:
    """No copy with unit steps: its readers read a part. Other steps gather, which is a copy."""
    x, y = node.input(0), node.output
    changed = [axis for axis in range(len(x.sizes)) if x.sizes[axis] != y.sizes[axis]]
    work = _along_axis(node, changed, frozenset({1, 2, 3, 4}))
    steps = node.input(4).value if node.has(4) else None
    unit = not node.has(4) or (steps is not None and bool((steps == 1).all()))
    return _part_of(work) if unit else work


@formula("Pad", "Tile", "Expand", "CenterCropPad", "Trilu", "ReverseSequence")
def resized_copy(node: Node) -> Work:
    """A copy of what comes out; rows go through where none of their axes changes its size."""
    x, y = node.input(0), node.output
    changed = (
        [axis for axis in range(len(x.sizes)) if x.sizes[axis] != y.sizes[axis]]
        if len(x.sizes) == len(y.sizes)
        else []
    )
    if node.op == "ReverseSequence":
        changed = [0, 1]
    return _along_axis(node, changed, frozenset({1, 2, 3, 4}))


@formula("Gather")
def gather(node: Node) -> Work:
    """Look-up: reads as much as it writes, not the whole table."""
    y = node.output
    work = Work(kind=LayerKind.MOVE, vector_ops=y.elements)
    table, indices = node.input(0), node.input(1)
    if table.constant and not indices.constant and len(table.sizes) == 2 and len(indices.sizes):
        work.layout = matrix_layout(y.sizes)
        work.wants = {1: work.layout}
        work.note = "look-up: reads the rows asked for, not the whole table"
    return work


@formula(
    "GatherElements",
    "GatherND",
    "ScatterElements",
    "ScatterND",
    "Scatter",
    "TensorScatter",
    "OneHot",
    "EyeLike",
)
@formula("ConstantOfShape", "Range", "Shape", "Size", "SequenceConstruct", "SequenceInsert", "SequenceErase")
@formula("SequenceAt", "SequenceEmpty", "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Col2Im")
def copy(node: Node) -> Work:
    """Moves what comes out, once."""
    outputs = [tensor for tensor in node.outputs if tensor is not None]
    return Work(kind=LayerKind.MOVE, vector_ops=max(1, sum(tensor.elements for tensor in outputs)))


@formula("Resize", "Upsample", "AffineGrid")
@formula("Upsample", domain=NCHWC)
def resize(node: Node) -> Work:
    """Nearest: a copy; linear: two operations a corner; cubic: two a tap."""
    x, y = node.input(0), node.output
    mode = str(node.attribute("mode", "nearest"))
    axes = [axis for axis in range(len(y.sizes)) if axis < len(x.sizes) and x.sizes[axis] != y.sizes[axis]]
    taps = {"nearest": 1, "linear": 2, "cubic": 4}.get(mode, 2)
    per_element = 1 if taps == 1 else 2 * taps ** max(1, len(axes))
    work = Work(
        kind=LayerKind.MOVE,
        vector_ops=per_element * y.elements,
        settings=frozenset({1, 2, 3}),
    )
    if len(x.sizes) == len(y.sizes) >= 3 and 0 not in axes:
        work.layout = map_layout(y.sizes)
        work.wants = {0: map_layout(x.sizes)}
        work.row_kernel = taps
        work.row_stride = x.sizes[2] / y.sizes[2]
        work.row_pad = (taps - 1) // 2
    return work


@formula("GridSample")
def grid_sample(node: Node) -> Work:
    """Four corners an element, two operations each; any row may be sampled."""
    return Work(kind=LayerKind.MOVE, vector_ops=8 * node.output.elements)


@formula("RoiAlign", "MaxRoiPool")
def roi_align(node: Node) -> Work:
    """Sampled windows: eight operations a sample, four samples an element."""
    return Work(kind=LayerKind.POOL, vector_ops=32 * node.output.elements)


@formula("MaxUnpool")
def max_unpool(node: Node) -> Work:
    """Scatters one element for each input element into zeros."""
    return Work(kind=LayerKind.MOVE, vector_ops=node.output.elements, settings=frozenset({2}))


@formula("DepthToSpace", "SpaceToDepth")
def block_rearrangement(node: Node) -> Work:
    """A copy; rows shrink or grow by the block size."""
    x, y = node.input(0), node.output
    block = int(node.attribute("blocksize"))
    grows = node.op == "DepthToSpace"
    return Work(
        kind=LayerKind.MOVE,
        vector_ops=y.elements,
        layout=map_layout(y.sizes),
        wants={0: map_layout(x.sizes)},
        row_kernel=1 if grows else block,
        row_stride=1 / block if grows else block,
    )


@formula("ReorderInput", "ReorderOutput", domain=NCHWC)
def reorder(node: Node) -> Work:
    """A copy between plain and blocked channels; rows stay."""
    layout = map_layout(node.output.sizes)
    wants = {0: map_layout(node.input(0).sizes)}
    return Work(kind=LayerKind.MOVE, vector_ops=node.output.elements, layout=layout, wants=wants)
