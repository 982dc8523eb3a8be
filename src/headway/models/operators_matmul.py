"""Matrix products: with a weight, of two activations, quantised, packed, and by an Einsum equation.

The rows M are all leading axes of the first operand, so a batch of sequences against one weight is one
product. Where the second operand has its own batch axes there are B independent products.
"""

from __future__ import annotations

from math import prod

from headway.models.graph import LayerKind, LoopDims
from headway.models.operators import MICROSOFT, Node, Work, formula
from headway.models.tensors import UnknownShapeError, matrix_layout


def product_work(
    node: Node,
    a: tuple[int, ...],
    b: tuple[int, ...],
    *,
    positions: tuple[int, int] = (0, 1),
    bias: int = -1,
    settings: frozenset[int] = frozenset(),
) -> Work:
    """Work of `a @ b` under NumPy's rules, given the shapes after any transposition."""
    if not a or not b:
        raise UnknownShapeError(node.label)
    y = node.output
    reduction = a[-1]
    columns = b[-1] if len(b) > 1 else 1
    batch = prod(b[:-2]) if len(b) > 2 else 1
    total_rows = y.elements // columns if columns else 0
    rows = total_rows // batch if batch and total_rows % batch == 0 else total_rows
    batch = batch if batch and total_rows % batch == 0 else 1
    dims = LoopDims(B=batch, K=columns, C=reduction, OY=rows, IY=rows)
    first, second = positions
    layout = matrix_layout(y.sizes) if len(b) > 1 else None
    plain = node.input(first).sizes == a
    wants = {first: matrix_layout(a) if plain and len(a) > 1 and layout == matrix_layout(a) else None}
    vector_ops = 0
    if node.has(bias):
        vector_ops += y.elements
        if node.input(bias).known and node.input(bias).sizes == y.sizes:
            wants[bias] = layout
    weight_is_activation = not node.input(second).constant
    if node.input(first).constant and weight_is_activation:
        # The constant is the stationary side wherever it stands; the activation then is read whole.
        weight_is_activation = False
        wants = {}
    return Work(
        kind=LayerKind.MATMUL,
        dims=dims,
        macs=dims.macs,
        vector_ops=vector_ops,
        layout=layout,
        wants=wants,
        settings=settings,
        at_output=frozenset({bias}),
        weight_is_activation=weight_is_activation,
    )


