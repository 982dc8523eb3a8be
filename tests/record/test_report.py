from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.core.protocols import LogRow
from headway.record.charts import MAX_CURVE_POINTS, MAX_PANELS, MAX_SLICES, charts
from headway.record.log import LogTable
from headway.record.metrics import Summary, summarise
from headway.record.outputs import policy_folders, write_outputs
from headway.record.page import script_json
from headway.record.report import render, write_report
from headway.record.verdict import caution, headline, sentence

HOSTILE = "</script><script>alert(1)</script>"


class Elements(HTMLParser):
    """Counts elements and collects what they would load."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]


def pages(logs: dict[str, LogTable]) -> tuple[str, Elements]:
    text = render(logs, {name: summarise(log) for name, log in logs.items()})
    elements = Elements()
    elements.feed(text)
    return text, elements


@pytest.fixture(scope="module")
def logs(synthetic: ModuleType) -> dict[str, LogTable]:
    return {
        "edf": synthetic.synthetic_log("edf", load=1.0, drop=False),
        "lucas:lbl": synthetic.synthetic_log("lucas:lbl", load=0.7),
    }


def page_data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_loads_nothing(logs: dict[str, LogTable]) -> None:
    text, elements = pages(logs)

    assert [value for value in elements.loaded if not value.startswith(("#", "data:"))] == []
    assert elements.names.count("script") == 3
    assert "default-src 'none'" in text
    assert text.count("plotly.js v") == 1


def test_every_table_has_a_caption_and_every_plot_a_label(logs: dict[str, LogTable]) -> None:
    text, elements = pages(logs)
    assert elements.names.count("table") == elements.names.count("caption") == 4
    plots = re.findall(r"<div[^>]*class=\"plot\"[^>]*>", text)
    assert len(plots) == 6
    assert all('role="img"' in plot and "aria-label=" in plot for plot in plots)


def test_hostile_names_stay_text(synthetic: ModuleType) -> None:
    metadata = synthetic.description(HOSTILE, tenants=(HOSTILE, "b & <i>c"))
    metadata["scenario"]["name"] = HOSTILE
    metadata["device"]["cores"][0]["name"] = HOSTILE
    log = synthetic.log_of(synthetic.rows_of(metadata), metadata)

    text, elements = pages({HOSTILE: log})

    assert "<script>alert" not in text
    assert elements.names.count("script") == 3
    assert page_data(text)["tenants"][0]["name"] == HOSTILE
    assert json.loads(str(script_json({"a": "<!-- & \u2028"}))) == {"a": "<!-- & \u2028"}


def test_curves_reach_sla_satisfaction_at_the_deadline(logs: dict[str, LogTable]) -> None:
    summaries = {name: summarise(log) for name, log in logs.items()}
    for panel in charts(logs, summaries)["latency"]:
        for policy, curve in panel["curves"].items():
            within = [
                share
                for ms, share in zip(curve["ms"], curve["percent"], strict=True)
                if ms <= panel["deadline_ms"]
            ]
            expected = summaries[policy].tenants[panel["tenant"]].sla_satisfaction
            assert expected is not None
            assert max(within) == pytest.approx(100 * expected, abs=1e-3)
            assert len(curve["ms"]) <= MAX_CURVE_POINTS + 2


def test_what_is_drawn_is_bounded(synthetic: ModuleType) -> None:
    metadata = synthetic.description(tenants=[f"tenant {at}" for at in range(30)])
    for entry in metadata["tenants"]:
        entry["isolated_s"] = 0.0004
    log = synthetic.log_of(synthetic.rows_of(metadata), metadata)
    summaries = {"edf": summarise(log)}

    found = charts({"edf": log}, summaries)

    assert len(found["latency"]) == MAX_PANELS
    assert MAX_SLICES / 2 < len(found["gantt"]["slices"]["edf"]) <= MAX_SLICES + 4
    assert found["gantt"]["until_ms"] < found["gantt"]["end_ms"]
    assert len({entry["colour"] for entry in found["tenants"]}) == 30
    assert "18 more tenants are not drawn" in render({"edf": log}, summaries)


def test_mean_bandwidth_keeps_the_bytes(logs: dict[str, LogTable]) -> None:
    summaries = {name: summarise(log) for name, log in logs.items()}
    bandwidth = charts(logs, summaries)["bandwidth"]
    width_s = (bandwidth["ms"][1] - bandwidth["ms"][0]) / 1e3
    for name, line in bandwidth["lines"].items():
        assert sum(line) * 1e9 * width_s == pytest.approx(summaries[name].total.dram_bytes, rel=1e-3)
    assert bandwidth["capacity"] == 16.0


def test_logs_with_nothing_in_them_have_a_page(synthetic: ModuleType) -> None:
    for rows, metadata in (
        ([], {}),
        ([LogRow(1.0, "end")], synthetic.description()),
        ([LogRow(0.5, "arrive", 1, "camera", "m", deadline_s=1.0, isolated_s=0.1)], synthetic.description()),
    ):
        text, _ = pages({"edf": synthetic.log_of(rows, metadata)})
        assert "<h1>" in text
        assert page_data(text)["policies"] == ["edf"]


@pytest.fixture
def summary(synthetic: ModuleType) -> Any:
    def make(policy: str, *shares: tuple[int, int], percentile: float | None = 90.0) -> Summary:
        """A summary of tenants t0, t1, ... of which so many of so many requests were in time."""
        rows = []
        for place, (kept, count) in enumerate(shares):
            for at in range(count):
                asked = (1000 * place + at, f"t{place}", "m")
                rows.append(LogRow(0.0, "arrive", *asked, deadline_s=1.0, isolated_s=0.1))
                rows.append(LogRow(0.5 if at < kept else 2.0, "reply", *asked, outcome="done"))
        described = [{"name": f"t{place}", "percentile": percentile} for place in range(len(shares))]
        return summarise(synthetic.log_of(rows, {"policy": policy, "tenants": described}))

    return make


def test_headlines(summary: Any) -> None:
    both, one, none = (
        summary("a", (9, 10), (9, 10)),
        summary("b", (9, 10), (8, 10)),
        summary("c", (1, 10), (1, 10)),
    )

    assert headline({"a": both}) == "a meets both SLAs."
    assert headline({"b": one}) == "b meets 1 of 2 SLAs."
    assert headline({"a": both, "b": one}) == "a meets both SLAs; no other policy does."
    assert headline({"a": both, "b": both}) == "a and b meet both SLAs."
    assert headline({"b": one, "c": none}) == "No policy meets every SLA; b comes closest with 1 of 2."
    assert headline({"c": none, "d": none}) == "No policy meets any of the 2 SLAs."
    assert (
        headline({"e": summary("e", (3, 10), percentile=None)}) == "e served 30.0 % of the requests in time."
    )
    assert headline({"f": summary("f", (0, 0))}) == "No request was measured."
    assert headline({}) == "No request was measured."


def test_sentences(summary: Any) -> None:
    assert sentence(summary("a", (9, 10), (10, 10))).startswith("Every SLA is met: 95.0 ±")
    assert sentence(summary("b", (9, 10), (8, 10))) == (
        "1 of 2 SLAs are met. Missed: t1 (80.0 % in time, 90 % asked; 2 late)."
    )
    assert sentence(summary("c", *[(0, 10)] * 6)).endswith("and 2 more tenants.")
    assert sentence(summary("d", (5, 10), percentile=None)) == "50.0 % of 10 requests were in time."


def test_a_difference_within_the_noise_is_called_so(summary: Any) -> None:
    near = {"a": summary("a", (90, 100)), "b": summary("b", (88, 100)), "c": summary("c", (1, 100))}
    assert caution(near).startswith("a and b differ by less than their 95 % intervals")
    assert caution({"a": near["a"], "c": near["c"]}) == ""
    assert caution({"a": near["a"]}) == ""
    assert caution({"a": near["a"], "b": near["a"]}) == "a and b have the same SLA satisfaction."


def test_all_outputs_are_written(tmp_path: Path, logs: dict[str, LogTable]) -> None:
    paths = write_outputs(tmp_path / "out", logs)

    assert paths.folders == {"edf": tmp_path / "out" / "edf", "lucas:lbl": tmp_path / "out" / "lucas-lbl"}
    assert set(json.loads(paths.results.read_text())["policies"]) == set(logs)
    assert paths.report.stat().st_size > 1e6
    for timeline in paths.timelines.values():
        assert json.loads(timeline.read_text())["traceEvents"]


def test_the_same_logs_give_the_same_page(tmp_path: Path, logs: dict[str, LogTable]) -> None:
    summaries = {name: summarise(log) for name, log in logs.items()}
    write_report(tmp_path / "a.html", logs, summaries)
    write_report(tmp_path / "b.html", logs, summaries)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_policy_folders_are_safe_and_distinct(tmp_path: Path) -> None:
    folders = policy_folders(tmp_path, ["a:b", "a/b", "A-B", "../../etc", "..", "", "é", "x.y"])
    names = [folder.name for folder in folders.values()]
    assert names == ["a-b", "a-b-2", "A-B-3", "etc", "policy", "policy-2", "policy-3", "x.y"]
    assert all(folder.parent == tmp_path for folder in folders.values())
