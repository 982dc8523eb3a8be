"""What a result's copy out of a reused buffer takes, and what binding new memory in its place would.

Processor time of each, the least of five, in one thread. Small results are copied, since the next request
uses the same buffers; large ones are handed over with their memory (headway.models.boundary_buffers).

    python bench/copies.py
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ALIGNMENT_BYTES = 64
SIZES = ((4000, "4 KB"), (64_000, "64 KB"), (200_000, "200 KB"), (400_000, "400 KB"), (4_000_000, "4 MB"))


def cpu_us(call: Callable[[], object], calls: int) -> float:
    """Microseconds of one call."""
    best_s = float("inf")
    for _ in range(5):
        begin_s = time.process_time()
        for _ in range(calls):
            call()
        best_s = min(best_s, (time.process_time() - begin_s) / calls)
    return 1e6 * best_s


def session_of(count: int) -> onnxruntime.InferenceSession:
    """A model with one result of so many FP32."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [count]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negate", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, ONNX Runtime {onnxruntime.__version__}\n")
    print("| result | copy, us | new memory bound, us |\n| --- | --- | --- |")
    for size, name in SIZES:
        result = np.ones(size // 4, np.float32)
        binding = session_of(size // 4).io_binding()

        def bind(size: int = size, binding: onnxruntime.IOBinding = binding) -> None:
            memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
            start = -memory.ctypes.data % ALIGNMENT_BYTES
            array = memory[start : start + size].view(np.float32)
            binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(array))

        calls = max(20, 20_000_000 // size)
        print(
            f"| {name} | {cpu_us(result.copy, min(calls, 4000)):.1f} | {cpu_us(bind, min(calls, 4000)):.1f} |"
        )


if __name__ == "__main__":
    main()
