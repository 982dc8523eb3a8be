"""Made-up inputs with which a model can be run to measure it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.models.value_types import ValueKind, ValueType, numpy_dtype

Inputs = Mapping[str, Any]


def sample_inputs(
    types: Mapping[str, ValueType], shapes: Mapping[str, tuple[int, ...]], *, seed: int, integer: int = 0
) -> dict[str, Any]:
    """Values for each input: floats from a normal distribution, integers all `integer`, booleans true.

    Zeros are within the range of every table of embeddings; lengths and counts may have to be at least one.

    Args:
        types: of the inputs, by name.
        shapes: sizes where the type leaves some open.
        seed: of the floats.
        integer: value of all integers.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for name, value_type in types.items():
        shape = value_type.shape if value_type.shape is not None else shapes.get(name, ())
        dtype = numpy_dtype(value_type.dtype)
        if value_type.dtype == "string":
            array = np.full(shape, "a", dtype=object)
        elif value_type.dtype == "bool":
            array = np.ones(shape, dtype=bool)
        elif "float" in value_type.dtype:
            array = rng.standard_normal(shape).astype(dtype)
        else:
            array = np.full(shape, integer).astype(dtype)
        sequence = value_type.kind is ValueKind.SEQUENCE or value_type.text.startswith("optional(seq")
        values[name] = [array] if sequence else array
    return values
