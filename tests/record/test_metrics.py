from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.protocols import LogRow
from headway.record.metrics import Scores, percentile, summarise, wilson


def story(
    request: int,
    tenant: str,
    arrival_s: float,
    end_s: float | None,
    deadline_s: float,
    isolated_s: float = 0.1,
    outcome: str = "done",
    model: str | None = None,
) -> list[LogRow]:
    """The arrival of a request and, with an end, its reply."""
    asked = (request, tenant, model or f"model of {tenant}")
    rows = [LogRow(arrival_s, "arrive", *asked, deadline_s=deadline_s, isolated_s=isolated_s)]
    return rows if end_s is None else [*rows, LogRow(end_s, "reply", *asked, outcome=outcome)]


def described(**tenants: dict[str, Any]) -> dict[str, Any]:
    return {"policy": "edf", "tenants": [{"name": name, **entry} for name, entry in tenants.items()]}


def work(start_s: float, end_s: float, cores: str = "0", **changes: Any) -> LogRow:
    row = LogRow(
        end_s,
        "progress",
        1,
        "a",
        "m",
        1,
        0,
        4,
        "serial",
        cores,
        start_s,
        share=1.0,
        dram_bytes=4e9,
        link_bytes=5.0,
    )
    return row._replace(energy_pj=2e9, macs=3.0, **changes)


def test_how_requests_end(synthetic: ModuleType) -> None:
    rows = [
        *story(0, "a", 1.0, 1.5, 1.5),  # exactly at its deadline
        *story(1, "a", 1.0, 1.6, 1.5),
        *story(2, "a", 1.0, 1.1, 9.0, outcome="dropped"),
        *story(3, "b", 1.0, 1.1, 9.0, outcome="rejected"),
        *story(4, "b", 1.0, 1.1, 9.0, outcome="failed"),
        *story(5, "b", 1.0, 1.1, 9.0, outcome="cancelled"),
        *story(6, "b", 1.0, None, 1.05),
        *story(7, "b", 0.4, 0.5, 9.0),  # during the warm-up
        *story(8, "b", 0.5, 0.7, math.inf),  # at its end, and without a deadline
        LogRow(5.0, "end"),
    ]
    summary = summarise(synthetic.log_of(rows, described(a={}, b={}) | {"warmup_s": 0.5}))

    total = summary.total
    assert (total.requests, total.completed, total.late) == (8, 3, 1)
    assert (total.dropped, total.rejected, total.failed, total.cancelled, total.unfinished) == (1, 1, 1, 1, 1)
    assert total.sla_satisfaction == 2 / 8
    assert total.violations == 6
    assert total.infeasible_at_arrival == 1
    assert summary.tenants["a"].sla_satisfaction == 1 / 3
    assert summary.tenants["b"].requests == 5
    assert summary.span_s == 5.0


def test_a_warm_up_that_is_a_share_ends_at_that_share_of_the_last_arrival(synthetic):
    rows = [
        *(row for i in range(10) for row in story(i, "a", 1.0 * i, i + 0.5, 99.0)),
        LogRow(20.0, "end"),
    ]
    share = {"warmup_s": None, "warmup_share": 1 / 3}
    assert summarise(synthetic.log_of(rows, described(a={}) | share)).total.requests == 7  # from 3.0 on


def test_latency_is_over_completed_requests(synthetic: ModuleType) -> None:
    done = [row for at in range(100) for row in story(at, "a", 0.0, (at + 1) / 1e3, 1.0, isolated_s=0.01)]
    drops = [row for at in range(100, 102) for row in story(at, "a", 0.0, 0.5, 1.0, outcome="dropped")]

    scores = summarise(synthetic.log_of([*done, *drops], described(a={}))).total

    assert (scores.p50_ms, scores.p95_ms, scores.p99_ms) == pytest.approx((50, 95, 99))
    assert scores.p99_ms_with_drops == math.inf
    assert scores.mean_ms == pytest.approx(50.5)
    assert scores.antt == pytest.approx(5.05)
    assert scores.antt_with_drops == math.inf
    assert summarise(synthetic.log_of(done, described(a={}))).total.antt_with_drops == scores.antt


