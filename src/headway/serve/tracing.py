"""Spans of requests by OpenTelemetry: a request, its decoding, queue, blocks and encoding.

Spans are made when all is over, from times that are noted anyway: blocks come from rows of the event log.
Importing this needs the packages of headway[tracing].
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, time_ns
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headway.core.protocols import LogRow, Sink
from headway.serve.access_log import MOST_CHARACTERS
from headway.serve.refusal import Cause
from headway.serve.settings import Settings
from headway.serve.visits import Visit

EXPORT_LIMIT_S: Final = 2.0
MOST_FOLLOWED: Final = 4096
MOST_BLOCKS: Final = 1000
"""Spans of blocks in one trace; what a request runs beyond that has none."""

_MOST_MODELS: Final = 1024
_PARENT: Final = "traceparent"
_OUR_FAULT: Final = (Cause.INTERNAL, Cause.UNAVAILABLE)
"""Of a refusal's causes, those that make a server's span an error: the others are the client's doing."""


def exporting_to(endpoint: str) -> SpanProcessor:
    """What sends spans to a collector that takes OTLP over gRPC, on a thread of its own."""
    plain = endpoint.startswith("http://")
    return BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=plain, timeout=EXPORT_LIMIT_S))


@dataclass(slots=True)
class _Followed:
    """A visit that is traced. Times are on the engine's clock.

    `ran` holds start, end, first block, end block, lanes and run of what ran.
    """

    visit: Visit
    ran: list[tuple[float, float, int, int, str, int]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    replied_s: float | None = None
    answered: bool = False


class Tracer:
    """Follows visits. Implements `headway.serve.visits.Tracing`, and is a Sink that passes rows on to `then`.

    Which requests are traced is said by the protocol's trace settings (`trace_level`, `trace_rate`,
    `trace_count`); a client's `traceparent` goes before the rate, whether it says yes or no.

    Args:
        name: of the service.
        processor: takes spans.
        settings: the trace settings.
        now: the engine's clock.
        then: where rows go.
    """

    def __init__(
        self,
        name: str,
        processor: SpanProcessor,
        settings: Settings,
        now: Callable[[], float],
        then: Sink,
    ) -> None:
        resource = Resource.create({"service.name": name})
        limits = SpanLimits(max_span_attribute_length=MOST_CHARACTERS)
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, span_limits=limits)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("headway")
        self._propagator = TraceContextTextMapPropagator()
        self._settings, self._now, self._then = settings, now, then
        self._seen: dict[str, int] = {}
        self._traced: dict[str, tuple[str, int]] = {}
        self._followed: OrderedDict[int, _Followed] = OrderedDict()
        self._by_run: dict[int, list[_Followed]] = {}
        self._lock = threading.Lock()

    # --- from front ends ---------------------------------------------------------------------------

    def begin(self, visit: Visit, headers: Mapping[str, str]) -> None:
        """Decide whether to follow a visit, whose model is known."""
        settings = self._settings.trace(visit.model)
        if settings["trace_level"] == ["OFF"]:
            return
        parent: Context | None = None
        if _PARENT in headers:
            parent = self._propagator.extract(headers)
            context = trace.get_current_span(parent).get_span_context()
            if not context.is_valid:
                parent = None
            elif not context.trace_flags.sampled:
                return
        if parent is None and not self._is_turn(visit.model, int(str(settings["trace_rate"]))):
            return
        if not self._is_left(visit.model, str(settings["trace_count"])):
            return
        span = self._tracer.start_span("infer", parent, SpanKind.SERVER, start_time=round(visit.at_s * 1e9))
        visit.span, visit.follow = span, lambda number: self._follow(number, visit)
        visit.trace = f"{span.get_span_context().trace_id:032x}"

    def end(self, visit: Visit) -> None:
        """A visit that is followed has its answer."""
        with self._lock:
            followed = None if visit.number is None else self._followed.get(visit.number)
            if followed is not None:
                followed.answered = True
                if followed.replied_s is None:
                    return  # its rows are still to come
                self._forget(followed)
        self._export(followed or _Followed(visit))

    def close(self) -> None:
        """Send what is left, for some seconds at most."""
        with self._lock:
            left = [each for each in self._followed.values() if each.answered]
            self._followed.clear()
            self._by_run.clear()
        for followed in left:
            self._export(followed)
        self._provider.shutdown()

    def _is_turn(self, model: str, rate: int) -> bool:
        """Whether this one is the first of `rate` requests."""
        if rate == 0:
            return False
        if len(self._seen) >= _MOST_MODELS:  # names are the clients'
            self._seen.clear()
        count = self._seen.get(model, 0)
        self._seen[model] = count + 1
        return count % rate == 0

    def _is_left(self, model: str, most: str) -> bool:
        """Whether there may be one more trace; setting trace_count to another number begins anew."""
        if most == "-1":
            return True
        if len(self._traced) >= _MOST_MODELS:
            self._traced.clear()
        before = self._traced.get(model, (most, 0))
        count = before[1] if before[0] == most else 0
        self._traced[model] = (most, count + 1)
        return count < int(most)

    def _follow(self, number: int, visit: Visit) -> None:
        with self._lock:
            self._followed[number] = _Followed(visit)
            if len(self._followed) > MOST_FOLLOWED:
                self._forget(next(iter(self._followed.values())))

    # --- from the log ------------------------------------------------------------------------------

    def add(self, row: LogRow) -> None:
        """Take a row of the log."""
        if self._followed:
            over = self._note(row)
            if over is not None:
                self._export(over)
        self._then.add(row)

    def _note(self, row: LogRow) -> _Followed | None:
        """Returns a visit of which all is known now."""
        with self._lock:
            if row.event == "progress":
                self._ran(row)
                return None
            followed = None if row.request is None else self._followed.get(row.request)
            if followed is None:
                return None
            if row.event == "start" and row.run is not None:
                followed.runs.append(row.run)
                self._by_run.setdefault(row.run, []).append(followed)
            elif row.event == "reply":
                followed.replied_s = row.time_s
                if followed.answered:
                    self._forget(followed)
                    return followed
        return None

    def _ran(self, row: LogRow) -> None:
        if row.run is None or row.start_s is None or row.first_block is None or row.end_block is None:
            return
        for followed in self._by_run.get(row.run, ()):
            if len(followed.ran) < MOST_BLOCKS:
                followed.ran.append(
                    (row.start_s, row.time_s, row.first_block, row.end_block, row.cores or "", row.run)
                )

    def _forget(self, followed: _Followed) -> None:
        number = followed.visit.number
        if number is not None:
            self._followed.pop(number, None)
        for run in followed.runs:
            there = self._by_run.get(run, [])
            if followed in there:
                there.remove(followed)
            if not there:
                self._by_run.pop(run, None)

    # --- spans -------------------------------------------------------------------------------------

    def _export(self, followed: _Followed) -> None:
        visit, span = followed.visit, followed.visit.span
        now_ns = time_ns()
        perf_s, engine_s = perf_counter(), self._now()

        def at(seconds: float) -> int:
            return now_ns - round((perf_s - seconds) * 1e9)

        def at_engine(seconds: float) -> int:
            return now_ns - round((engine_s - seconds) * 1e9)

        within = trace.set_span_in_context(span)
        if visit.decoded_s is not None:
            self._child(within, "decode", at(visit.arrived_s), at(visit.decoded_s))
        queued = None if visit.taken_s is None else at(visit.taken_s)
        run = None
        for start_s, end_s, first, end, lanes, of_run in followed.ran:
            if of_run != run and queued is not None:
                self._child(within, "queue", queued, at_engine(start_s))
            run, queued = of_run, at_engine(end_s)
            name = f"block {first}" if end == first + 1 else f"blocks {first} to {end - 1}"
            self._child(within, name, at_engine(start_s), at_engine(end_s), **{"headway.lanes": lanes})
        if not followed.ran and queued is not None and followed.replied_s is not None:
            self._child(within, "queue", queued, at_engine(followed.replied_s))
        if visit.result_s is not None:
            self._child(within, "encode", at(visit.result_s), at(visit.ended_s))
        span.set_attributes(_attributes(visit))
        if visit.cause in _OUR_FAULT:
            span.set_status(Status(StatusCode.ERROR))
        span.end(at(visit.ended_s))

    def _child(self, within: Context, name: str, start: int, end: int, **attributes: Any) -> None:
        child: Span = self._tracer.start_span(name, within, attributes=attributes, start_time=start)
        child.end(max(start, end))


def _attributes(visit: Visit) -> dict[str, str | int | float]:
    code = "http.response.status_code" if visit.protocol == "http" else "rpc.grpc.status"
    given: dict[str, str | int | float | None] = {
        "headway.model": visit.model,
        "headway.version": visit.version or None,
        "headway.tenant": visit.tenant or None,
        "headway.request": visit.number,
        "headway.request_id": visit.id or None,
        "headway.deadline_s": visit.deadline_s,
        "headway.refused": None if visit.cause is None else visit.cause.name.lower(),
        "network.protocol.name": visit.protocol,
        code: visit.code,
    }
    return {name: value for name, value in given.items() if value is not None}
