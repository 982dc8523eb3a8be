"""An InferenceService without an engine: it gives back its input, and remembers what it was asked."""

from __future__ import annotations

import argparse
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.serve.refusal import Cause, Refusal
from headway.serve.service import (
    Count,
    Done,
    IndexEntry,
    InferenceRequest,
    InferenceResult,
    ModelDescription,
    ModelState,
    ModelStatistics,
    TensorSpec,
)
from headway.serve.tensors import DTYPES

DATATYPES = tuple(DTYPES)
LABELS = ("cat", "dog", "owl")


def echo_model(name: str, datatype: str) -> ModelDescription:
    return ModelDescription(
        name=name,
        version="1",
        versions=("1",),
        platform="onnxruntime_onnx",
        inputs=(TensorSpec("x", datatype, (-1,)),),
        outputs=(TensorSpec("y", datatype, (-1,)),),
    )


SCORES = ModelDescription(
    name="scores",
    version="2",
    versions=("1", "2"),
    platform="onnxruntime_onnx",
    inputs=(TensorSpec("x", "FP32", (-1, 3)),),
    outputs=(TensorSpec("y", "FP32", (-1, 3)),),
    max_batch_size=8,
    labels={"y": LABELS},
)
IMAGE = ModelDescription(
    name="image",
    version="1",
    versions=("1",),
    platform="onnxruntime_onnx",
    inputs=(TensorSpec("x", "FP32", (1, 3, 224, 224)),),
    outputs=(TensorSpec("y", "FP32", (1, 1000)),),
)


@dataclass
class FakeTicket:
    done: Done
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        self.cancelled.set()
        self.done(Refusal(Cause.CANCELLED, "withdrawn"))


class FakeService:
    """Models by name: echo-DATATYPE and scores give back their input, image the start of it.

    `held` answers only when it is cancelled; `refuse` refuses at once, `late` after it was taken.
    """

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        self.tickets: list[FakeTicket] = []
        self.is_ready = True
        self.refusal = Refusal(Cause.LIMITED, "over the rate", retry_after_s=1.5, predicted_finish_s=0.25)
        self.loaded: list[tuple[str, str | None, str | None]] = []
        self.unloaded: list[tuple[str, str | None]] = []
        self.submitted = threading.Event()
        self.counts: Counter[str] = Counter()
        models = [*(echo_model(f"echo-{name}", name) for name in DATATYPES), SCORES, IMAGE]
        models += [echo_model(name, "FP32") for name in ("held", "refuse", "late", "broken")]
        self.models = {model.name: model for model in models}
        self.answer: Callable[[InferenceRequest], dict[str, Any]] = self._echo

    def _echo(self, request: InferenceRequest) -> dict[str, Any]:
        array = next(iter(request.inputs.values()))
        return {"y": array.reshape(1, -1)[:, :1000] if request.model == "image" else array}

    def submit(self, request: InferenceRequest, done: Done) -> FakeTicket:
        model = self.describe(request.model, request.version)
        if request.key == "wrong":
            raise Refusal(Cause.UNAUTHENTICATED, "nobody has this key")
        if request.model == "refuse":
            raise self.refusal
        if request.model == "broken":
            raise RuntimeError("/secret/path")
        for spec in model.inputs:
            if spec.name not in request.inputs:
                raise Refusal(Cause.INVALID, f"input {spec.name!r} is missing")
        for name in request.outputs:
            if name != "y":
                raise Refusal(Cause.INVALID, f"there is no output {name[:40]!r}")
        ticket = FakeTicket(done)
        self.counts[model.name] += 1
        self.requests.append(request)
        self.tickets.append(ticket)
        del self.requests[:-100], self.tickets[:-100]
        if request.model == "late":
            done(Refusal(Cause.LATE, "too late", predicted_finish_s=2.0))
        elif request.model != "held":
            done(InferenceResult(request.model, model.version, self.answer(request)))
        self.submitted.set()
        return ticket

    def refused(self, model: str, version: str, key: str | None, refusal: Refusal, visit: Any) -> None:
        visit.tenant = key or "somebody"

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.is_ready

    def model_ready(self, model: str, version: str = "") -> bool:
        self.describe(model, version)
        return self.is_ready

    def describe(self, model: str, version: str = "") -> ModelDescription:
        known = self.models.get(model)
        if known is None or (version and version not in known.versions):
            raise Refusal(Cause.NOT_FOUND, f"no model {model[:40]!r} of version {version[:40]!r}")
        return known

    def statistics(self, model: str = "", version: str = "") -> Sequence[ModelStatistics]:
        names = [self.describe(model, version).name] if model else list(self.models)
        return [self._statistics(self.models[name]) for name in names]

    def _statistics(self, model: ModelDescription) -> ModelStatistics:
        """Each request took a microsecond in each of its stages."""
        count = Count(self.counts[model.name], 1000 * self.counts[model.name])
        return ModelStatistics(
            name=model.name,
            version=model.version,
            last_inference_ms=1_700_000_000_000,
            inference_count=count.count,
            execution_count=count.count,
            success=count,
            fail=Count(),
            queue=count,
            compute_input=count,
            compute_infer=count,
            compute_output=count,
            batches={1: count},
        )

    def index(self, *, only_ready: bool = False) -> Sequence[IndexEntry]:
        entries = [IndexEntry(name, "1", ModelState.READY) for name in self.models]
        return (
            entries if only_ready else [*entries, IndexEntry("gone", "1", ModelState.UNAVAILABLE, "unloaded")]
        )

    async def load(self, model: str, key: str | None, config: str | None = None, files: Any = None) -> None:
        self.describe(model)
        if files:
            raise Refusal(Cause.FORBIDDEN, f"files are not taken: {sorted(files)}")
        self.loaded.append((model, key, config))

    async def unload(self, model: str, key: str | None) -> None:
        self.describe(model)
        self.unloaded.append((model, key))


def zeros_of(datatype: str, count: int) -> Any:
    """A tensor of zeros, false values or empty strings."""
    if datatype == "BYTES":
        return np.full(count, b"", object)
    return np.zeros(count, DTYPES[datatype])


def main() -> None:
    """Serve the fake on free ports, write them to a file, and stay until the standard input ends."""
    import sys

    from headway.serve.frontends import serve_frontends

    parser = argparse.ArgumentParser()
    parser.add_argument("ports_file", type=Path)
    where = parser.parse_args().ports_file
    here = ("127.0.0.1", 0)
    with serve_frontends(FakeService(), http=here, grpc=here) as front:
        part = where.with_suffix(".part")
        part.write_text(f"{front.http_port} {front.grpc_port}")
        part.rename(where)
        sys.stdin.read()


if __name__ == "__main__":
    main()
