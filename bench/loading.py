"""What loading a model does to its neighbours: latencies of a strict tenant with and without a load going on.

    python bench/loading.py --loads 12 --seed 1          # about two minutes

In turns: a model is loaded, measured anew, and unloaded, while a small one is asked; then that one is asked
for as long alone. Arrivals are Poisson, in open loop, and latency counts from when a request was due.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from headway.config.serving import Serving
from headway.models import zoo
from headway.serve.refusal import Refusal
from headway.serve.service import InferenceRequest, InferenceResult
from headway.wiring.serving import Server
from headway.workload.draws import stream

STAYS, COMES = "kws_res8", "resnet18"


@dataclass
class Asker(threading.Thread):
    """Asks the model that stays until it is stopped; `phase` says under which name latencies are noted."""

    server: Server
    rate: float
    seed: int
    phase: str = ""
    latency_s: dict[str, list[float]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        draws = stream(self.seed, "arrivals")
        described = self.server.service.describe("stays")
        inputs = {each.name: np.zeros(each.shape, np.float32) for each in described.inputs}
        due_s = time.perf_counter()
        while not self.stopping.is_set():
            due_s += draws.exponential() / self.rate
            time.sleep(max(0.0, due_s - time.perf_counter()))
            self._ask(inputs, due_s, self.phase)

    def _ask(self, inputs: dict[str, np.ndarray], due_s: float, phase: str) -> None:
        def done(answer: InferenceResult | Refusal) -> None:
            if isinstance(answer, Refusal):
                self.refused[phase] = self.refused.get(phase, 0) + 1
            else:
                self.latency_s.setdefault(phase, []).append(time.perf_counter() - due_s)

        try:
            self.server.service.submit(
                InferenceRequest("stays", "", inputs, (), "", None, time.perf_counter()), done
            )
        except Refusal as refusal:
            done(refusal)


def main() -> None:
    """Print a line for each load and a table at last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loads", type=int, default=12)
    parser.add_argument("--rate", type=float, default=60.0, help="requests a second of the model that stays")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HEADWAY_CACHE"] = str(folder / "cache")
        for model, built in (("stays", STAYS), ("comes", COMES)):
            place = folder / "models" / model / "1"
            place.mkdir(parents=True)
            (place / "model.onnx").write_bytes(zoo.build(built, weights=True).SerializeToString())
        server = Server(
            Serving.from_mapping(
                {
                    "hardware": "cpu-lanes",
                    "repository": {"path": str(folder / "models"), "load": ["stays"]},
                    "tenants": [{"name": "a", "sla": {"deadline": "1 s"}}],
                }
            ),
            lambda words: None,
        )
        server.load()
        asker = Asker(server, chosen.rate, chosen.seed, "settling")
        asker.start()
        time.sleep(2.0)
        loads_s = []
        for number in range(chosen.loads):
            shutil.rmtree(folder / "cache" / "profiles", ignore_errors=True)
            asker.phase = "beside a load"
            began_s = time.perf_counter()
            server.models.load("comes").result()
            loads_s.append(time.perf_counter() - began_s)
            server.models.unload("comes").result()
            asker.phase = "alone"
            time.sleep(time.perf_counter() - began_s)
            print(f"load {number + 1}: {loads_s[-1]:.2f} s", flush=True)
        asker.stopping.set()
        asker.join()
        server.close(5.0)
    print(f"\n{COMES} was loaded in {median(loads_s):.2f} s at the median; {STAYS} meanwhile:\n")
    print("| | requests | median, ms | 95 %, ms | 99 %, ms | refused |\n|" + " --- |" * 6)
    for phase in ("alone", "beside a load"):
        found = asker.latency_s.get(phase, [])
        parts = (
            [f"{1e3 * float(np.percentile(found, at)):.2f}" for at in (50, 95, 99)] if found else ["-"] * 3
        )
        print(f"| {phase} | {len(found)} | {' | '.join(parts)} | {asker.refused.get(phase, 0)} |", flush=True)


if __name__ == "__main__":
    main()
