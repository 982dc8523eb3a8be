"""Loads and unloads a small model again and again while another one is asked, and watches the memory.

    python bench/soak.py --loads 1000

Prints the server's resident memory after every hundred loads, and at last its growth from the hundredth load
on. The model that stays is asked throughout; its latency with and without loads beside it is printed, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headway.config.serving import Serving
from headway.serve.refusal import Refusal
from headway.serve.service import InferenceRequest, InferenceResult
from headway.wiring.serving import Server

EVERY = 100
SPACING_S = 0.02


def small_model() -> bytes:
    """A matrix product with 1 MB of weights."""
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array(rng.standard_normal((512, 512), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 512])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def resident_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Asker(threading.Thread):
    """Asks a model at even distances and notes how long answers take."""

    def __init__(self, server: Server, model: str) -> None:
        super().__init__(daemon=True)
        self._server, self._model = server, model
        self.latency_s: list[float] = []
        self.refused = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        described = self._server.service.describe(self._model)
        inputs = {each.name: np.zeros(each.shape, np.float32) for each in described.inputs}
        while not self.stopping.wait(SPACING_S):
            answered = threading.Event()
            began_s = time.perf_counter()

            def done(answer: InferenceResult | Refusal, answered: threading.Event = answered) -> None:
                self.refused += isinstance(answer, Refusal)
                answered.set()

            self._server.service.submit(
                InferenceRequest(self._model, "", inputs, (), "", None, began_s), done
            )
            answered.wait()
            self.latency_s.append(time.perf_counter() - began_s)


def asked(server: Server, seconds: float) -> list[float]:
    """Latencies while nothing is loaded."""
    asker = Asker(server, "stays")
    asker.start()
    time.sleep(seconds)
    asker.stopping.set()
    asker.join()
    return asker.latency_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loads", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stays", "comes-and-goes"):
            place = Path(folder) / name / "1"
            place.mkdir(parents=True)
            (place / "model.onnx").write_bytes(small_model())
        serving = Serving.from_mapping(
            {"hardware": "cpu-lanes", "repository": {"path": folder, "load": ["stays"]}}
        )
        server = Server(serving, lambda words: None)
        server.load()
        alone_s = asked(server, 5.0)
        asker = Asker(server, "stays")
        asker.start()
        memory_mb = []
        began_s = time.perf_counter()
        for load in range(1, arguments.loads + 1):
            server.models.load("comes-and-goes").result()
            server.models.unload("comes-and-goes").result()
            if load % EVERY == 0 or load == 1:
                memory_mb.append(resident_mb())
                print(
                    f"{load:5d} loads, {time.perf_counter() - began_s:6.1f} s: {memory_mb[-1]:.1f} MB",
                    flush=True,
                )
        asker.stopping.set()
        asker.join()
        server.close(5.0)
    if len(memory_mb) > 2:
        growth_mb = memory_mb[-1] - memory_mb[1]
        loads = arguments.loads - EVERY
        per_load_kb = 1e3 * growth_mb / loads
        print(f"growth from the {EVERY}th load on: {growth_mb:+.1f} MB, {per_load_kb:+.2f} kB a load")
    for words, latencies_s in (("alone", alone_s), ("beside loads", asker.latency_s)):
        at_95_s = quantiles(latencies_s, n=20)[-1]
        print(f"latency {words}: median {1e3 * median(latencies_s):.2f} ms, 95 % {1e3 * at_95_s:.2f} ms")
    print(f"refused: {asker.refused}")


if __name__ == "__main__":
    main()
