"""Figures of a server: endings, attainment, spreads, windows and lanes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_world import ServedWorld

from headway.core.protocols import LogRow
from headway.serve.answers import Answered
from headway.serve.figures import MOST_PENDING, Ending, Figures, attainment_of, ending_of, model_name
from headway.serve.recent import BUCKET_S, WINDOW_S, Recent, Spread, Sums
from headway.serve.refusal import Cause, Refusal
from headway.serve.requests import NO_SLA_S, WARM_UP


def answered(cause: Cause | None = None, **fields: Any) -> Answered:
    given = {
        "tenant": "a",
        "model": "m",
        "version": "1",
        "deadline_s": 0.1,
        "total_s": 0.05,
        "queue_s": 0.01,
        "compute_s": 0.04,
        "in_time": cause is None,
        "refusal": None if cause is None else Refusal(cause, "no"),
    }
    return Answered(**given | fields)


def row(event: str, time_s: float, **fields: Any) -> LogRow:
    return LogRow(time_s, event, **{"tenant": "a", "model": "m/1@f00", "run": 1, "cores": "0", **fields})


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        (answered(), Ending.IN_TIME),
        (answered(in_time=False), Ending.LATE),
        (answered(Cause.LIMITED), Ending.SHED),
        (answered(Cause.LIMITED, deadline_s=0.0), Ending.REJECTED),
        (answered(Cause.LATE), Ending.EXPIRED),
        (answered(Cause.CANCELLED), Ending.CANCELLED),
        (answered(Cause.INTERNAL), Ending.FAILED),
        (answered(Cause.UNAVAILABLE), Ending.FAILED),
        (answered(Cause.INVALID), Ending.INVALID),
        (answered(Cause.TOO_LARGE, deadline_s=0.0), Ending.INVALID),
    ],
)
def test_how_a_request_ended(given: Answered, ending: Ending) -> None:
    assert ending_of(given) is ending


def test_attainment_leaves_out_what_a_tenant_brought_about_itself() -> None:
    figures = Figures(1, lambda: 1.0)
    for _ in range(6):
        figures.answered(answered())
    figures.answered(answered(in_time=False))
    for cause in (Cause.LIMITED, Cause.LATE, Cause.INTERNAL, Cause.CANCELLED, Cause.INVALID):
        figures.answered(answered(cause))
    figures.answered(answered(Cause.LIMITED, deadline_s=0.0))
    figures.answered(answered(deadline_s=NO_SLA_S, tenant="b"))

    lately, whole = figures.tenants()["a"]
    assert attainment_of(lately) == attainment_of(whole) == 6 / 10
    assert whole.endings.total() == 13
    assert attainment_of(figures.tenants()["b"][1]) is None
    assert figures.models()["m/1"][1].endings.total() == 14


@given(st.lists(st.floats(1e-6, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_quantiles_are_within_five_percent(values: list[float], share: float) -> None:
    spread = Spread()
    for value in values:
        spread.add(value)
    exact = next(v for i, v in enumerate(sorted(values), 1) if i >= share * len(values) - 1e-9)
    assert spread.quantile(share) == pytest.approx(exact, rel=0.05)


@given(st.lists(st.tuples(st.floats(0.0, 500.0), st.integers(1, 9)), max_size=60))
def test_lately_is_the_window_and_the_whole_is_everything(given: list[tuple[float, int]]) -> None:
    recent = Recent()
    given.sort()
    for at_s, count in given:
        recent.at(at_s).endings[Ending.LATE] += count
    now = given[-1][0] if given else 0.0
    counted = recent.lately(now).endings[Ending.LATE]
    assert recent.whole().endings[Ending.LATE] == sum(count for _, count in given)
    assert counted >= sum(count for at_s, count in given if at_s > now - WINDOW_S + BUCKET_S)
    assert counted <= sum(count for at_s, count in given if at_s >= now - WINDOW_S)
    assert not recent.lately(now + WINDOW_S + BUCKET_S).endings


def test_runs_are_compared_with_what_was_expected_of_them() -> None:
    figures = Figures(1, lambda: 5.0)
    figures.add(row("start", 1.0, expected_end_s=1.1))
    figures.add(row("finish", 1.2))
    figures.add(row("start", 2.0, run=2, expected_end_s=2.1))
    figures.add(row("stop", 2.3, run=2))
    figures.add(row("start", 3.0, run=3, expected_end_s=3.1, tenant=WARM_UP))
    figures.add(row("finish", 3.5, run=3, tenant=WARM_UP))
    ((_, whole),) = figures.models().values()
    assert whole.ratio.counts.total() == 1
    assert whole.ratio.quantile(1.0) == pytest.approx(2.0)


def test_lanes_are_busy_while_blocks_run() -> None:
    figures = Figures(3, lambda: 4.0)
    figures.add(row("progress", 2.0, start_s=1.0, cores="0+1"))
    figures.add(row("progress", 3.0, start_s=2.0, cores="1"))
    assert figures.busy_s() == [1.0, 2.0, 0.0]
    assert figures.utilisation() == [0.25, 0.5, 0.0]
    assert figures.tenants()["a"][1].busy_s == 3.0


def test_rows_are_passed_on_in_order() -> None:
    kept: list[LogRow] = []

    class Kept:
        def add(self, row: LogRow) -> None:
            kept.append(row)

    figures = Figures(1, lambda: 0.0, Kept())
    rows = [row("arrive", 0.0), row("start", 1.0), row("progress", 2.0, start_s=1.0), row("end", 3.0)]
    for each in rows:
        figures.add(each)
    assert kept == rows


def test_what_is_noted_is_bounded_though_nobody_looks() -> None:
    figures = Figures(1, lambda: 0.0)
    for _ in range(3 * MOST_PENDING):
        figures.answered(answered(Cause.LIMITED, deadline_s=0.0))
    assert len(figures._pending) <= MOST_PENDING
    assert figures.tenants()["a"][1].endings[Ending.REJECTED] == 3 * MOST_PENDING


def test_sums_add_up() -> None:
    one, other = Sums(), Sums()
    one.endings[Ending.LATE] = 1
    other.endings[Ending.LATE] = 2
    other.busy_s = 3.0
    one.merge(other)
    assert one.endings[Ending.LATE] == 3
    assert one.busy_s == 3.0
    one.take_away(other)
    one.total_s.add(0.1)
    assert (one.endings[Ending.LATE], one.busy_s) == (1, 0.0)


def test_the_engines_name_of_a_model_holds_ours() -> None:
    assert model_name("camera/2@0123456789ab+1") == "camera/2"


def test_a_served_world_is_counted() -> None:
    world = ServedWorld([{"name": "a", "sla": {"deadline": "20 ms"}, "rate": "1 /s", "burst": 2}])
    figures = Figures(1, world.clock.now, world.rows)
    world.service.watch(figures.answered)
    world.live.engine.journal.sink = figures
    world.infer(0.0, "in time")
    world.infer(0.0, "also", "long")
    world.infer(0.001, "over its rate")
    world.play(0.5)
    _, whole = figures.tenants()["a"]
    assert whole.endings == {Ending.IN_TIME: 2, Ending.REJECTED: 1}
    assert figures.busy_s() == [pytest.approx(0.009)]
    (ran,) = [whole for name, (_, whole) in figures.models().items() if name.startswith("long/1#")]
    assert ran.ratio.quantile(0.5) == pytest.approx(1.0)
