"""The registry of operator formulas: what one node computes, from the shapes of what it reads and makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from headway.models.graph import LayerKind, LoopDims
from headway.models.tensors import Layout, Tensor, UnknownShapeError, broadcast_layout, usual_layout

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MICROSOFT: Final = "com.microsoft"
NCHWC: Final = "com.microsoft.nchwc"
INTERNAL_NHWC: Final = "com.ms.internal.nhwc"


@dataclass(frozen=True, slots=True)
class BodyCost:
    """What one pass through the body of a control-flow node costs."""

    macs: int
    vector_ops: int
    weight_bytes: int
    moved_bytes: int  # everything that its layers read and write, for comparing branches
    roots: tuple[str, ...]
    captured: tuple[Tensor, ...]  # activations of the outer graph that it reads
    outputs: tuple[Tensor, ...]
    bounded: bool
    problems: tuple[str, ...] = ()  # why it cannot run at these sizes


@dataclass(slots=True)
class Node:
    """One node with what is known of its inputs and outputs, as formulas see it."""

    op: str
    domain: str
    label: str  # how messages name it
    version: int  # of its domain's operator set
    attributes: Mapping[str, Any]
    inputs: list[Tensor | None]
    outputs: list[Tensor | None]
    walk_body: Callable[[GraphProto, Sequence[Tensor]], BodyCost]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, or the default if the node does not have it."""
        return self.attributes.get(name, default)

    def has(self, position: int) -> bool:
        """Whether the input at that position is given (optional ones may be left out or named '')."""
        return 0 <= position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> Tensor:
        """The input at that position; raises UnknownShapeError if it is not given."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise UnknownShapeError(f"{self.label}: input {position}")
        return tensor

    @property
    def output(self) -> Tensor:
        """The first output that is given."""
        for tensor in self.outputs:
            if tensor is not None:
                return tensor
        raise UnknownShapeError(f"{self.label}: no output")

    @property
    def activations(self) -> Iterator[tuple[int, Tensor]]:
        """Positions and tensors of the inputs that are not constants."""
        for position, tensor in enumerate(self.inputs):
            if tensor is not None and not tensor.constant:
                yield position, tensor


@dataclass(slots=True)
class Work:
    """What a formula says of a node.

    `wants` gives, by input position, the layout in which that input must have its rows for the node to
    work band by band; None, or no entry, makes the input a barrier. `settings` are positions whose
    constants steer the node (shapes, axes, scales) and are not counted as weights. `at_output` are positions
    that are applied to the result: their rows go with the output's, not with the row window. `extra_roots`
    are initialisers read other than as inputs (by bodies).
    """

    kind: LayerKind
    dims: LoopDims = field(default_factory=LoopDims)
    macs: int = 0
    vector_ops: int = 0
    layout: Layout | None = None
    wants: Mapping[int, Layout | None] = field(default_factory=dict)
    row_kernel: int = 1
    row_stride: float = 1.0
    row_pad: int = 0
    settings: frozenset[int] = frozenset()
    at_output: frozenset[int] = frozenset()
    note: str = ""
    view: bool = False
    bounded: bool = False
    weight_is_activation: bool = False
    captured: tuple[Tensor, ...] = ()
    extra_roots: tuple[str, ...] = ()
    extra_weight_bytes: int = 0
    warning: str = ""
    problems: tuple[str, ...] = ()  # of bodies that cannot run at these sizes


def channels_last(domain: str, attributes: Mapping[str, Any]) -> bool:
    """Whether an operator's feature maps are [N, H, W, C], as ONNX Runtime's optimisers write some."""
    return domain == INTERNAL_NHWC or bool(attributes.get("channels_last", 0))


def attribute_values(node: NodeProto) -> dict[str, Any]:
    """Attributes by name; text as str, graphs and tensors as protos."""
    from onnx import AttributeProto, helper

    values: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.STRING:
            value = value.decode("utf-8", "replace")
        elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            value = list(value)
        values[attribute.name] = value
    return values


Formula = Callable[[Node], Work]
_FORMULAS: dict[tuple[str, str], Formula] = {}
_MODULES: Final = (
    "operators_convolution",
    "operators_matmul",
    "operators_attention",
    "operators_elementwise",
    "operators_reduce",
    "operators_move",
    "operators_recurrent",
    "bodies",
)


def formula(*ops: str, domain: str = "") -> Callable[[Formula], Formula]:
    """Register a function as the formula of operators of one domain."""

    def register(function: Formula) -> Formula:
        for op in ops:
            if (domain, op) in _FORMULAS:
                raise KeyError(f"two formulas for {domain}:{op}")
            _FORMULAS[domain, op] = function
        return function

    return register


def formula_of(domain: str, op: str) -> Formula | None:
    """The formula of an operator, or None if there is none."""
    if not _FORMULAS:
        for module in _MODULES:
            import_module(f"headway.models.{module}")
    return _FORMULAS.get((domain, op))


def same_rows(node: Node, positions: Sequence[int] | None = None) -> tuple[Layout, dict[int, Layout | None]]:
    """Layout of an elementwise output, and what it wants of its inputs, broadcast ones included.

    An input whose rows are fewer than the output's (a per-channel gate) must be there whole first.
    """
    sizes = node.output.sizes
    candidates = [
        (position, tensor)
        for position, tensor in node.activations
        if (positions is None or position in positions) and tensor.known and not tensor.sequence
    ]
    layout: Layout | None = None
    for _, tensor in candidates:
        if tensor.sizes == sizes and tensor.layout is not None:
            layout = tensor.layout
            break
    if layout is None:
        layout = usual_layout(sizes)
    wants: dict[int, Layout | None] = {}
    for position, tensor in candidates:
        shift = len(sizes) - len(tensor.sizes)
        own = tuple(axis - shift for axis in layout)
        fits = all(axis >= 0 and tensor.sizes[axis] == sizes[axis + shift] for axis in own)
        wants[position] = (
            own if fits and broadcast_layout(own, len(tensor.sizes), len(sizes)) == layout else None
        )
    return layout, wants
