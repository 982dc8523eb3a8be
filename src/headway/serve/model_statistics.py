"""Counts and times of each version of a model, as the statistics extension tells them."""

from __future__ import annotations

import threading
from time import time

from headway.serve.service import Count, ModelStatistics


class Tally:
    """What became of the inferences of one version; it stays while the version is loaded again.

    Requests that ran together are one execution. Times are seconds. For use from any thread.
    """

    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version
        self._lock = threading.Lock()
        self._last_ms = 0
        self._succeeded = self._failed = 0
        self._success_s = self._fail_s = 0.0
        self._queue_s = self._input_s = self._compute_s = 0.0
        self._batches: dict[int, tuple[int, float]] = {}  # by size: requests, and their compute times

    def succeed(
        self, *, queue_s: float, input_s: float, compute_s: float, total_s: float, batch: int = 1
    ) -> None:
        """A request has its result, having run with others in a batch of that size."""
        with self._lock:
            self._last_ms = round(time() * 1e3)
            self._succeeded += 1
            self._success_s += total_s
            self._queue_s += queue_s
            self._input_s += input_s
            self._compute_s += compute_s
            count, seconds = self._batches.get(batch, (0, 0.0))
            self._batches[batch] = (count + 1, seconds + compute_s)

    def fail(self, total_s: float) -> None:
        """A request ended without a result."""
        with self._lock:
            self._failed += 1
            self._fail_s += total_s

    def statistics(self) -> ModelStatistics:
        """As they are now. Outputs are handed over as they lie, which takes no time of its own."""
        with self._lock:
            done = self._succeeded
            batches = {
                size: _count(-(-count // size), seconds / size)
                for size, (count, seconds) in self._batches.items()
            }
            return ModelStatistics(
                name=self._name,
                version=self._version,
                last_inference_ms=self._last_ms,
                inference_count=done,
                execution_count=sum(each.count for each in batches.values()),
                success=_count(done, self._success_s),
                fail=_count(self._failed, self._fail_s),
                queue=_count(done, self._queue_s),
                compute_input=_count(done, self._input_s),
                compute_infer=_count(done, self._compute_s),
                compute_output=_count(done, 0.0),
                batches=batches,
            )


def _count(count: int, seconds: float) -> Count:
    return Count(count, round(seconds * 1e9))
