"""A server over HTTP and gRPC, looked at from outside: metrics, access log, traces, the dashboard's file."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tiny_models
from conftest import Running
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from headway.cli.serve_loop import front_ends_of
from headway.cli.top import read, screen
from headway.config.serving import Serving
from headway.serve import tracing
from headway.serve.keys import hash_of, new_key
from headway.serve.protocol import inference_pb2 as pb
from headway.wiring.serving import Server

ROOT = Path(__file__).parents[2]
KEY = new_key()
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = PARENT[3:35]
UNKNOWN_KEY = "hw_nobody-has-this-key"
IDS = [1, 2, 3, 4]
BODY = {"id": "mine", "inputs": [{"name": "ids", "shape": [4], "datatype": "INT64", "data": IDS}]}
LIMIT_S = 20.0


class Seen(NamedTuple):
    """A server after some requests, still there."""

    server: Server
    running: Running
    exporter: InMemorySpanExporter
    folder: Path

    def page(self) -> str:
        status, headers, body = self.running.http("GET", "/metrics", control=True)
        assert status == 200
        assert headers["content-type"].startswith("text/plain")
        return body.decode()

    def infer(self, key: str | None = KEY, model: str = "lookup", **headers: str) -> int:
        given = {"content-type": "application/json", **headers, **({"x-api-key": key} if key else {})}
        body = json.dumps(BODY).encode()
        return self.running.http("POST", f"/v2/models/{model}/infer", body, given)[0]


def eventually(look: Callable[[], Any]) -> Any:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("telemetry")
    (folder / "lookup.onnx").write_bytes(tiny_models.lookup().SerializeToString())
    exporter = InMemorySpanExporter()
    serving = Serving.from_mapping(
        {
            "hardware": {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}},
            "listen": {"http": 0, "grpc": 0, "control": 0, "control_host": "localhost"},
            "models": [{"name": "lookup", "model": "lookup.onnx"}],
            "tenants": [{"name": "a", "keys": [hash_of(KEY)], "sla": {"deadline": "10 s"}}],
            "access_log": {"file": "logs/access.log"},
            "tracing": {"endpoint": "http://127.0.0.1:1", "rate": 0},
        },
        folder,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWAY_CACHE", str(folder / "cache"))
        patch.setattr(tracing, "exporting_to", lambda endpoint: SimpleSpanProcessor(exporter))
        server = Server(serving, lambda words: None)
        try:
            server.load()
            with front_ends_of(serving, server, lambda: None) as front:
                running = Running(front, server.service)  # type: ignore[arg-type]
                made = Seen(server, running, exporter, folder)
                requests(made)
                yield made
        finally:
            server.close(5.0)


def requests(seen: Seen) -> None:
    assert seen.infer(traceparent=PARENT) == 200
    assert seen.infer() == 200
    assert seen.infer(None) == 401
    assert seen.infer(UNKNOWN_KEY) == 401
    assert seen.infer(model="nothing") == 404
    request = pb.ModelInferRequest(model_name="lookup", id="by grpc")
    request.inputs.add(name="ids", datatype="INT64", shape=[4])
    request.raw_input_contents.append(np.array(IDS, np.int64).tobytes())
    metadata = (("authorization", f"Bearer {KEY}"), ("traceparent", PARENT))
    seen.running.grpc("ModelInfer", request, metadata=metadata)


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def names_of(text: str) -> set[str]:
    return {name for name, _ in samples(text)}


def test_the_control_port_tells_what_was_answered(seen: Seen) -> None:
    found = samples(seen.page())

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    pair = {"tenant": "a", "model": "lookup", "version": "1"}
    assert value("headway_requests_total", **pair, ending="in_time") == 3
    assert value("headway_sla_requests_total", **pair, ending="in_time") == 3
    assert value("headway_request_seconds_count", **pair) == 3
    assert value("nv_inference_request_success", model="lookup", version="1") == 3
    assert value("headway_answers_total", protocol="http", kind="infer", code="200") == 2
    assert value("headway_answers_total", protocol="http", kind="infer", code="401") == 2
    assert value("headway_answers_total", protocol="http", kind="infer", code="404") == 1
    assert value("headway_answers_total", protocol="grpc", kind="infer", code="OK") == 1
    assert value("headway_ready") == 1
    assert value("headway_model_tier", model="lookup", version="1") >= 1
    assert 0 <= value("headway_profile_age_seconds", model="lookup", version="1") < 600
    assert value("headway_decision_seconds_count") == value("headway_decisions_total") > 0
    assert value("headway_access_log_lost_total") == 0


def test_the_data_port_has_no_metrics_unless_asked_for(seen: Seen) -> None:
    assert seen.running.http("GET", "/metrics")[0] == 404
    assert seen.running.http("POST", "/metrics", b"", control=True)[0] == 405


def test_the_data_port_has_metrics_if_asked_for(seen: Seen) -> None:
    before = seen.server.serving
    listen = before.listen.model_copy(update={"http_metrics": True, "grpc": None, "control": None})
    serving = before.model_copy(update={"listen": listen})
    with front_ends_of(serving, seen.server, lambda: None) as front:
        status, _, body = Running(front, seen.server.service).http("GET", "/metrics")  # type: ignore[arg-type]
    assert status == 200
    assert "headway_requests_total" in names_of(body.decode())


def test_nothing_that_monitoring_sees_holds_a_key(seen: Seen) -> None:
    log = "\n".join(line for line in lines(seen))
    spans = " ".join(span.to_json() for span in seen.exporter.get_finished_spans())
    for text in (log, spans, seen.page()):
        assert KEY not in text
        assert hash_of(KEY).partition(":")[2] not in text
        assert UNKNOWN_KEY not in text


def lines(seen: Seen) -> list[str]:
    """Of the access log, once the last request above is in it."""
    file = seen.folder / "logs" / "access.log"
    eventually(lambda: "by grpc" in file.read_text())
    return file.read_text().splitlines()


def test_the_access_log_has_a_line_for_each_request(seen: Seen) -> None:
    found = [line for line in map(json.loads, lines(seen)) if "metrics" not in line["target"]][:6]
    assert [line["status"] for line in found] == [200, 200, 401, 401, 404, "OK"]
    first, second, unknown, *_, last = found
    assert first["target"] == "POST /v2/models/lookup/infer"
    assert (first["tenant"], first["model"], first["id"]) == ("a", "lookup", "mine")
    assert first["trace"] == TRACE
    assert "trace" not in second
    assert first["bytes_in"] == len(json.dumps(BODY))
    assert first["bytes_out"] > 0
    assert first["deadline_ms"] == pytest.approx(10_000)
    parts = sum(first[f"{part}_ms"] for part in ("queue", "compute", "encode"))
    assert 0 < parts <= first["total_ms"] + 0.1
    assert 0 < first["decode_ms"] <= first["queue_ms"] + 0.1
    assert unknown["refused"] == "unauthenticated"
    assert "tenant" not in unknown
    assert (last["protocol"], last["target"], last["id"]) == ("grpc", "ModelInfer", "by grpc")


def whole_traces(seen: Seen, count: int) -> list[ReadableSpan]:
    """All spans, once so many requests have theirs."""
    spans = list(seen.exporter.get_finished_spans())
    return spans if sum(span.name == "infer" for span in spans) == count else []


def test_requests_of_clients_that_trace_have_spans(seen: Seen) -> None:
    spans = eventually(lambda: whole_traces(seen, 2))
    assert {f"{span.context.trace_id:032x}" for span in spans} == {TRACE}
    roots = [span for span in spans if span.name == "infer"]
    for root in roots:
        children = [span for span in spans if span.parent and span.parent.span_id == root.context.span_id]
        assert [span.name for span in children] == ["decode", "queue", "block 0", "encode"]
        for span in children:
            assert root.start_time - 2e6 <= span.start_time <= span.end_time <= root.end_time + 2e6
    assert {root.attributes["network.protocol.name"] for root in roots} == {"http", "grpc"}


# --- names that others rely on -----------------------------------------------------------------------


def expressions(value: Any) -> Iterator[str]:
    """Every PromQL expression in a dashboard's JSON."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "definition") and isinstance(inner, str):
                yield inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:headway|nv|process)_[a-z0-9_]+", re.sub(r'"[^"]*"', "", expression)))


def test_every_expression_of_the_grafana_dashboard_has_its_metrics(seen: Seen) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    found = [metrics_in(expression) for expression in expressions(dashboard)]
    there = names_of(seen.page())
    assert len(found) >= 15
    for names in found:
        assert names
        assert names <= there
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_every_metric_is_defined_in_the_docs(seen: Seen) -> None:
    text = (ROOT / "docs" / "telemetry.md").read_text()
    defined = set(re.findall(r"`((?:headway|nv)_[a-z0-9_]+)`", text))
    there = set()
    for name in names_of(seen.page()):
        if name.startswith(("headway_", "nv_")) and not name.endswith("_created"):
            there.add(re.sub(r"_(bucket|count|sum)$", "", name) if is_histogram(seen, name) else name)
    assert defined == there


def is_histogram(seen: Seen, name: str) -> bool:
    base = re.sub(r"_(bucket|count|sum)$", "", name)
    return f"# TYPE {base} histogram" in seen.page()


def test_every_field_of_the_access_log_is_defined_in_the_docs(seen: Seen) -> None:
    text = (ROOT / "docs" / "telemetry.md").read_text()
    table = text.partition("## Access log")[2].partition("\n## ")[0]
    defined = set(re.findall(r"^\| `([a-z_]+)`", table, re.M)) | set(re.findall(r", `([a-z_]+)`", table))
    for line in lines(seen):
        assert set(json.loads(line)) <= defined


def test_top_reads_what_the_server_tells(seen: Seen) -> None:
    from rich.console import Console

    snapshot = read(f"localhost:{seen.running.front.control_port}")
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen(snapshot))
    text = console.export_text()
    assert re.search(r"\ba +99 % within 10 s +100\.0 %", text)
    assert re.search(r"lookup/1 +ready +C\d", text)
