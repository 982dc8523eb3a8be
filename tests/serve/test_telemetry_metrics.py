"""Figures at /metrics: what is counted, how it is written, and what it costs to keep."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from served_world import ServedWorld

from headway.core.decision_time import DecisionTimes
from headway.serve.answers import Answered
from headway.serve.figures import PROMISED, Figures
from headway.serve.histograms import DECISION_SECONDS, MOST_SERIES, RATIOS, SECONDS, Histogram
from headway.serve.metrics_page import EVERY_S, MetricsPage
from headway.serve.metrics_triton import Machine
from headway.serve.refusal import Cause, Refusal
from headway.serve.telemetry import MOST_UNCOUNTED, Belief, Telemetry
from headway.serve.visits import Visits

Samples = Mapping[str, list[tuple[dict[str, str], float]]]


def samples_of(text: bytes) -> Samples:
    """(labels, value) by name."""
    samples = defaultdict(list)
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            samples[sample.name].append((sample.labels, sample.value))
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """Of the only sample with these labels."""
    (found,) = [v for had, v in samples[name] if labels.items() <= had.items()]
    return found


def total(samples: Samples, name: str, **labels: str) -> float:
    return sum(v for had, v in samples[name] if labels.items() <= had.items())


class Watched:
    """A world with all that its metrics need; `page` is the text at the end, `at` at another time."""

    def __init__(self, *tenants: Mapping[str, Any], **more: Any) -> None:
        self.world = world = ServedWorld(tenants, **more)
        self.figures = Figures(more.get("lanes", 1), world.clock.now, world.rows)
        world.service.watch(self.figures.answered)
        world.live.engine.journal.sink = self.figures
        self.times = DecisionTimes(lambda: 0.0)
        self.telemetry = Telemetry(
            "world",
            "edf",
            world.service,
            self.figures,
            world.live.engine,
            self.times,
            Belief(lambda key: 2, lambda key: 1.25),
        )
        self.visits = Visits()
        self.metrics = MetricsPage(self.telemetry, self.visits)

    def page(self) -> Samples:
        return samples_of(self.metrics.text())

    def at(self, at_s: float) -> list[Samples]:
        """Holds the page of that time once the world has been played."""
        pages: list[Samples] = []
        self.world.at(at_s, lambda: pages.append(self.page()))
        return pages


def test_every_ending_is_counted_by_tenant_and_model() -> None:
    watched = Watched(
        {"name": "a", "sla": {"deadline": "20 ms"}, "rate": "1 /s", "burst": 5},
        {"name": "b", "class": "best-effort", "sla": {"deadline": "1 ms"}},
        {"name": "c", "expires": "1 ms"},
        fails=[(5, 0)],
    )
    world = watched.world
    world.infer(0.0, "in time", "long", key="a")
    world.infer(0.001, "shed", "long", key="a", timeout_s=0.005)
    world.infer(0.002, "late", "long", key="b")
    world.infer(0.003, "cancelled", "long", key="b")
    world.infer(0.003, "expired", "long", key="c")
    world.at(0.004, lambda: world.tickets["cancelled"].cancel())
    world.infer(0.1, "failed", key="a")
    world.infer(0.2, "invalid", "long", key="a", inputs={})
    world.infer(0.2, "invalid too", "long", key="a", outputs=("z",))
    for number in range(2):
        world.infer(0.3, f"in time {number}", key="a")
    world.infer(0.3, "rejected", key="a")
    world.play(0.5)
    page = watched.page()
    counts = {
        (labels["tenant"], labels["model"], labels["ending"]): count
        for labels, count in page["headway_requests_total"]
        if count
    }
    assert counts == {
        ("a", "long", "in_time"): 1,
        ("a", "long", "shed"): 1,
        ("a", "long", "invalid"): 2,
        ("a", "short", "failed"): 1,
        ("a", "short", "in_time"): 2,
        ("a", "short", "rejected"): 1,
        ("b", "long", "late"): 1,
        ("b", "long", "cancelled"): 1,
        ("c", "long", "expired"): 1,
    }
    promised = {labels["ending"] for labels, _ in page["headway_sla_requests_total"]}
    assert promised == {each.value for each in PROMISED}
    assert total(page, "headway_sla_requests_total", tenant="b", ending="late") == 1
    assert total(page, "headway_sla_requests_total", tenant="c") == 0, "nobody promised it anything"


def test_times_are_those_of_the_answers() -> None:
    watched = Watched({"name": "a"})
    watched.world.infer(0.0, "first", "long")
    watched.world.infer(0.0, "second", "long")
    watched.world.play(0.1)
    page = watched.page()
    labels = {"tenant": "a", "model": "long", "version": "1"}
    assert value(page, "headway_compute_seconds_sum", **labels) == pytest.approx(0.016)
    assert value(page, "headway_queue_seconds_sum", **labels) == pytest.approx(0.008)
    assert value(page, "headway_request_seconds_sum", **labels) == pytest.approx(0.024)
    assert value(page, "headway_request_seconds_count", **labels) == 2
    assert value(page, "headway_request_seconds_bucket", **labels, le="0.005") == 0
    assert value(page, "headway_request_seconds_bucket", **labels, le="0.01") == 1
    assert value(page, "headway_request_seconds_bucket", **labels, le="0.02") == 2
    assert value(page, "headway_lane_busy_seconds_total", lane="lane-0") == pytest.approx(0.016)
    assert total(page, "headway_run_ratio_count") == 2
    assert total(page, "headway_run_ratio_sum") == pytest.approx(2.0)


def test_queues_are_told_while_requests_are_in_them() -> None:
    watched = Watched({"name": "a"}, {"name": "b"})
    for number in range(3):
        watched.world.infer(0.0, f"{number}", "long", key="a", body_bytes=1000)
    amid = watched.at(0.001)
    watched.world.play(0.1)
    page = amid[0]
    assert total(page, "headway_waiting_requests", tenant="a", model="long") == 2
    assert total(page, "headway_running_requests", tenant="a", model="long") == 1
    assert value(page, "headway_unanswered_requests", tenant="a") == 3
    assert value(page, "headway_unanswered_bytes", tenant="a") == 3000
    assert value(page, "headway_unanswered_requests", tenant="b") == 0
    assert value(page, "nv_inference_pending_request_count", model="long", version="1") == 2
    after = watched.page()
    for name in ("waiting", "running", "unanswered"):
        assert total(after, f"headway_{name}_requests") == 0


def test_triton_names_tell_what_the_protocol_tells() -> None:
    watched = Watched({"name": "a", "rate": "1 /s", "burst": 3})
    for number in range(4):
        watched.world.infer(0.0, f"{number}", "long")
    watched.world.infer(0.1, "invalid", "long", inputs={})
    watched.world.play(0.2)
    page = watched.page()
    for each in watched.world.service.statistics():
        labels = {"model": each.name, "version": each.version}
        for name, expected in (
            ("nv_inference_request_success", each.success.count),
            ("nv_inference_count", each.inference_count),
            ("nv_inference_exec_count", each.execution_count),
            ("nv_inference_request_duration_us", each.success.ns / 1e3),
            ("nv_inference_queue_duration_us", each.queue.ns / 1e3),
            ("nv_inference_compute_input_duration_us", each.compute_input.ns / 1e3),
            ("nv_inference_compute_infer_duration_us", each.compute_infer.ns / 1e3),
            ("nv_inference_compute_output_duration_us", each.compute_output.ns / 1e3),
        ):
            ((had, found),) = [(had, v) for had, v in page[name] if had["model"] == each.name]
            assert had == labels
            assert found == pytest.approx(expected)
    failures = {
        labels["reason"]: count
        for labels, count in page["nv_inference_request_failure"]
        if labels["model"] == "long"
    }
    assert failures == {"REJECTED": 1, "CANCELED": 0, "BACKEND": 0, "OTHER": 1}
    assert value(page, "nv_inference_request_success", model="long") == 3


def test_models_and_what_is_believed_of_them_are_told() -> None:
    watched = Watched({"name": "a"})
    amid = watched.at(0.001)
    watched.world.play(0.01)
    page = amid[0]
    assert value(page, "headway_model_ready", model="long", version="1") == 1
    assert value(page, "headway_model_tier", model="long") == 2
    assert value(page, "headway_profile_ratio", model="long") == 1.25
    assert value(page, "headway_model_isolated_seconds", model="long") == pytest.approx(0.008)
    assert value(page, "headway_info", policy="edf") == 1


def test_a_policy_that_fails_is_counted() -> None:
    from headway.policies import Policy, policy

    @policy("test-telemetry-fails")
    class Fails(Policy):
        def decide(self, view: Any) -> Any:
            raise ValueError("no decision")

    watched = Watched({"name": "a"}, policy="test-telemetry-fails")
    watched.world.infer(0.0, "first")
    watched.world.play(0.1)
    page = watched.page()
    assert watched.world.told("first")[1] == "done"
    assert value(page, "headway_policy_faults_total") >= 1
    assert value(page, "headway_policy_fallbacks_total") == value(page, "headway_policy_faults_total")
    assert value(page, "headway_decisions_total") == watched.world.live.engine.decisions


def test_decisions_are_counted_once_and_are_not_kept() -> None:
    watched = Watched({"name": "a"})
    for number in range(MOST_UNCOUNTED + 1):
        watched.times.seconds.append(1e-5 * (number % 3))
    watched.world.infer(0.0, "first")
    watched.world.play(0.1)
    assert len(watched.times.seconds) <= MOST_UNCOUNTED, "an answer has them counted, though nobody looks"
    watched.times.seconds.append(3.0)
    for _ in range(2):
        counted = watched.telemetry.decision_s()
        assert counted.count == MOST_UNCOUNTED + 2
        assert counted.counts[-1] == 1


@given(st.lists(st.floats(0.0, 1e4)), st.sampled_from([SECONDS, RATIOS, DECISION_SECONDS]))
def test_a_histogram_counts_what_does_not_exceed_each_bound(
    values: list[float], bounds: tuple[float, ...]
) -> None:
    histogram = Histogram(bounds)
    for each in values:
        histogram.add(each)
    twin = histogram.copy()
    histogram.add(1.0)
    assert twin.count == len(values)
    assert twin.total == pytest.approx(sum(values))
    for bound, count in twin.cumulative():
        assert count == sum(each <= bound for each in values)


def test_bounds_ascend() -> None:
    for bounds in (SECONDS, RATIOS, DECISION_SECONDS):
        assert list(bounds) == sorted(set(bounds))


def test_pairs_of_tenant_and_model_are_bounded() -> None:
    figures = Figures(1, lambda: 0.0)
    for number in range(MOST_SERIES + 10):
        figures.answered(Answered("a", f"m{number}", "1", 1.0, 0.1, 0.0, 0.1, True))
        figures.answered(Answered("a", "kept", "1", 1.0, 0.1, 0.0, 0.1, True))
    pairs, forgotten = figures.pairs()
    assert len(pairs) == MOST_SERIES
    assert forgotten == 11
    assert sum(pairs["a", "kept/1"].endings.values()) == MOST_SERIES + 10, "what is busy stays"


def test_answers_of_the_front_ends_are_counted_by_status() -> None:
    watched = Watched({"name": "a"})
    visits = watched.visits
    for infer in (True, True, False):
        visits.answered(visits.begin("http", "", "GET /", 0.0, 0, infer=infer), 200, 0)
    visit = visits.begin("grpc", "", "ModelInfer", 0.0, 0, infer=True)
    visits.failed(visit, Refusal(Cause.LIMITED, "no"))
    watched.world.play(0.01)
    page = watched.page()
    assert value(page, "headway_answers_total", protocol="http", kind="infer", code="200") == 2
    assert value(page, "headway_answers_total", protocol="http", kind="other", code="200") == 1
    assert value(page, "headway_answers_total", protocol="grpc", code="RESOURCE_EXHAUSTED") == 1


def test_the_page_is_made_once_for_many_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched({"name": "a"})
    watched.world.play(0.01)
    made = []
    text = watched.metrics.text
    monkeypatch.setattr(watched.metrics, "text", lambda: made.append(1) or text())

    async def ask() -> None:
        await asyncio.gather(*(watched.metrics.latest() for _ in range(20)))
        await asyncio.sleep(1.2 * EVERY_S)
        await watched.metrics.latest()

    asyncio.run(ask())
    assert 2 <= len(made) <= 3


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_the_machine_is_told() -> None:
    machine = Machine()
    found = {metric.name: metric.samples[0].value for metric in machine.metrics()}
    assert 0.0 <= found["nv_cpu_utilization"] <= 1.0
    assert 0 < found["nv_cpu_memory_used_bytes"] < found["nv_cpu_memory_total_bytes"]
