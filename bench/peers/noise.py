"""What else the machine did, and how fast it was: other work spoils latencies, and hosts' speeds drift."""

from __future__ import annotations

import time
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import psutil

_WINDOW_S = 0.5


class CpuShares(NamedTuple):
    """Parts of all processors' time: of others' processes, and of ours."""

    foreign: float
    ours: float


class CpuWatch:
    """Counts from when it is made until `shares`, for processes of these ids and all that they started."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = list(roots)
        self._begin = self._ours_s(), *_machine_s()

    def shares(self) -> CpuShares:
        """What ran since. A process of ours that ended meanwhile counts as foreign."""
        before, busy_s, all_s = self._begin
        now, busy_now_s, all_now_s = self._ours_s(), *_machine_s()
        ours_s = sum(used_s - before.get(process, 0.0) for process, used_s in now.items())
        span_s = max(all_now_s - all_s, 1e-9)
        return CpuShares(max(0.0, busy_now_s - busy_s - ours_s) / span_s, ours_s / span_s)

    def _ours_s(self) -> dict[int, float]:
        used_s = {}
        for process in family(self._roots):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            used_s[process.pid] = times.user + times.system
        return used_s


def family(roots: Iterable[int]) -> list[psutil.Process]:
    """Processes and all that they started, as far as they still are there."""
    found = {}
    for root in roots:
        try:
            process = psutil.Process(root)
            for one in (process, *process.children(recursive=True)):
                found[one.pid] = one
        except psutil.Error:
            continue
    return list(found.values())


def _machine_s() -> tuple[float, float]:
    """Seconds that all processors were busy since the start, and all seconds."""
    times = psutil.cpu_times()
    idle_s = times.idle + times.iowait
    all_s = times.user + times.nice + times.system + times.irq + times.softirq + times.steal + idle_s
    return all_s - idle_s, all_s


def wait_until_quiet(roots: Iterable[int], most: float, patience_s: float) -> bool:
    """Wait until others take at most that share of the processors; False if they went on for so long."""
    roots = list(roots)
    until_s = time.monotonic() + patience_s
    while True:
        watch = CpuWatch(roots)
        time.sleep(_WINDOW_S)
        if watch.shares().foreign <= most:
            return True
        if time.monotonic() > until_s:
            return False


class Probe:
    """The machine's speed right now: one model on one thread."""

    def __init__(self, content: bytes, inputs: object) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._inputs = inputs
        self.take_s()

    def take_s(self, runs: int = 5) -> float:
        """Median seconds of a few runs."""
        times_s = []
        for _ in range(runs):
            begin_s = time.perf_counter()
            self._session.run(None, self._inputs)
            times_s.append(time.perf_counter() - begin_s)
        return median(times_s)
