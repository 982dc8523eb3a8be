"""`/metrics`: a server's figures in Prometheus' text format; docs/telemetry.md defines each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from math import inf
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.serve.figures import PROMISED, Ending
from headway.serve.histograms import Histogram, Series
from headway.serve.metrics_triton import Machine, triton_metrics
from headway.serve.service import ModelState
from headway.serve.telemetry import Telemetry
from headway.serve.visits import Visits

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PATH: Final = "/metrics"
EVERY_S: Final = 0.25
"""The page is made at most so often, however many ask for it."""

_PAIR: Final = ("tenant", "model", "version")
_MODEL: Final = ("model", "version")


class MetricsPage:
    """Collects a server's metrics; a collector of prometheus_client.

    Args:
        telemetry: what is asked.
        visits: what front ends answered.
    """

    def __init__(self, telemetry: Telemetry, visits: Visits) -> None:
        self._telemetry, self._visits = telemetry, visits
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._machine = Machine()
        self._making = asyncio.Lock()
        self._made_s = float("-inf")
        self._text = b""

    async def latest(self) -> bytes:
        """The page, at most EVERY_S old; made on a thread, so that requests do not wait for it."""
        async with self._making:
            if time.monotonic() - self._made_s >= EVERY_S:
                self._text = await asyncio.to_thread(self.text)
                self._made_s = time.monotonic()
            return self._text

    def text(self) -> bytes:
        """The page as it is now."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All metrics but those of the process."""
        telemetry = self._telemetry
        pairs, forgotten = telemetry.figures.pairs()
        yield from _of_requests(pairs)
        yield from self._of_queues(pairs)
        yield from self._of_scheduler()
        yield from self._of_models()
        yield _counter("headway_series_forgotten", "Pairs of tenant and model that are not kept.", forgotten)
        yield from self._of_visits()
        yield from triton_metrics(telemetry, pairs, self._machine)

    def _of_queues(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Metric]:
        waiting, running = self._telemetry.under_way()
        every = sorted({*pairs, *waiting, *running})
        for name, help, counts in (
            ("headway_waiting_requests", "Requests that wait for a lane.", waiting),
            ("headway_running_requests", "Requests of which blocks run.", running),
        ):
            gauge = GaugeMetricFamily(name, help, labels=_PAIR)
            for tenant, model in every:
                gauge.add_metric((tenant, *model.rsplit("/", 1)), counts[tenant, model])
            yield gauge
        unanswered = GaugeMetricFamily(
            "headway_unanswered_requests", "Requests of a tenant without an answer.", labels=("tenant",)
        )
        unanswered_bytes = GaugeMetricFamily(
            "headway_unanswered_bytes",
            "Bytes of the bodies of a tenant's requests without an answer.",
            labels=("tenant",),
        )
        for door in self._telemetry.service.tenants.doors:
            unanswered.add_metric((door.settings.name,), door.requests)
            unanswered_bytes.add_metric((door.settings.name,), door.bytes)
        yield unanswered
        yield unanswered_bytes

    def _of_visits(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "headway_answers", "Answers by status.", labels=("protocol", "kind", "code")
        )
        for labels, count in self._visits.answers.copy().items():
            answers.add_metric(labels, count)
        yield answers
        if self._visits.log is not None:
            yield _counter("headway_access_log_lost", "Lines that are in no file.", self._visits.log.lost)

    def _of_scheduler(self) -> Iterator[Metric]:
        telemetry, engine = self._telemetry, self._telemetry.engine
        lanes = [core.name for core in engine.device.cores]
        busy = CounterMetricFamily("headway_lane_busy_seconds", "Time that blocks ran.", labels=("lane",))
        used = GaugeMetricFamily(
            "headway_lane_utilisation", "The last minute's share with blocks.", labels=("lane",)
        )
        figures = telemetry.figures
        for name, seconds, share in zip(lanes, figures.busy_s(), figures.utilisation(), strict=True):
            busy.add_metric((name,), seconds)
            used.add_metric((name,), share)
        yield busy
        yield used
        yield _counter("headway_decisions", "Times that the policy was asked.", engine.decisions)
        decision_s = HistogramMetricFamily("headway_decision_seconds", "What a decision took.")
        _add(decision_s, (), telemetry.decision_s())
        yield decision_s
        faults = engine.faults
        yield _counter("headway_policy_faults", "Errors and bad decisions of the policy.", faults.count)
        yield _counter(
            "headway_policy_fallbacks", "Decisions that earliest deadline took instead.", faults.fallbacks
        )
        yield GaugeMetricFamily(
            "headway_ready", "Whether requests are taken.", value=float(telemetry.service.ready())
        )
        info = GaugeMetricFamily("headway_info", "Always 1.", labels=("name", "policy", "release"))
        info.add_metric((telemetry.name, telemetry.policy, version("headway")), 1.0)
        yield info

    def _of_models(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("headway_model_ready", "Whether it takes requests.", labels=_MODEL)
        tier = GaugeMetricFamily("headway_model_tier", "How much is known of it, 0 to 3.", labels=_MODEL)
        alone = GaugeMetricFamily("headway_model_isolated_seconds", "Its time alone.", labels=_MODEL)
        age = GaugeMetricFamily("headway_profile_age_seconds", "Since it was profiled.", labels=_MODEL)
        ratio = GaugeMetricFamily(
            "headway_profile_ratio", "Its runs alone lately through the profile's time.", labels=_MODEL
        )
        unsteady = GaugeMetricFamily(
            "headway_profile_unsteady", "Whether the machine was busy when it was profiled.", labels=_MODEL
        )
        for known in self._telemetry.models():
            labels = (known.entry.name, known.entry.version)
            ready.add_metric(labels, float(known.entry.state is ModelState.READY))
            for gauge, value in (
                (tier, known.tier),
                (alone, known.isolated_s),
                (age, known.profile_age_s),
                (ratio, known.alone),
                (unsteady, known.unsteady),
            ):
                if value is not None:
                    gauge.add_metric(labels, float(value))
        yield from (ready, tier, alone, age, ratio, unsteady)


def metrics_route(page: MetricsPage) -> Route:
    """GET /metrics."""

    async def endpoint(request: Request) -> Response:
        return Response(await page.latest(), headers={"content-type": CONTENT_TYPE_LATEST})

    return Route(PATH, endpoint)


def _of_requests(pairs: Mapping[tuple[str, str], Series]) -> Iterator[Metric]:
    labels = (*_PAIR, "ending")
    requests = CounterMetricFamily("headway_requests", "Requests by how they ended.", labels=labels)
    promised = CounterMetricFamily(
        "headway_sla_requests", "The same of those that had a deadline.", labels=labels
    )
    total_s = HistogramMetricFamily(
        "headway_request_seconds", "From arrival to result, of requests with a result.", labels=_PAIR
    )
    queue_s = HistogramMetricFamily("headway_queue_seconds", "The part of it without a lane.", labels=_PAIR)
    compute_s = HistogramMetricFamily("headway_compute_seconds", "The part of it with a lane.", labels=_PAIR)
    ratio = HistogramMetricFamily(
        "headway_run_ratio", "What runs took through what was predicted.", labels=_PAIR
    )
    for (tenant, model), series in pairs.items():
        pair = (tenant, *model.rsplit("/", 1))
        for ending in Ending:
            requests.add_metric((*pair, ending.value), series.endings[ending])
        for ending in PROMISED:
            promised.add_metric((*pair, ending.value), series.promised[ending])
        _add(total_s, pair, series.total_s)
        _add(queue_s, pair, series.queue_s)
        _add(compute_s, pair, series.compute_s)
        _add(ratio, pair, series.ratio)
    yield from (requests, promised, total_s, queue_s, compute_s, ratio)


def _add(family: HistogramMetricFamily, labels: Iterable[str], histogram: Histogram) -> None:
    buckets = [("+Inf" if bound == inf else f"{bound:g}", count) for bound, count in histogram.cumulative()]
    family.add_metric(tuple(labels), buckets, histogram.total)


def _counter(name: str, help: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, help, value=value)
