"""The same under Triton's names, so that dashboards made for it work.

Names and meanings are those of Triton's metrics page. Times are sums in microseconds. There are none of a
GPU: lanes are processors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily, UnknownMetricFamily

from headway.serve.figures import Ending
from headway.serve.histograms import Series
from headway.serve.service import ModelStatistics
from headway.serve.telemetry import Telemetry

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_MODEL: Final = ("model", "version")

_REASONS: Final[Mapping[str, tuple[Ending, ...]]] = {
    "REJECTED": (Ending.REJECTED, Ending.SHED, Ending.EXPIRED),
    "CANCELED": (Ending.CANCELLED,),
    "BACKEND": (Ending.FAILED,),
    "OTHER": (Ending.INVALID,),
}

_SUMS: Final[tuple[tuple[str, str, Callable[[ModelStatistics], float]], ...]] = (
    ("nv_inference_request_success", "Requests with a result.", lambda each: each.success.count),
    ("nv_inference_count", "Inferences.", lambda each: each.inference_count),
    ("nv_inference_exec_count", "Executions.", lambda each: each.execution_count),
    ("nv_inference_request_duration_us", "Arrival to result.", lambda each: each.success.ns / 1e3),
    ("nv_inference_queue_duration_us", "Time without a lane.", lambda each: each.queue.ns / 1e3),
    (
        "nv_inference_compute_input_duration_us",
        "Checking requests.",
        lambda each: each.compute_input.ns / 1e3,
    ),
    ("nv_inference_compute_infer_duration_us", "Time with a lane.", lambda each: each.compute_infer.ns / 1e3),
    ("nv_inference_compute_output_duration_us", "Making outputs.", lambda each: each.compute_output.ns / 1e3),
)


def triton_metrics(
    telemetry: Telemetry, pairs: Mapping[tuple[str, str], Series], machine: Machine
) -> Iterator[Metric]:
    """Triton's metrics of models that are ready, and of the machine."""
    statistics = telemetry.service.statistics()
    for name, help, value in _SUMS:
        # Triton calls them counters; the library would put _total behind a counter's name.
        family = UnknownMetricFamily(name, help, labels=_MODEL)
        for each in statistics:
            family.add_metric((each.name, each.version), value(each))
        yield family
    failed: Counter[tuple[str, Ending]] = Counter()
    for (_, model), series in pairs.items():
        for ending, count in series.endings.items():
            failed[model, ending] += count
    failure = UnknownMetricFamily(
        "nv_inference_request_failure", "Requests without a result.", labels=(*_MODEL, "reason")
    )
    pending = GaugeMetricFamily("nv_inference_pending_request_count", "Requests that wait.", labels=_MODEL)
    waits = Counter(model for _, model in telemetry.under_way()[0].elements())
    for each in statistics:
        model = f"{each.name}/{each.version}"
        for reason, endings in _REASONS.items():
            count = sum(failed[model, ending] for ending in endings)
            failure.add_metric((each.name, each.version, reason), count)
        pending.add_metric((each.name, each.version), waits[model])
    yield failure
    yield pending
    yield from machine.metrics()


class Machine:
    """Processors and memory of the machine, as Linux tells; nothing elsewhere."""

    def __init__(self) -> None:
        self._before = _processor_time()

    def metrics(self) -> Iterator[Metric]:
        """The share of processors in use since the last call, in [0, 1], and memory in bytes."""
        before, now = self._before, _processor_time()
        self._before = now
        if before is not None and now is not None:
            whole = now[1] - before[1]
            share = (now[0] - before[0]) / whole if whole > 0 else 0.0
            yield GaugeMetricFamily("nv_cpu_utilization", "Processors in use, 0 to 1.", value=share)
        memory = _memory_bytes()
        if memory is not None:
            total, available = memory
            yield GaugeMetricFamily("nv_cpu_memory_total_bytes", "Memory.", value=total)
            yield GaugeMetricFamily("nv_cpu_memory_used_bytes", "Memory in use.", value=total - available)


def _processor_time() -> tuple[int, int] | None:
    """Ticks in use and ticks in all, from proc(5): the first line of /proc/stat."""
    with suppress(OSError, ValueError, IndexError):
        with Path("/proc/stat").open() as file:
            ticks = [int(each) for each in file.readline().split()[1:9]]
        idle = ticks[3] + ticks[4]
        return sum(ticks) - idle, sum(ticks)
    return None


def _memory_bytes() -> tuple[int, int] | None:
    """Memory in all, and what is available, in bytes, from /proc/meminfo."""
    with suppress(OSError, ValueError, KeyError):
        found: dict[str, int] = {}
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if value.endswith("kB"):
                found[name] = 1024 * int(value.split()[0])
        return found["MemTotal"], found["MemAvailable"]
    return None
