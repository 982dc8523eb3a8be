"""Whole models in bare ONNX Runtime sessions, served first in first out."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
import onnxruntime
from _scores import TENANTS
from _speed import Timed

from headway.core.request import Request


class Bare:
    """Sessions of whole models with one number of threads each, and bound inputs and outputs."""

    def __init__(
        self,
        threads: int,
        models: Mapping[str, bytes],
        inputs: Mapping[str, Mapping[str, Any]],
        *,
        spinning: bool = True,
    ) -> None:
        self.spinning = spinning
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
        self._runs: dict[str, Callable[[], None]] = {}
        for name, content in models.items():
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            self._runs[name] = _bound(session, inputs[name])

    def run(self, name: str) -> float:
        """Run a model once; returns its seconds."""
        started_s = perf_counter()
        self._runs[name]()
        return perf_counter() - started_s


def _bound(session: Any, inputs: Mapping[str, Any]) -> Callable[[], None]:
    binding = session.io_binding()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()]
    for name, value in zip(inputs, values, strict=True):
        binding.bind_ortvalue_input(name, value)
    results = session.run(None, dict(inputs))
    for output, result in zip(session.get_outputs(), results, strict=True):
        values.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(result)))
        binding.bind_ortvalue_output(output.name, values[-1])

    def run(keep: object = values) -> None:
        session.run_with_iobinding(binding)

    return run


def serve(
    workers: Sequence[Bare], requests: Sequence[Request], runs: list[Timed] | None = None
) -> dict[int, float]:
    """Serve requests first in first out, one thread for each worker; returns when each one ended.

    Each run is noted in `runs`, if that is given.
    """
    queue: SimpleQueue[Request | None] = SimpleQueue()
    ended_s: dict[int, float] = {}

    def work(worker: Bare) -> None:
        while (request := queue.get()) is not None:
            took_s = worker.run(request.tenant)
            ended_s[request.id] = end_s = perf_counter() - origin_s
            if runs is not None:
                runs.append((request.tenant, end_s - took_s, took_s))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    with undisturbed():
        origin_s = perf_counter()
        for thread in threads:
            thread.start()
        for request in requests:
            wait_s = request.arrival_s - (perf_counter() - origin_s)
            if wait_s > 0.0:
                sleep(wait_s)
            queue.put(request)
        for _ in threads:
            queue.put(None)
        for thread in threads:
            thread.join()
    return ended_s


@contextmanager
def undisturbed() -> Iterator[None]:
    """The same care for the interpreter that Headway's driver takes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.5e-3)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def alone_s(bare: Bare, seconds: float) -> dict[str, float]:
    """Median seconds of each model alone, in turns for so long."""
    return medians(alone_runs(bare, seconds))


def alone_runs(bare: Bare, seconds: float) -> list[Timed]:
    """Runs of the models in turns, one after the other, for so long."""
    runs: list[Timed] = []
    ends_s = perf_counter() + seconds
    while perf_counter() < ends_s or not runs:
        for name in TENANTS:
            began_s = perf_counter()
            runs.append((name, began_s, bare.run(name)))
    return runs


def medians(runs: Sequence[Timed]) -> dict[str, float]:
    """Median seconds of each model."""
    return {name: median(took_s for of, _, took_s in runs if of == name) for name in TENANTS}
