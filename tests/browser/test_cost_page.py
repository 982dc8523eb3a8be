"""The page of `headway cost` in a real browser: it draws all, loads nothing, survives hostile names."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from headway.cli.cost_document import cores_of, document
from headway.config import load_hardware
from headway.core.block import Mode
from headway.cost import build_table
from headway.cost.breakdown import layer_terms
from headway.cost.stacks import best_stacks
from headway.models import at_width, load_model, merge
from headway.record.cost_page import plotted, write_cost_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>x'


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    device = load_hardware("stream-hetero4")
    graph = merge(at_width(load_model("mobilenet_v2", dims={"image_size": 64}), device.operand_bytes))
    found = best_stacks(build_table(graph, device), device, Mode.FUSED)
    stacks = [(stack, cores_of(device, stack.option.kinds)) for stack in found]
    return document(graph, device, layer_terms(graph, device), stacks, "physical")


def shown(page: Page, path: Path, described: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Open the page; the console's complaints and all requests made."""
    write_cost_page(path, described)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    return complaints, requests


def test_everything_is_drawn_and_nothing_loaded(
    page: Page, tmp_path: Path, described: dict[str, Any]
) -> None:
    complaints, requests = shown(page, tmp_path / "cost.html", described)
    layers = len(described["layers"])
    for core in (0, 1):
        assert page.locator(f"#plot-latency-{core} .trace.bars .point").count() == 4 * layers
        assert page.locator(f"#plot-energy-{core} .trace.bars .point").count() == 3 * layers
        assert page.locator(f"#plot-bytes-{core} .trace .point").count() == 2 * layers
    with_macs = sum(1 for layer in described["layers"] if layer["macs"])
    assert page.locator("#plot-roofline .trace .point").count() == 2 * with_macs
    legend = page.locator("#plot-roofline .legendtext").all_text_contents()
    assert legend == ["tpu x 2 roof", "tpu x 2", "meta x 2 roof", "meta x 2"]
    assert page.locator("section[aria-labelledby=stacks] tbody tr").count() == len(described["stacks"])
    assert complaints == []
    assert requests == [(tmp_path / "cost.html").as_uri()]

    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function(
        "document.querySelector('#plot-roofline .main-svg').getBoundingClientRect().width < 340"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_hostile_names_are_shown_as_they_are(page: Page, tmp_path: Path, described: dict[str, Any]) -> None:
    hostile = copy.deepcopy(described)
    hostile["model"] = HOSTILE
    for layer in hostile["layers"]:
        layer["name"] = HOSTILE
    complaints, requests = shown(page, tmp_path / "cost.html", hostile)
    page.locator("#plot-latency-0 .nsewdrag").hover()
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0
    assert (complaints, len(requests)) == ([], 1)


def test_no_point_lies_above_its_roof(described: dict[str, Any]) -> None:
    drawn = plotted(described)
    for core in drawn["cores"]:
        assert core["points"]
        assert math.fsum(point["share"] for point in core["points"]) <= 1
        for point in core["points"]:
            roof = min(core["peak_macs_s"], point["macs_per_byte"] * drawn["bandwidth_bytes_s"])
            assert point["macs_s"] <= roof * (1 + 1e-9)
