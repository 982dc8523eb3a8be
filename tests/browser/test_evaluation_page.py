"""The page of an evaluation in a real browser: it draws everything, loads nothing, survives hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from headway.record.evaluation import BINS, MODES
from headway.record.evaluation_page import write_evaluation_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>x'


def rows(policies: tuple[str, ...], hardware: str = "chip", failing: bool = False) -> list[dict[str, Any]]:
    """Three loads on two sets of models, two seeds."""
    made = []
    for models in ("light", "heavy"):
        for load in (0.5, 1.0, 1.5):
            for seed in (1, 2):
                for place, policy in enumerate(policies):
                    sla = 1.0 - 0.2 * load - 0.1 * place - 0.01 * seed
                    made.append(
                        {
                            "key": f"{models}{load}{seed}{policy}",
                            "cell": f"{models}_{hardware}_load{load}",
                            "coordinates": {"models": models, "hardware": hardware, "load": load},
                            "policy": policy,
                            "seed": seed,
                            "failed": failing and place == 0 and load == 1.5,
                            "cause": HOSTILE if failing else None,
                            "requests": 100,
                            "dropped": 0,
                            "sla_satisfaction": sla,
                            "sla_bound": 1.0 - 0.05 * load,
                            "sla_worst_tenant": sla - 0.1,
                            "antt": 1.0 + load,
                            "stp_eyerman": 2.0,
                            "fairness": 0.4 + 0.1 * place,
                            "energy_mj": 10.0 + place,
                            "goodput_s": 50.0,
                            "decision_p99_us": 80.0,
                            "modes_over_time": {mode: [0.25] * BINS for mode in MODES},
                            **{f"time_share_{mode}": 0.25 for mode in MODES},
                        }
                    )
    return made


def shown(page: Page, path: Path, name: str, given: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Open the page; the console's complaints and all requests made."""
    write_evaluation_page(path, name, given, {"Command": name})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    return complaints, requests


def test_everything_is_drawn_and_nothing_loaded(page: Page, tmp_path: Path) -> None:
    complaints, requests = shown(page, tmp_path / "page.html", "core grid", rows(("lucas", "edf", "fcfs")))

    for plot in ("ranks", "axis-0", "fairness", "energy", "modes-time", "modes-cells"):
        assert page.locator(f"#plot-{plot} .trace path").count() > 0, plot
    texts = page.locator("#plot-heat .heatmap-label").all_text_contents()
    assert len(texts) == 6 * 4  # six cells by three policies and the bound
    assert "88.5" in texts  # light and heavy at load 0.5 under lucas: 1 - 0.1 - 0.015
    assert page.locator("#standings ~ .scroll tbody th").all_inner_texts() == ["lucas", "edf", "fcfs"]
    assert "10.0 ±0.0 pp" in page.locator("#standings ~ .scroll tbody tr").nth(1).inner_text()
    assert page.locator("#plot-axis-0 .legendtext").all_text_contents() == ["lucas", "edf", "fcfs", "bound"]
    assert page.locator("h2").all_inner_texts()[3] == "SLA satisfaction along load"

    page.locator("#group-0").select_option("heavy, chip")
    page.locator("#modes-policy").select_option("edf")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('#plot-axis-0 .xtick text')).fill === 'rgb(232, 236, 240)'"
    )
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function(
        "document.querySelector('#plot-axis-0 .main-svg').getBoundingClientRect().width < 340"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert complaints == []
    assert requests == [(tmp_path / "page.html").as_uri()]


def test_wide_intervals_do_not_squeeze_what_they_are_of(page: Page, tmp_path: Path) -> None:
    """Two seeds far apart: intervals of more than the whole axis."""
    names = tuple(f"policy-number-{number}" for number in range(12))
    given = [
        row
        | {
            "sla_satisfaction": 0.4 + 0.25 * row["seed"],
            "fairness": 0.9 * (row["seed"] - 1),
            "energy_mj": 9.0,
        }
        for row in rows(names)
    ]
    shown(page, tmp_path / "page.html", "wide", given)
    low, high = page.evaluate("document.getElementById('plot-axis-0')._fullLayout.yaxis.range")
    assert 0.0 <= low < 77.5 < 100.0 <= high < 110.0
    low, high = page.evaluate("document.getElementById('plot-fairness')._fullLayout.yaxis.range")
    assert 0.0 <= low < 0.45 < 1.0 <= high < 1.2
    assert page.locator("#plot-fairness .xtick").count() == len(names)


def test_hostile_names_are_shown_as_they_are(page: Page, tmp_path: Path) -> None:
    given = rows((HOSTILE, "edf"), hardware=HOSTILE, failing=True)
    complaints, requests = shown(page, tmp_path / "page.html", HOSTILE, given)
    page.locator("#plot-fairness .nsewdrag").hover()

    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    assert "4 of 24 runs failed" in page.locator(".caution").inner_text()
    assert page.locator("#failures ~ .scroll tbody tr").count() == 4
    assert (complaints, len(requests)) == ([], 1)


def test_one_run_is_enough(page: Page, tmp_path: Path) -> None:
    complaints, _ = shown(page, tmp_path / "page.html", "one", rows(("edf",))[:1])
    assert page.locator("#plot-ranks").count() == 0
    assert page.locator("#standings ~ .scroll tbody tr").count() == 1
    assert complaints == []
