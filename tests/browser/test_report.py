"""The report in a real browser: it draws everything, loads nothing, and survives hostile names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Page

from headway.record.log import LogTable
from headway.record.metrics import summarise
from headway.record.report import write_report

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>x'


@pytest.fixture(scope="module")
def synthetic() -> ModuleType:
    """The synthetic logs of the tests of the record package."""
    place = Path(__file__).parents[1] / "record" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(page: Page, path: Path, logs: dict[str, LogTable]) -> tuple[list[str], list[str]]:
    """Open the report of those logs; the console's complaints and all requests made, both still growing."""
    write_report(path, logs, {name: summarise(log) for name, log in logs.items()})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    return complaints, requests


def marks(page: Page, plot: str) -> int:
    """How many bars, lines and points are drawn in a plot."""
    return page.locator(f"#{plot} .trace path").count()


def test_everything_is_drawn_and_nothing_loaded(page: Page, tmp_path: Path, synthetic: ModuleType) -> None:
    logs = {
        "edf": synthetic.synthetic_log("edf", load=1.1),
        "lucas": synthetic.synthetic_log("lucas", load=0.8, drop=False),
    }
    complaints, requests = shown(page, tmp_path / "report.html", logs)

    for plot in (
        "sla",
        "violations",
        "latency-0",
        "latency-1",
        "latency-2",
        "gantt",
        "bandwidth",
        "modes",
        "cores",
    ):
        assert marks(page, f"plot-{plot}") > 0, plot
    assert page.locator("#plot-sla .legendtext").all_text_contents() == ["edf", "lucas", "asked"]
    rows = page.locator("#plot-gantt .ytick").all_text_contents()
    assert rows == ["tpu0", "tpu1", "meta2", "meta3", "missed"]
    assert page.locator("article h3").all_inner_texts() == ["edf", "lucas"]

    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('#plot-sla .xtick text')).fill === 'rgb(232, 236, 240)'"
    )
    page.locator("#gantt-policy").select_option("edf")
    before = page.evaluate("document.getElementById('plot-gantt').layout.xaxis.range")
    page.get_by_role("button", name="Later").click()
    after = page.evaluate("document.getElementById('plot-gantt').layout.xaxis.range")
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    page.get_by_role("button", name="Closer").click()
    closer = page.evaluate("document.getElementById('plot-gantt').layout.xaxis.range")
    assert closer[1] - closer[0] == pytest.approx((after[1] - after[0]) / 2)
    for _ in range(8):
        page.get_by_role("button", name="Wider").click()
    whole = page.evaluate("document.getElementById('plot-gantt').layout.xaxis.range")
    assert whole[0] == pytest.approx(200)  # from the end of the warm-up

    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function(
        "document.querySelector('#plot-sla .main-svg').getBoundingClientRect().width < 340"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    assert complaints == []
    assert requests == [(tmp_path / "report.html").as_uri()]


def test_hostile_names_are_shown_as_they_are(page: Page, tmp_path: Path, synthetic: ModuleType) -> None:
    metadata = synthetic.description(HOSTILE, tenants=(HOSTILE, "b"))
    metadata["device"]["cores"][1]["name"] = HOSTILE
    log = synthetic.log_of(synthetic.rows_of(metadata), metadata)

    complaints, requests = shown(page, tmp_path / "report.html", {HOSTILE: log})
    page.locator("#plot-gantt .nsewdrag").hover()

    assert page.evaluate("window.hacked") is None
    assert page.locator("article h3").inner_text() == HOSTILE
    assert HOSTILE[:21] + "…" in page.locator("#plot-gantt .ytick").all_text_contents()
    assert page.locator("img").count() == 0
    assert (complaints, len(requests)) == ([], 1)


def test_a_run_without_requests_is_drawn(page: Page, tmp_path: Path, synthetic: ModuleType) -> None:
    complaints, _ = shown(
        page, tmp_path / "report.html", {"edf": synthetic.log_of([], synthetic.description())}
    )

    assert page.locator(".lead").inner_text() == "No request was measured."
    assert "No violation" in page.locator("#plot-violations").inner_text()
    assert complaints == []


def test_what_lanes_do_not_measure_is_not_drawn(page: Page, tmp_path: Path, synthetic: ModuleType) -> None:
    metadata = synthetic.description()
    del metadata["device"]["dram_bandwidth_bytes_s"]
    log = synthetic.log_of(synthetic.rows_of(metadata), metadata)
    complaints, _ = shown(page, tmp_path / "report.html", {"edf": log})

    assert page.locator("#plot-bandwidth").count() == 0
    assert marks(page, "plot-cores") > 0
    assert "not measured on lanes" in page.locator("section[aria-labelledby=machine]").inner_text()
    assert complaints == []