def test_throughput_and_fairness(synthetic: ModuleType) -> None:
    rows = [
        *story(0, "a", 1.0, 1.2, 9.0, isolated_s=0.1),
        *story(1, "a", 1.0, 1.4, 9.0, isolated_s=0.1),
        *story(2, "b", 2.0, 3.0, 9.0, isolated_s=0.5),
        *story(3, "b", 2.5, 2.6, 9.0, isolated_s=0.5, outcome="dropped"),
    ]
    summary = summarise(synthetic.log_of(rows, described(a={"priority": 0}, b={"priority": 2})))

    total = summary.total
    assert total.stp_eyerman == pytest.approx(0.1 / 0.3 + 0.5 / 1.0)
    assert total.stp_inferences_s == pytest.approx(3 / 2.0)  # first arrival at 1 s, last finish at 3 s
    # MoCA: progress over (priority + 1) as a share of their sum, which cancels.
    assert total.fairness == pytest.approx((0.5 / 3) / (1 / 3))
    assert summary.tenants["a"].fairness is None
    assert summary.tenants["b"].stp_eyerman == pytest.approx(0.5)


def test_a_starved_model_makes_it_unfair(synthetic: ModuleType) -> None:
    rows = [*story(0, "a", 0.0, 0.1, 1.0), *story(1, "b", 0.0, None, 1.0)]
    assert summarise(synthetic.log_of(rows, described(a={}, b={}))).total.fairness == 0.0


def test_percentile_targets(synthetic: ModuleType) -> None:
    tenants = {
        "met": {"percentile": 50.0, "strict": True},
        "missed": {"percentile": 50.1, "strict": True},
        "loose": {"percentile": 99.0, "strict": False},
        "open": {"percentile": None},
        "silent": {"percentile": 99.0, "strict": True},
    }
    names = ("met", "missed", "loose", "open")
    rows = [
        row
        for place, name in enumerate(names)
        for row in (*story(2 * place, name, 0.0, 1.0, 1.0), *story(2 * place + 1, name, 0.0, 2.0, 1.0))
    ]
    summary = summarise(synthetic.log_of(rows, described(**tenants)))

    assert {name: scores.meets_percentile for name, scores in summary.tenants.items()} == {
        "met": True,
        "missed": False,
        "loose": False,
        "open": None,
        "silent": None,
    }
    assert summary.total.meets_percentile is False
    met = summarise(synthetic.log_of(rows[:4], described(met=tenants["met"], loose=tenants["loose"])))
    assert met.total.meets_percentile is True


def test_resources(synthetic: ModuleType) -> None:
    device = {
        "cores": [{"index": 0, "name": "tpu0", "kind": "tpu"}, {"index": 1, "name": "meta1", "kind": "meta"}],
        "dram_bandwidth_bytes_s": 8e9,
    }
    rows = [
        *story(1, "a", 0.0, 2.0, 9.0),
        work(0.0, 1.0),
        work(1.0, 2.0, cores="0+1", mode="pipeline", tenant="b"),
        work(2.0, 2.5, mode="serial", reason="lost", share=0.5),
        LogRow(2.0, "stop", 1, "a", "m", 1, reason="spill"),
        LogRow(2.0, "stop", 1, "a", "m", 1, reason="failed"),
        LogRow(4.0, "end"),
    ]
    summary = summarise(synthetic.log_of(rows, described(a={}) | {"device": device}))

    assert [(core.name, core.busy_s, core.utilisation) for core in summary.cores] == [
        ("tpu0", 2.5, 0.625),
        ("meta1", 1.0, 0.25),
    ]
    assert summary.core_utilisation == pytest.approx(0.4375)
    assert summary.dram_utilisation == pytest.approx(12e9 / (8e9 * 4))
    assert summary.total.energy_mj == pytest.approx(6.0)
    assert summary.tenants["a"].dram_bytes == 8e9
    assert (summary.total.link_bytes, summary.total.macs, summary.total.core_s) == (15.0, 9.0, 3.5)
    assert summary.total.preemptions == 1
    assert summary.modes["serial"].blocks == 4
    assert summary.modes["pipeline"].block_share == 0.5
    assert summary.modes["pipeline"].core_time_share == pytest.approx(2 / 3.5)


