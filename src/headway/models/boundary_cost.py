"""What one boundary between two blocks costs on this machine, measured with two sessions in place of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from headway.models.runtime_session import SessionSettings, session_options

if TYPE_CHECKING:
    from onnx import ModelProto

_SMALL_ELEMENTS: Final = 1 << 10
_LARGE_ELEMENTS: Final = 1 << 18
_COLD_ELEMENTS: Final = 1 << 23  # 32 MiB, more than most last-level caches
_ROUNDS: Final = 21
_COPIES: Final = 8
_PRODUCTS: Final = 8
_RELUS: Final = 8


@dataclass(frozen=True, slots=True)
class BoundaryCost:
    """Seconds of a boundary: a fixed part, a part for each tensor that crosses, and a part for each byte.

    `copy_byte_s` is what a byte takes that has to be copied, `fetch_byte_s` what it takes from memory that is
    in no cache.
    """

    fixed_s: float
    tensor_s: float
    byte_s: float
    copy_byte_s: float
    fetch_byte_s: float

    def overhead_s(self, crossing_bytes: int, tensors: int, copied_bytes: int = 0) -> float:
        """What a cut costs when the next block follows at once."""
        parts = (self.tensor_s * tensors, self.byte_s * crossing_bytes, self.copy_byte_s * copied_bytes)
        return self.fixed_s + sum(parts)

    def cold_s(self, crossing_bytes: int) -> float:
        """What comes on top when another model ran in between."""
        return self.fetch_byte_s * crossing_bytes


@lru_cache(maxsize=8)
def boundary_cost(threads: int = 1) -> BoundaryCost:
    """Measure it, once per process and number of threads; it takes about a tenth of a second.

    Eight matrix products, each of about a tenth of a millisecond, run in one session and in eight with bound
    buffers between, in turns; the median of the differences is the cost of seven boundaries: the calls,
    waking each session's threads, and what is colder in the caches. What a byte adds is measured alike on
    eight Relu nodes over 1 MiB: one session works in the same memory all the time, while tensors that cross
    lie in memory of their own, 9 MiB in all. Of the fixed cost a fifth is counted for each tensor.
    """
    fixed = _difference_s(_products(), _PRODUCTS, threads) / (_PRODUCTS - 1)
    large = _difference_s(_relus(_LARGE_ELEMENTS), _RELUS, threads)
    small = _difference_s(_relus(_SMALL_ELEMENTS), _RELUS, threads)
    return BoundaryCost(
        fixed_s=0.8 * fixed,
        tensor_s=0.2 * fixed,
        byte_s=max(0.0, large - small) / ((_RELUS - 1) * 4 * (_LARGE_ELEMENTS - _SMALL_ELEMENTS)),
        copy_byte_s=_copy_byte_s(),
        fetch_byte_s=_fetch_byte_s(),
    )


def _copy_byte_s() -> float:
    """Of tensors that are in no core's own cache, since other blocks' memory was used since."""
    import numpy as np

    source = np.ones(_COPIES * _LARGE_ELEMENTS, dtype=np.float32)
    target = np.zeros_like(source)
    times = []
    for _ in range(2):
        for first in range(0, source.size, _LARGE_ELEMENTS):
            part = slice(first, first + _LARGE_ELEMENTS)
            started = perf_counter()
            np.copyto(target[part], source[part])
            times.append(perf_counter() - started)
    return median(times[_COPIES:]) / (4 * _LARGE_ELEMENTS)


def _fetch_byte_s() -> float:
    import numpy as np

    memory = np.ones(_COLD_ELEMENTS, dtype=np.float32)
    times = []
    for _ in range(2):
        started = perf_counter()
        memory.sum()
        times.append(perf_counter() - started)
    return min(times) / memory.nbytes


@dataclass(frozen=True, slots=True)
class _Line:
    """Nodes in a line, all tensors of one shape."""

    op: str
    shape: tuple[int, ...]
    weight_shape: tuple[int, ...] = ()

    def model(self, first: int, end: int) -> ModelProto:
        """Nodes [first, end) as a model."""
        import numpy as np
        from onnx import TensorProto, helper, numpy_helper

        nodes, weights = [], []
        for index in range(first, end):
            operands = [f"t{index}"]
            if self.weight_shape:
                values = np.full(self.weight_shape, 1.0 / self.weight_shape[0], dtype=np.float32)
                weights.append(numpy_helper.from_array(values, f"w{index}"))
                operands.append(f"w{index}")
            nodes.append(helper.make_node(self.op, operands, [f"t{index + 1}"]))
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape)
            for name in (f"t{first}", f"t{end}")
        ]
        graph = helper.make_graph(nodes, "line", ends[:1], ends[1:], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _products() -> _Line:
    return _Line("MatMul", (64, 256), (256, 256))


def _relus(elements: int) -> _Line:
    return _Line("Relu", (elements,))


def _difference_s(line: _Line, count: int, threads: int) -> float:
    """How much longer `count` nodes take in as many sessions than in one; at least a microsecond."""
    import numpy as np
    import onnxruntime

    arrays = [np.ones(line.shape, dtype=np.float32) for _ in range(count + 1)]
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    whole = [_bound(line.model(0, count), values[0], values[-1], threads)]
    parts = [_bound(line.model(i, i + 1), values[i], values[i + 1], threads) for i in range(count)]
    differences = []
    for _ in range(_ROUNDS):
        times = []
        for chain in (whole, parts):
            started = perf_counter()
            for session, binding in chain:
                session.run_with_iobinding(binding, None)
            times.append(perf_counter() - started)
        differences.append(times[1] - times[0])
    return max(1e-6, median(differences))


def _bound(model: ModelProto, source: Any, target: Any, threads: int) -> tuple[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(),
        session_options(SessionSettings(threads=threads, optimise=False, shared_arena=True)),
        providers=["CPUExecutionProvider"],
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, source)
    binding.bind_ortvalue_output(session.get_outputs()[0].name, target)
    return session, binding
