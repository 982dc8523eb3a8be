"""The access log and traces: what is told of a request, what never is, and what bounds both."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headway.config.serving import Serving
from headway.core.errors import HeadwayError
from headway.core.protocols import LogRow
from headway.record.log import read_log
from headway.serve.access_log import MOST_CHARACTERS, AccessLog, line_of
from headway.serve.event_log import RetainedLog
from headway.serve.refusal import Cause, Refusal
from headway.serve.settings import Settings
from headway.serve.tracing import EXPORT_LIMIT_S, MOST_FOLLOWED, Tracer, exporting_to
from headway.serve.visits import Visit, Visits
from headway.testing import Rows
from headway.wiring.request_logs import tracer_of

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = SAMPLED[:-2] + "00"


def visit_of(number: int | None = None, **fields: Any) -> Visit:
    visit = Visit("http", "127.0.0.1:9", "POST /v2/models/m/infer", 1.8e9, 10.0, 100, True)
    visit.model, visit.number = "m", number
    for name, value in fields.items():
        setattr(visit, name, value)
    return visit


# --- the access log ----------------------------------------------------------------------------------


def test_a_line_tells_how_long_each_part_took() -> None:
    visit = visit_of(
        7,
        tenant="a",
        id="mine",
        deadline_s=0.05,
        decoded_s=10.001,
        result_s=10.008,
        ended_s=10.0095,
        queue_s=0.002,
        compute_s=0.005,
        code=200,
        answer_bytes=50,
    )
    assert json.loads(line_of(visit)) == {
        "time": "2027-01-15T08:00:00.000000+00:00",
        "protocol": "http",
        "peer": "127.0.0.1:9",
        "target": "POST /v2/models/m/infer",
        "status": 200,
        "total_ms": 9.5,
        "bytes_in": 100,
        "bytes_out": 50,
        "tenant": "a",
        "model": "m",
        "id": "mine",
        "request": 7,
        "deadline_ms": 50.0,
        "decode_ms": 1.0,
        "queue_ms": 2.0,
        "compute_ms": 5.0,
        "encode_ms": 1.5,
    }


def test_what_clients_write_cannot_forge_lines() -> None:
    line = line_of(visit_of(model='m"\n{"status":200}\x1b[2J', id="x" * 5000, target="GET /\r\nfoo"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(json.loads(line)["id"]) == MOST_CHARACTERS


def test_files_are_closed_at_a_size_and_the_oldest_go(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "logs" / "access.log", 4000, 3)
    for number in range(200):
        log.add(visit_of(number))
    log.close()
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["access.log", *(f"access.log.{at}" for at in (1, 2, 3))]
    assert all(file.stat().st_size <= 4000 for file in files)
    lines = [line for file in (*files[:0:-1], files[0]) for line in file.read_text().splitlines()]
    numbers = [json.loads(line)["request"] for line in lines]
    assert numbers == list(range(200 - len(numbers), 200))
    assert not log.lost


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_costs_lines_and_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    log = AccessLog(Path("/dev/full"), 1000, 1)
    for number in range(3):
        log.add(visit_of(number))
    log.close()
    assert log.lost == 3
    error = capsys.readouterr().err
    assert error.count("access log") == 1
    assert "Traceback" not in error


def test_an_event_log_of_many_rows_stays_within_its_bound(tmp_path: Path) -> None:
    log = RetainedLog(tmp_path / "log", {"policy": "edf"}, 1e9, 400e3, clock=lambda: 1.8e9)
    for number in range(40_000):
        log.add(LogRow(number * 1.1e-3, "arrive", number, "a", "m", deadline_s=number * 1.3e-3))
    log.close()
    parts = sorted((tmp_path / "log").iterdir())
    size = sum(file.stat().st_size for part in parts for file in part.iterdir())
    assert size <= 1.5 * 400e3
    assert len(parts) > 1
    last = read_log(parts[-1]).integers("request")[-1]
    assert last == 39_999


# --- traces ------------------------------------------------------------------------------------------


class Traced:
    """A tracer whose spans are kept; time stands at 100 s of the engine's clock."""

    def __init__(self, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.settings = Settings()
        self.settings.change_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": "1", **settings})
        self.rows = Rows()
        processor = SimpleSpanProcessor(self.exporter)
        self.tracer = Tracer("test", processor, self.settings, lambda: 100.0, self.rows)
        self.visits = Visits(tracing=self.tracer)

    def begin(self, number: int | None = None, *, model: str = "m", **headers: str) -> Visit:
        visit = self.visits.begin("http", "peer", "POST /", 0.0, 10, infer=True)
        visit.model = model
        self.visits.trace(visit, headers)
        if number is not None and visit.follow is not None:
            visit.number, visit.taken_s = number, perf_counter() - 10.0
            visit.follow(number)
        return visit

    def row(self, event: str, time_s: float, request: int = 1, **fields: Any) -> None:
        self.tracer.add(LogRow(time_s, event, request, "a", "m/1@f", **fields))

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def names(self) -> list[str]:
        return [span.name for span in self.spans()]

    def traced(self, count: int, **begin: Any) -> list[bool]:
        return [self.begin(**begin).span is not None for _ in range(count)]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_preempted_request_has_its_queue_blocks_and_serialisation(traced: Traced) -> None:
    visit = traced.begin(1)
    visit.decoded_s = visit.arrived_s + 0.001
    traced.row("start", 90.1, run=5)
    traced.row("progress", 90.2, run=5, start_s=90.1, first_block=0, end_block=1, cores="0")
    traced.row("progress", 90.3, run=5, start_s=90.2, first_block=1, end_block=3, cores="0")
    traced.row("stop", 90.3, run=5)
    traced.row("start", 90.6, run=6)
    traced.row("progress", 90.7, run=6, start_s=90.6, first_block=3, end_block=4, cores="0+1")
    traced.row("finish", 90.7, run=6)
    visit.result_s = visit.arrived_s + 0.8
    assert not traced.spans()
    traced.visits.answered(visit, 200, 40)
    assert not traced.spans(), "its last rows are still to come"
    traced.row("reply", 90.7)
    spans = {span.name: span for span in traced.spans()}
    names = ["decode", "queue", "block 0", "blocks 1 to 2", "queue", "block 3", "encode", "infer"]
    assert traced.names() == names
    root = spans["infer"]
    assert root.parent is None
    for span in traced.spans()[:-1]:
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert span.start_time <= span.end_time
    queues = [span for span in traced.spans() if span.name == "queue"]
    assert [round((span.end_time - span.start_time) / 1e6) for span in queues] == [100, 300]
    assert spans["block 3"].start_time == queues[1].end_time
    assert spans["block 3"].attributes["headway.lanes"] == "0+1"
    assert root.attributes["headway.model"] == "m"
    assert root.attributes["http.response.status_code"] == 200
    assert visit.trace == f"{root.context.trace_id:032x}"
    assert len(traced.rows) == 8, "rows are passed on"


def test_what_clients_write_is_short_in_spans(traced: Traced) -> None:
    visit = traced.begin()
    visit.id = "x" * 10_000
    traced.visits.answered(visit, 200, 0)
    (span,) = traced.spans()
    assert span.attributes["headway.request_id"] == "x" * MOST_CHARACTERS


def test_a_client_that_traces_has_its_span_as_parent(traced: Traced) -> None:
    visit = traced.begin(traceparent=SAMPLED)
    traced.visits.answered(visit, 200, 0)
    (span,) = traced.spans()
    assert f"{span.context.trace_id:032x}" == SAMPLED[3:35] == visit.trace
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == SAMPLED[36:52]


def test_which_requests_are_traced() -> None:
    assert Traced(trace_rate="3").traced(7) == [True, False, False, True, False, False, True]
    assert Traced(trace_rate="0").traced(3) == [False] * 3
    assert Traced(trace_rate="0").traced(2, traceparent=SAMPLED) == [True] * 2
    assert Traced().traced(2, traceparent=UNSAMPLED) == [False] * 2
    assert Traced(trace_rate="0").traced(1, traceparent="nonsense") == [False]
    assert Traced(trace_level=["OFF"]).traced(1, traceparent=SAMPLED) == [False]
    assert Traced(trace_count="2").traced(4) == [True, True, False, False]


def test_settings_hold_for_a_model_and_while_it_runs() -> None:
    traced = Traced(trace_count="1")
    traced.settings.change_trace({"trace_level": ["OFF"]}, "quiet")
    assert traced.traced(1, model="quiet") == [False]
    assert traced.traced(2) == [True, False]
    traced.settings.change_trace({"trace_count": "2"})
    assert traced.traced(3) == [True, True, False]


def test_a_refused_request_is_traced_and_no_error_of_the_server(traced: Traced) -> None:
    traced.visits.failed(traced.begin(), Refusal(Cause.LIMITED, "no"))
    traced.visits.failed(traced.begin(), Refusal(Cause.INTERNAL, "broken"))
    refused, broken = traced.spans()
    assert refused.attributes["headway.refused"] == "limited"
    assert refused.status.is_ok or refused.status.is_unset
    assert not broken.status.is_ok
    assert not broken.status.is_unset


def test_a_request_that_never_ran_has_waited(traced: Traced) -> None:
    visit = traced.begin(1)
    traced.row("reply", 90.5)
    traced.visits.failed(visit, Refusal(Cause.LATE, "late"))
    assert traced.names() == ["queue", "infer"]


def test_a_batch_is_in_the_trace_of_each_of_its_requests(traced: Traced) -> None:
    visits = [traced.begin(number) for number in (1, 2)]
    for number in (1, 2):
        traced.row("start", 90.0, number, run=5)
    traced.row("progress", 90.1, run=5, start_s=90.0, first_block=0, end_block=1, cores="0")
    for number, visit in zip((1, 2), visits, strict=True):
        traced.row("finish", 90.1, number, run=5)
        traced.row("reply", 90.1, number)
        traced.visits.answered(visit, 200, 0)
    assert traced.names() == ["queue", "block 0", "infer"] * 2


def test_what_is_followed_is_bounded_and_given_back(traced: Traced) -> None:
    visits = [traced.begin(number) for number in range(MOST_FOLLOWED + 50)]
    for number in range(100):
        traced.row("start", 1.0, number, run=number)
    assert len(traced.tracer._followed) == MOST_FOLLOWED
    for number, visit in enumerate(visits):
        traced.row("reply", 2.0, number)
        traced.visits.answered(visit, 200, 0)
    assert not traced.tracer._followed
    assert not traced.tracer._by_run
    assert traced.names().count("infer") == MOST_FOLLOWED + 50, "each has at least its own span"


def test_the_end_sends_what_is_left(traced: Traced) -> None:
    visit = traced.begin(1)
    traced.visits.answered(visit, 200, 0)
    traced.tracer.close()
    assert traced.names() == ["infer"]


def test_spans_reach_a_collector() -> None:
    """One that takes OTLP over gRPC; the tracer's end sends what is left."""
    received = []

    class Collector(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            received.append(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        settings = Settings()
        settings.change_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
        processor = exporting_to(f"http://127.0.0.1:{port}")
        tracer = Tracer("shop", processor, settings, lambda: 1.0, Rows())
        visits = Visits(tracing=tracer)
        visit = visits.begin("http", "", "POST /", 0.0, 0, infer=True)
        visits.trace(visit, {"traceparent": SAMPLED})
        visits.answered(visit, 200, 0)
        tracer.close()
    finally:
        server.stop(None)
    (told,) = (spans for request in received for spans in request.resource_spans)
    assert ("service.name", "shop") in [(a.key, a.value.string_value) for a in told.resource.attributes]
    (span,) = (span for scope in told.scope_spans for span in scope.spans)
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (
        "infer",
        SAMPLED[3:35],
        SAMPLED[36:52],
    )


def test_the_end_does_not_wait_for_a_collector_that_is_not_there() -> None:
    settings = Settings()
    settings.change_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    tracer = Tracer("shop", exporting_to("http://127.0.0.1:1"), settings, lambda: 1.0, Rows())
    visits = Visits(tracing=tracer)
    visit = visits.begin("http", "", "POST /", 0.0, 0, infer=True)
    visits.trace(visit, {})
    visits.answered(visit, 200, 0)
    ended = threading.Thread(target=tracer.close)
    ended.start()
    ended.join(4 * EXPORT_LIMIT_S + 10.0)
    assert not ended.is_alive()


def test_a_client_that_goes_is_told_as_cancelled() -> None:
    visits = Visits()
    for protocol, code in (("http", 499), ("grpc", "CANCELLED")):
        visit = visits.begin(protocol, "", "", 0.0, 0, infer=True)
        visits.failed(visit, asyncio.CancelledError())
        assert visit.code == code
    visits.failed(visits.begin("http", "", "", 0.0, 0, infer=True), RuntimeError("secret"))
    assert visits.answers["http", "infer", "500"] == 1


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving.from_mapping(
        {
            "hardware": "cpu-lanes",
            "models": [{"name": "kws_res8"}],
            "tracing": {"endpoint": "http://127.0.0.1:4317", "rate": 10},
        },
        tmp_path,
    )


def test_tracing_without_its_packages_is_said(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    monkeypatch.delitem(sys.modules, "headway.serve.tracing")
    with pytest.raises(HeadwayError, match=r"tracing: .*not installed.*pip install 'headway\[tracing\]'"):
        tracer_of(serving, Settings(), lambda: 0.0, Rows())


def test_the_configured_rate_is_a_trace_setting(serving: Serving) -> None:
    settings = Settings()
    tracer = tracer_of(serving, settings, lambda: 0.0, Rows())
    assert tracer is not None
    tracer.close()
    assert settings.trace()["trace_rate"] == "10"
    assert settings.trace()["trace_level"] == ["TIMESTAMPS"]


@pytest.mark.parametrize(
    "endpoint", ["localhost:4317", "http://user:secret@host:1", "http://host/v1/traces", "ftp://host"]
)
def test_an_endpoint_is_checked(endpoint: str) -> None:
    data = {"hardware": "cpu-lanes", "models": [{"name": "kws_res8"}], "tracing": {"endpoint": endpoint}}
    with pytest.raises(HeadwayError, match=r"tracing\.endpoint"):
        Serving.from_mapping(data)