def test_tenants_that_asked_for_nothing_are_there(synthetic: ModuleType) -> None:
    summary = summarise(synthetic.log_of([LogRow(1.0, "end")], described(a={"percentile": 99})))

    assert list(summary.tenants) == ["a"]
    assert summary.tenants["a"] == summary.total
    empty = summary.total
    assert (empty.requests, empty.sla_satisfaction, empty.p99_ms, empty.antt) == (0, None, None, None)
    assert (empty.stp_inferences_s, empty.fairness, empty.meets_percentile) == (None, None, None)


def test_an_empty_log_has_a_summary(synthetic: ModuleType) -> None:
    summary = summarise(synthetic.log_of([], {}))
    assert (summary.total.requests, summary.span_s, summary.cores, dict(summary.modes)) == (0, 0.0, (), {})


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # R: prop.test(x, n, correct = FALSE)$conf.int
    [(8, 10, 0.4901625, 0.9433178), (0, 20, 0.0, 0.1611252), (50, 50, 0.9286524, 1.0)],
)
def test_wilson(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-6)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([50.0, 95.0, 99.0]))
@settings(deadline=None, max_examples=60)
def test_a_percentile_is_the_least_value_that_covers_its_share(values: list[float], percent: float) -> None:
    found = percentile(np.array(values), percent)
    within = sum(value <= found for value in values) / len(values)
    below = sum(value < found for value in values) / len(values)
    assert within >= percent / 100 - 1e-12
    assert below < percent / 100


@given(seed=st.integers(0, 10_000), load=st.floats(0.3, 1.5), drop=st.booleans())
@settings(deadline=None, max_examples=12)
def test_figures_agree_with_each_other(synthetic: ModuleType, seed: int, load: float, drop: bool) -> None:
    log = synthetic.synthetic_log(seed=seed, load=load, drop=drop)
    summary = summarise(log)

    def sums(field: str) -> float:
        return sum(getattr(scores, field) for scores in summary.tenants.values())

    counts = ("late", "dropped", "rejected", "failed", "cancelled", "unfinished")
    for field in ("requests", "completed", "preemptions", *counts):
        assert sums(field) == getattr(summary.total, field)
    for field in ("energy_mj", "dram_bytes", "link_bytes", "macs", "core_s"):
        assert sums(field) == pytest.approx(getattr(summary.total, field))
    for scores in (summary.total, *summary.tenants.values()):
        check_scores(scores)
    assert sum(core.busy_s for core in summary.cores) == pytest.approx(summary.total.core_s)
    assert all(0 <= core.utilisation <= 1 for core in summary.cores)
    assert 0 <= summary.dram_utilisation <= 1
    assert sum(mode.block_share for mode in summary.modes.values()) == pytest.approx(1)
    assert sum(mode.core_time_share for mode in summary.modes.values()) == pytest.approx(1)


def check_scores(scores: Scores) -> None:
    in_time = scores.completed - scores.late
    assert scores.requests == scores.completed + sum(
        (scores.dropped, scores.rejected, scores.failed, scores.cancelled, scores.unfinished)
    )
    assert scores.sla_satisfaction == in_time / scores.requests
    assert scores.sla_low <= scores.sla_satisfaction <= scores.sla_high
    assert scores.p50_ms <= scores.p95_ms <= scores.p99_ms <= scores.p99_ms_with_drops
    assert scores.violations == scores.requests - in_time


def test_what_lanes_do_not_measure_is_none_and_not_zero(synthetic: ModuleType) -> None:
    device = {"name": "lanes", "cores": [{"index": 0, "name": "lane-0", "kind": "lane"}]}
    rows = [*story(1, "a", 0.0, 2.0, 9.0), work(0.0, 1.0), LogRow(4.0, "end")]
    summary = summarise(synthetic.log_of(rows, described(a={}) | {"device": device}))

    for scores in (summary.total, summary.tenants["a"]):
        assert scores.core_s == 1.0
        assert {scores.energy_mj, scores.dram_bytes, scores.link_bytes, scores.macs} == {None}
    assert summary.dram_utilisation is None
