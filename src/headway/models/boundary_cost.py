"""What one boundary between two blocks costs on this machine, measured with two sessions in place of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

_SMALL_ELEMENTS: Final = 1 << 10
_LARGE_ELEMENTS: Final = 1 << 18
_COLD_ELEMENTS: Final = 1 << 24  # 64 MiB, more than most last-level caches
_ROUNDS: Final = 41
_BURST: Final = 4


@dataclass(frozen=True, slots=True)
class BoundaryCost:
    """Seconds of a boundary: a fixed part, a part for each tensor that crosses, and a part for each byte.

    `fetch_byte_s` is what a byte takes from memory that is in no cache.
    """

    fixed_s: float
    tensor_s: float
    byte_s: float
    fetch_byte_s: float

    def overhead_s(self, crossing_bytes: int, tensors: int) -> float:
        """What a cut costs when the next block follows at once."""
        return self.fixed_s + self.tensor_s * tensors + self.byte_s * crossing_bytes

    def cold_s(self, crossing_bytes: int) -> float:
        """What comes on top when another model ran in between."""
        return self.fetch_byte_s * crossing_bytes


@lru_cache(maxsize=8)
def boundary_cost(threads: int = 1) -> BoundaryCost:
    """Measure it, once per process and number of threads; it takes about a tenth of a second.

    Two Relu nodes run in one session and in two with a bound buffer between, in turns; the medians of the
    differences are compared on 4 KiB and on 1 MiB. What else a boundary costs (a buffer that cannot be
    reused in place) grows with the bytes and is part of the difference on 1 MiB. Of the fixed cost a fifth
    is counted for each tensor.
    """
    import numpy as np

    small = _difference_s(np.ones(_SMALL_ELEMENTS, dtype=np.float32), threads)
    large = _difference_s(np.ones(_LARGE_ELEMENTS, dtype=np.float32), threads)
    return BoundaryCost(
        fixed_s=0.8 * small,
        tensor_s=0.2 * small,
        byte_s=max(0.0, large - small) / (4 * (_LARGE_ELEMENTS - _SMALL_ELEMENTS)),
        fetch_byte_s=_fetch_byte_s(),
    )


def _fetch_byte_s() -> float:
    import numpy as np

    memory = np.ones(_COLD_ELEMENTS, dtype=np.float32)
    times = []
    for _ in range(3):
        started = perf_counter()
        memory.sum()
        times.append(perf_counter() - started)
    return min(times) / memory.nbytes


def _difference_s(array: np.ndarray, threads: int) -> float:
    import numpy as np
    import onnxruntime

    ort_value = onnxruntime.OrtValue.ortvalue_from_numpy
    source = ort_value(array)
    buffers = [ort_value(np.empty_like(array)) for _ in range(2)]
    whole = [_bound(_session(array.size, 2, threads), source, buffers[1])]
    halves = [
        _bound(_session(array.size, 1, threads), source, buffers[0]),
        _bound(_session(array.size, 1, threads), buffers[0], buffers[1]),
    ]
    differences = []
    for _ in range(_ROUNDS):
        times = []
        for chain in (whole, halves):
            started = perf_counter()
            for _ in range(_BURST):
                for session, binding in chain:
                    session.run_with_iobinding(binding, None)
            times.append(perf_counter() - started)
        differences.append((times[1] - times[0]) / _BURST)
    return max(1e-6, median(differences))


def _session(elements: int, relus: int, threads: int) -> Any:
    import onnxruntime
    from onnx import TensorProto, helper

    from headway.models.runtime_session import SessionSettings, session_options

    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(relus)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [elements]) for name in ("t0", f"t{relus}")
    ]
    graph = helper.make_graph(nodes, "boundary", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        session_options(SessionSettings(threads=threads, optimise=False)),
        providers=["CPUExecutionProvider"],
    )


def _bound(session: Any, source: Any, target: Any) -> tuple[Any, Any]:
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, source)
    binding.bind_ortvalue_output(session.get_outputs()[0].name, target)
    return session, binding
