"""Elementwise operators: one output element from the same element of each operand, broadcast included."""

from __future__ import annotations

from typing import Final

from headway.models.graph import LayerKind
from headway.models.operators import MICROSOFT, Node, Work, formula, same_rows

# Elementary operations for one output element. Compositions count their parts: a sigmoid is negate,
# exponential, add, divide; a tanh two more; an exact GELU an error function and three products.
_OPS_PER_ELEMENT: Final[dict[str, int]] = {
    "Sigmoid": 4,
    "Tanh": 6,
    "Softplus": 3,
    "Softsign": 3,
    "Elu": 3,
    "Celu": 4,
    "Selu": 4,
    "Gelu": 8,
    "FastGelu": 9,
    "BiasGelu": 9,
    "QuickGelu": 5,
    "Swish": 5,
    "Mish": 10,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "Erf": 5,
    "LeakyRelu": 2,
    "PRelu": 2,
    "Clip": 2,
    "Mod": 2,
    "Pow": 2,
    "QuantizeLinear": 3,
    "DequantizeLinear": 2,
    "QLinearSigmoid": 6,
    "QLinearLeakyRelu": 4,
    "QLinearAdd": 5,
    "QLinearMul": 4,
}

_UNARY: Final = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Cast",
    "CastLike",
]
_NARY: Final = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
]


@formula(*_UNARY, *_NARY)
@formula("Gelu", "FastGelu", "BiasGelu", "QuickGelu", domain=MICROSOFT)
def elementwise(node: Node) -> Work:
    """A map over one or more operands; more than two cost one operation for each after the first."""
    layout, wants = same_rows(node)
    per_element = max(_OPS_PER_ELEMENT.get(node.op, 1), len(node.inputs) - 1 if node.op in _NARY else 1)
    return Work(
        kind=LayerKind.ELEMENTWISE,
        vector_ops=per_element * node.output.elements,
        layout=layout,
        wants=wants,
        settings=frozenset({1}) if node.op == "CastLike" else frozenset(),
    )


@formula("Clip")
def clip(node: Node) -> Work:
    """Two comparisons an element."""
    layout, wants = same_rows(node, (0,))
    return Work(
        kind=LayerKind.ELEMENTWISE,
        vector_ops=2 * node.output.elements,
        layout=layout,
        wants=wants,
        settings=frozenset({1, 2}),
    )


@formula("QuantizeLinear", "DequantizeLinear")
@formula("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def quantize(node: Node) -> Work:
    """Scale, shift and round. What a DequantizeLinear makes is kept quantised until its consumer reads it."""
    layout, wants = same_rows(node, (0,))
    return Work(
        kind=LayerKind.ELEMENTWISE,
        vector_ops=_OPS_PER_ELEMENT[node.op] * node.output.elements,
        layout=layout,
        wants=wants,
        settings=frozenset({1, 2}),
        note="the consumer reads the quantised tensor" if node.op == "DequantizeLinear" else "",
    )


@formula("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_unary(node: Node) -> Work:
    """A quantised map."""
    layout, wants = same_rows(node, (0,))
    return Work(
        kind=LayerKind.ELEMENTWISE,
        vector_ops=_OPS_PER_ELEMENT[node.op] * node.output.elements,
        layout=layout,
        wants=wants,
        settings=frozenset({1, 2, 3, 4}),
    )


@formula("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(node: Node) -> Work:
    """A quantised sum or product; inputs A, scale, zero point, B, scale, zero point, scale, zero point."""
    layout, wants = same_rows(node, (0, 3))
    return Work(
        kind=LayerKind.ELEMENTWISE,
        vector_ops=_OPS_PER_ELEMENT[node.op] * node.output.elements,
        layout=layout,
        wants=wants,
        settings=frozenset({1, 2, 4, 5, 6, 7}),
    )


@formula("BatchNormalization", "SpatialBN")
def batch_normalization(node: Node) -> Work:
    """Inference form: a product and a sum for each element, with statistics as weights."""
    layout, wants = same_rows(node, (0,))
    return Work(kind=LayerKind.ELEMENTWISE, vector_ops=2 * node.output.elements, layout=layout, wants=wants)


@formula("Dropout")
def dropout(node: Node) -> Work:
    """At inference nothing is dropped."""
    layout, wants = same_rows(node, (0,))
    return Work(
        kind=LayerKind.MOVE,
        layout=layout,
        wants=wants,
        settings=frozenset({1, 2}),
        view=True,
        note="view: no copy",
    )


@formula("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> Work:
    """Range, scale and rounding of a whole tensor: the range needs all of it first."""
    return Work(kind=LayerKind.NORM, vector_ops=5 * node.input(0).elements)


@formula("RotaryEmbedding")
@formula("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: Node) -> Work:
    """Two products and a sum for each element."""
    layout, wants = same_rows(node, (0,))
    return Work(kind=LayerKind.ELEMENTWISE, vector_ops=3 * node.output.elements, layout=layout, wants=wants)


@formula("Bernoulli", "RandomNormalLike", "RandomUniformLike", "RandomNormal", "RandomUniform", "Multinomial")
def random_values(node: Node) -> Work:
    """Draws, priced as ten operations each."""
    return Work(kind=LayerKind.ELEMENTWISE, vector_ops=10 * node.output.elements)
