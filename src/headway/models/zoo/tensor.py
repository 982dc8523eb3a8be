"""What flows between a zoo graph's nodes; free of ``onnx``, so that listing the zoo stays quick."""

from __future__ import annotations

from dataclasses import dataclass

# The values of onnx.TensorProto.DataType.
FLOAT = 1
INT64 = 7
BOOL = 9


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value in the graph: its name, static shape and ONNX element type."""

    name: str
    shape: tuple[int, ...]
    dtype: int = FLOAT