def _swapped(sizes: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    return (*sizes[:-2], sizes[-1], sizes[-2]) if transposed and len(sizes) > 1 else sizes


@formula("MatMul")
def matmul(node: Node) -> Work:
    """Matrix product under NumPy's rules."""
    return product_work(node, node.input(0).sizes, node.input(1).sizes)


@formula("MatMulInteger")
def matmul_integer(node: Node) -> Work:
    """Integer product with zero points."""
    return product_work(node, node.input(0).sizes, node.input(1).sizes, settings=frozenset({2, 3}))


@formula("MatMulIntegerToFloat", "DynamicQuantizeMatMul", domain=MICROSOFT)
def matmul_integer_to_float(node: Node) -> Work:
    """Integer product, rescaled to floats with a bias: three operations an element."""
    settings = frozenset({2, 3, 4, 5}) if node.op == "MatMulIntegerToFloat" else frozenset({2, 3})
    work = product_work(node, node.input(0).sizes, node.input(1).sizes, settings=settings)
    work.vector_ops += 3 * node.output.elements
    return work


@formula("QLinearMatMul")
def qlinear_matmul(node: Node) -> Work:
    """Quantised product, requantised at two operations an element."""
    settings = frozenset({1, 2, 4, 5, 6, 7})
    work = product_work(node, node.input(0).sizes, node.input(3).sizes, positions=(0, 3), settings=settings)
    work.vector_ops += 2 * node.output.elements
    return work


@formula("Gemm")
@formula("FusedGemm", "GemmFloat8", domain=MICROSOFT)
def gemm(node: Node) -> Work:
    """General product `alpha A' B' + beta C`, with a fused activation where an optimiser put one."""
    a = _swapped(node.input(0).sizes, bool(node.attribute("transA", 0)))
    b = _swapped(node.input(1).sizes, bool(node.attribute("transB", 0)))
    settings = frozenset({3, 4, 5}) if node.op == "GemmFloat8" else frozenset[int]()
    work = product_work(node, a, b, bias=2, settings=settings)
    activation = node.attribute("activation")
    if activation:
        work.vector_ops += node.output.elements
        work.note = f"fused {activation}"
    return work


@formula("QGemm", domain=MICROSOFT)
def qgemm(node: Node) -> Work:
    """Quantised general product; inputs A, scale, zero point, B, scale, zero point, C, scale, zero point."""
    a = _swapped(node.input(0).sizes, bool(node.attribute("transA", 0)))
    b = _swapped(node.input(3).sizes, bool(node.attribute("transB", 0)))
    settings = frozenset({1, 2, 4, 5, 7, 8})
    work = product_work(node, a, b, positions=(0, 3), bias=6, settings=settings)
    work.vector_ops += 2 * node.output.elements
    return work


@formula("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: Node) -> Work:
    """Product with transpositions folded in; those of batch axes leave MACs as they are."""
    if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
        raise UnknownShapeError(node.label)
    a = _swapped(node.input(0).sizes, bool(node.attribute("transA", 0)))
    b = _swapped(node.input(1).sizes, bool(node.attribute("transB", 0)))
    return product_work(node, a, b)


@formula("MatMulNBits", "MatMulBnb4", domain=MICROSOFT)
def matmul_nbits(node: Node) -> Work:
    """Product with a weight packed to few bits in blocks; unpacking costs two operations per weight."""
    k, n = int(node.attribute("K")), int(node.attribute("N"))
    work = product_work(node, node.input(0).sizes, (k, n), settings=frozenset({3, 4}), bias=5)
    work.vector_ops += 2 * k * n
    bits = node.attribute("bits", 4)
    work.note = f"weights packed to {bits} bits; parameters count packed bytes and block scales as stored"
    return work


def parse_equation(equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str, dict[str, int]]:
    """Subscripts of the operands and of the output of an Einsum, and each label's size.

    An ellipsis becomes upper-case labels from the right, which no equation uses itself here. Raises
    UnknownShapeError where equation and shapes do not agree.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise UnknownShapeError(equation)
    spare = [letter for letter in "ZYXWVUTSRQPONML" if letter not in equation]
    longest = 0
    expanded: list[str] = []
    for term, shape in zip(terms, shapes, strict=True):
        hidden = len(shape) - len(term.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in term) or hidden > len(spare):
            raise UnknownShapeError(equation)
        longest = max(longest, hidden)
        expanded.append(term.replace("...", "".join(reversed(spare[:hidden]))))
    ellipsis = "".join(reversed(spare[:longest]))
    sizes: dict[str, int] = {}
    for term, shape in zip(expanded, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    if arrow:
        output = right.replace("...", ellipsis)
    else:
        joined = "".join(expanded)
        output = ellipsis + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in ellipsis)
        )
    if any(label not in sizes for label in output):
        raise UnknownShapeError(equation)
    return expanded, output, sizes


@formula("Einsum")
def einsum(node: Node) -> Work:
    """Product by equation: one multiply-accumulate per point of all labels, for each operand after the first.

    Labels of both operands and the output are the batch B; of the first alone M, of the second alone N;
    those that the output lacks are the reduction. One operand is a sum or a transposition.
    """
    tensors = [node.input(position) for position in range(len(node.inputs))]
    terms, output, sizes = parse_equation(
        str(node.attribute("equation")), [tensor.sizes for tensor in tensors]
    )
    everything = prod(sizes.values())
    if len(terms) == 1:
        kind = LayerKind.REDUCE if everything > node.output.elements else LayerKind.MOVE
        return Work(kind=kind, vector_ops=everything)
    first, second = set(terms[0]), set(terms[1])
    if len(terms) > 2:
        return Work(
            kind=LayerKind.MATMUL,
            dims=LoopDims(OY=node.output.elements, C=everything // max(1, node.output.elements)),
            macs=everything * (len(terms) - 1),
            weight_is_activation=not any(tensor.constant for tensor in tensors),
            note="contracted in one step, whatever order would be cheaper",
        )
    batch = [label for label in sizes if label in first and label in second and label in output]
    rows = [label for label in sizes if label in output and label in first - second]
    columns = [label for label in sizes if label in output and label in second - first]
    reduction = [label for label in sizes if label not in output]
    dims = LoopDims(
        B=prod(sizes[label] for label in batch),
        OY=prod(sizes[label] for label in rows),
        K=prod(sizes[label] for label in columns),
        C=prod(sizes[label] for label in reduction),
        IY=prod(sizes[label] for label in rows),
    )
    constants = [tensor.constant for tensor in tensors]
    return Work(kind=LayerKind.MATMUL, dims=dims, macs=dims.macs, weight_is_activation=not any(constants))
