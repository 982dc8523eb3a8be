"""Where a model's batch is: the first dimension of each of its inputs, if it is left open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def batch_sizes(most: int) -> tuple[int, ...]:
    """The batches that are priced: powers of two, and the largest; those between lie on lines."""
    sizes = {most}
    size = 2
    while size < most:
        sizes.add(size)
        size *= 2
    return tuple(sorted(sizes))


def batch_axes(inputs: Iterable[ValueInfoProto], dims: Mapping[str, int], where: str) -> tuple[str, ...]:
    """The batch as INPUT.AXIS of each input, as `dims` of a reader of models take it.

    Raises HeadwayError for an input without a batch of open size.
    """
    axes = []
    for value in inputs:
        sizes = value.type.tensor_type.shape.dim
        alias = f"{value.name}.0"
        if not value.type.HasField("tensor_type") or not sizes:
            raise HeadwayError(f"{where}: input {value.name!r} has no dimension for a batch")
        if sizes[0].HasField("dim_value") and sizes[0].dim_value > 0:
            raise HeadwayError(
                f"{where}: input {value.name!r} has a first dimension of {sizes[0].dim_value}; accepted for"
                " batches: one that is left open"
            )
        given = next((name for name in (alias, sizes[0].dim_param) if name in dims), None)
        if given is not None:
            raise HeadwayError(f"{where}: dims fixes {given!r}, the batch; accepted for batches: left open")
        axes.append(alias)
    if not axes:
        raise HeadwayError(f"{where}: no inputs, so no batch")
    return tuple(axes)


def with_open_batch(model: ModelProto) -> ModelProto:
    """A copy of a model whose inputs' first dimensions, and all that was inferred from them, are left open.

    Whether it then computes what it did shows only when it is run; see `batch_rows`.
    """
    from onnx import ModelProto as Proto

    copy = Proto()
    copy.CopyFrom(model)
    stored = {tensor.name for tensor in copy.graph.initializer}
    for value in copy.graph.input:
        if value.name not in stored and value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy
