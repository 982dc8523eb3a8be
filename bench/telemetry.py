"""What the server's telemetry costs in processor time: by request, by part, and for a page of /metrics.

    python bench/telemetry.py

Each part is run alone many times on one thread, and its processor time divided by the number of requests; the
median of some rounds counts. A request has as many rows of the event log as a model of that many blocks.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import thread_time
from types import SimpleNamespace
from typing import Any

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from headway.core.decision_time import DecisionTimes
from headway.core.protocols import LogRow
from headway.serve.access_log import AccessLog, line_of
from headway.serve.answers import Answered
from headway.serve.figures import Figures
from headway.serve.histograms import DECISION_SECONDS, MOST_SERIES, Histogram
from headway.serve.metrics_page import MetricsPage
from headway.serve.settings import Settings
from headway.serve.tracing import Tracer
from headway.serve.visits import Visit, Visits

Work = Callable[[int], object]


class Nowhere(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


class NoSink:
    def add(self, row: LogRow) -> None:
        pass


def rows_of(number: int, blocks: int) -> list[LogRow]:
    """The event log's rows of one request that runs alone."""
    start_s = number * 1e-2
    common = (number, f"t{number % 4}", f"m{number % 4}/1@0123", number)
    rows = [
        LogRow(start_s, "arrive", *common[:3]),
        LogRow(start_s, "start", *common, 0, blocks, "serial", "0", expected_end_s=start_s + 1e-3 * blocks),
    ]
    for block in range(blocks):
        end_s = start_s + 1e-3 * (block + 1)
        rows.append(LogRow(end_s, "progress", *common, block, block + 1, "serial", "0", start_s=end_s - 1e-3))
    end_s = start_s + 1e-3 * blocks
    return [*rows, LogRow(end_s, "finish", *common), LogRow(end_s, "reply", *common[:3])]


def visit_of(visits: Visits, number: int) -> Visit:
    """A request as a front end tells it."""
    visit = visits.begin("http", "127.0.0.1:5000", "POST /v2/models/m/infer", 0.0, 600_000, infer=True)
    visits.trace(visit, {})
    visit.asks("m", "", "id")
    visit.tenant, visit.number = "t", number
    if visit.follow is not None:
        visit.follow(number)
    visit.result(1e-3, 5e-3)
    return visit


def answered_by(visits: Visits, number: int) -> None:
    visits.answered(visit_of(visits, number), 200, 4000)


def parts(blocks: int, folder: Path) -> dict[str, Work]:
    """By name what is done for one request."""
    figures = Figures(2, lambda: 1.0)
    told = [Answered(f"t{at}", f"m{at}", "1", 0.1, 0.02, 0.01, 0.01, True) for at in range(4)]
    times = DecisionTimes(thread_time)
    histogram = Histogram(DECISION_SECONDS)
    plain = Visits()
    log = AccessLog(folder / "access.log", 1 << 30, 1)
    logged = Visits(log)
    line = visit_of(plain, 0)
    traced = {}
    for name, rate in (("one in a thousand", "1000"), ("each", "1")):
        settings = Settings()
        settings.change_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": rate})
        tracer = Tracer("bench", BatchSpanProcessor(Nowhere()), settings, lambda: 1.0, NoSink())
        traced[name] = (Visits(tracing=tracer), tracer)

    def rows(number: int) -> None:
        for row in rows_of(number, blocks):
            figures.add(row)

    def only_rows(number: int) -> None:
        rows_of(number, blocks)

    def answer(number: int) -> None:
        figures.answered(told[number % 4])

    def decision(number: int) -> None:
        begin_s = times.clock()
        times.seconds.append(times.clock() - begin_s)
        histogram.add(1e-5)

    def trace(name: str) -> Work:
        visits, tracer = traced[name]

        def work(number: int) -> None:
            answered_by(visits, number)
            for row in rows_of(number, blocks):
                tracer.add(row)

        return work

    return {
        "making rows, which is not telemetry": only_rows,
        "figures: an answer noted": answer,
        "figures: rows": rows,
        "a decision timed and counted": decision,
        "a visit counted": lambda number: answered_by(plain, number),
        "a visit counted and noted for the access log": lambda number: answered_by(logged, number),
        "a line of the access log": lambda number: line_of(line),
        "a visit with tracing of one in a thousand": trace("one in a thousand"),
        "a visit with tracing of each": trace("each"),
    }


def cpu_s(work: Work, requests: int) -> float:
    begin_s = thread_time()
    for number in range(requests):
        work(number)
    return (thread_time() - begin_s) / requests


def page_s(pairs: int) -> tuple[float, int]:
    """Processor time of a page, and its bytes, with that many pairs of tenant and model."""
    figures = Figures(2, lambda: 1.0)
    for number in range(pairs):
        figures.answered(Answered(f"tenant-{number}", "model", "1", 0.1, 0.02, 0.01, 0.01, True))
    nothing = SimpleNamespace(statistics=list, ready=lambda: True, tenants=SimpleNamespace(doors=()))
    telemetry: Any = SimpleNamespace(
        name="bench",
        policy="headway",
        figures=figures,
        service=nothing,
        engine=SimpleNamespace(
            device=SimpleNamespace(cores=[SimpleNamespace(name="lane-0"), SimpleNamespace(name="lane-1")]),
            decisions=0,
            faults=SimpleNamespace(count=0, fallbacks=0),
        ),
        decision_s=lambda: Histogram(DECISION_SECONDS),
        under_way=lambda: (Counter(), Counter()),
        models=list,
    )
    page = MetricsPage(telemetry, Visits())
    begin_s = thread_time()
    text = page.text()
    return thread_time() - begin_s, len(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--blocks", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        works = parts(options.blocks, Path(folder))
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(options.rounds):
            for name, work in works.items():
                found[name].append(cpu_s(work, options.requests))
    print(f"us of processor time a request of {options.blocks} blocks, median of {options.rounds} rounds")
    for name, seconds in found.items():
        print(f"{name:<46} {1e6 * median(seconds):6.1f}")
    for pairs in (1, 16, MOST_SERIES):
        seconds, size = min(page_s(pairs) for _ in range(3))
        print(f"a page of /metrics with {pairs:3} pairs: {1e3 * seconds:6.1f} ms, {size / 1e3:7.1f} kB")


if __name__ == "__main__":
    main()
