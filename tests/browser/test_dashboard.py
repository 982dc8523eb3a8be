"""The dashboard in a real browser, over a live engine whose blocks only take time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))  # for served_page, beside the tests

from served_page import LivePage, load_on, service_of, shown_of

from headway.config.serving_parts import ServedTenant
from headway.core.protocols import LogRow
from headway.serve.answers import Answered
from headway.serve.dashboard.routes import routes_of
from headway.serve.dashboard.stream import Snapshots
from headway.serve.dashboard.timeline import Timeline
from headway.serve.event_log import NoLog
from headway.serve.figures import Figures
from headway.serve.frontends import serve_frontends
from headway.serve.keys import hash_of
from headway.serve.service import IndexEntry, ModelState

expect.set_options(timeout=20_000)  # bounds a failure, not what is expected

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '</script><img src=x onerror="window.hacked=1"><b>x'
KEY = "hw_a-control-key"
TENANTS = [
    {"name": "web", "sla": {"deadline": "500 ms", "percentile": 95}},
    {"name": "flood", "sla": {"deadline": "500 ms"}, "rate": "2 /s", "burst": 1},
    {"name": "tight", "sla": {"deadline": "12 ms"}},
    {"name": "batch", "class": "best-effort", "sla": {"deadline": "2 s"}},
]
MODELS = {"keyword": [0.002, 0.003], "camera": [0.004] * 5}
RATE = {
    ("web", "keyword"): 10.0,
    ("flood", "keyword"): 20.0,
    ("tight", "camera"): 6.0,
    ("batch", "camera"): 6.0,
}


class Seen:
    """A page that is open: its `complaints` and the `requests` that it made, both still growing."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        self.wait()

    def _hear(self, kind: str, text: str) -> None:
        if kind not in ("log", "debug"):
            self.complaints.append(text)

    def wait(self, more: int = 0) -> None:
        """Until a moment was heard, or so many more."""
        number = self.heard if more else 0
        self.page.wait_for_function(
            "least => Number(document.documentElement.dataset.heard) >= least", arg=number + max(1, more)
        )

    @property
    def heard(self) -> int:
        return int(self.page.evaluate("document.documentElement.dataset.heard ?? 0"))

    def row(self, kind: str, name: str) -> Any:
        """A tenant's or a model's row."""
        return self.page.locator(f"#{kind} tr").filter(has=self.page.get_by_text(name, exact=True))

    def value(self, kind: str, name: str, label: str) -> str:
        return str(self.row(kind, name).locator(f"td[data-label='{label}']").text_content())


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu", "--disable-sync"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A blank page; the server under test is all the network that there is."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route(lambda url: not url.startswith("http://127.0.0.1:"), lambda route: route.abort())
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def live() -> Iterator[LivePage]:
    made = LivePage(TENANTS, MODELS, slower=1.2, control_keys=[hash_of(KEY)])
    with load_on(made, RATE):
        yield made
    made.close()


@pytest.fixture
def seen(page: Page, live: LivePage) -> Seen:
    return Seen(page, live.url)


@pytest.fixture
def opened(page: Page) -> Iterator[Callable[..., Seen]]:
    """Opens the page of a service that is said by the test."""
    fronts = []

    def open_it(service: Any, figures: Any = None, **fields: Any) -> Seen:
        snapshots = Snapshots(shown_of(service, figures, **fields))
        front = serve_frontends(service, control=("127.0.0.1", 0), control_routes=routes_of(snapshots))
        fronts.append(front)
        return Seen(page, f"http://127.0.0.1:{front.control_port}/ui")

    yield open_it
    for front in fronts:
        front.close()


def test_a_server_under_load_is_shown(seen: Seen) -> None:
    page = seen.page
    seen.wait(3)
    expect(page.locator("h1")).to_have_text("shop")
    expect(page.locator("#lanes li b")).to_have_text(["lane-0", "lane-1"])
    names = page.locator("#tenants .name").all_text_contents()
    assert names == ["web", "flood", "tight", "batch", "anonymous"]
    assert page.locator("#models .name").all_text_contents() == ["camera", "keyword"]
    assert page.locator("#models .tag").all_text_contents() == ["READY", "READY"]

    assert int(seen.value("tenants", "flood", "Rejected")) > 0
    assert seen.value("tenants", "web", "Rejected") == "0"
    late = sum(int(seen.value("tenants", "tight", each)) for each in ("Late", "Shed", "Expired"))
    assert late > 0, "20 ms of work cannot be done in 12 ms"
    assert "below" in str(seen.row("tenants", "tight").get_attribute("class"))
    expect(page.locator("#connection")).to_have_text("Live, some below SLA")
    ratio = seen.value("models", "camera", "Actual / predicted")
    assert 1.0 <= float(ratio.split(" ")[0]) <= 4.0, ratio
    assert page.locator("#fact-attainment").text_content() != "–"

    assert seen.complaints == []
    assert {request.split("/ui")[0] for request in seen.requests} == {seen.url.removesuffix("/ui")}


def pixels(page: Page, tenant: str) -> int:
    """How many pixels of the timeline have a tenant's colour."""
    return int(
        page.evaluate(
            """async tenant => {
                const { colourOf } = await import("./ui/dom.js");
                const canvas = document.getElementById("timeline");
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const [r, g, b] = colourOf(tenant).slice(1).match(/../g).map((part) => parseInt(part, 16));
                const pixel = [r, g, b, 255];
                let found = 0;
                for (let at = 0; at < data.length; at += 4)
                    found += pixel.every((part, place) => data[at + place] === part);
                return found;
            }""",
            tenant,
        )
    )


def test_the_timeline_is_drawn_and_one_tenant_brought_out(seen: Seen) -> None:
    page = seen.page
    seen.wait(4)
    assert pixels(page, "web") > 0
    assert pixels(page, "tight") + pixels(page, "batch") > 0
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
    before = pixels(page, "web")
    seen.wait(3)
    assert pixels(page, "web") == before, "it stands still"

    page.locator("#legend").get_by_role("button", name="batch").click()
    assert pixels(page, "web") < before, "others are pale"
    page.locator("#legend").get_by_role("button", name="batch").click()
    assert pixels(page, "web") == before

    box = page.locator("#timeline").bounding_box()
    assert box is not None
    for at in range(0, int(box["width"]), 3):
        page.mouse.move(box["x"] + at, box["y"] + 20)
        if page.locator("#tip").is_visible():
            break
    expect(page.locator("#tip")).to_contain_text("ms")
    page.get_by_text("The latest blocks as a table").click()
    rows = page.locator("#blocks-rows tr")
    expect(rows.nth(10)).to_be_visible()
    expect(page.locator("#blocks-rows")).to_contain_text("keyword/1")
    page.get_by_role("button", name="Pause").click()
    seen.wait(2)
    assert [each for each in seen.complaints if "willReadFrequently" not in each] == [], "this test reads it"


def test_models_are_unloaded_and_loaded_with_a_key_that_nothing_keeps(seen: Seen) -> None:
    page = seen.page
    dialog = page.get_by_role("dialog")
    unload = page.get_by_role("button", name="Unload: keyword")

    unload.click()
    expect(dialog).to_contain_text("Unload keyword?")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(unload).to_be_focused()
    assert not any("unload" in request for request in seen.requests)

    unload.click()
    dialog.get_by_label("Control key").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("unknown API key")
    expect(seen.row("models", "keyword").locator(".tag")).to_have_text("READY")

    dialog.get_by_label("Control key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_have_text("keyword is unloaded.")
    expect(seen.row("models", "keyword").locator(".tag")).to_have_text("NOT LOADED")
    page.get_by_role("button", name="Load: keyword").click()
    expect(dialog.get_by_label("Control key")).to_be_hidden()
    dialog.get_by_role("button", name="Load").click()
    expect(page.locator("#outcome")).to_have_text("keyword is loaded.")
    expect(seen.row("models", "keyword").locator(".tag")).to_have_text("READY")

    kept = "JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie])"
    assert KEY not in page.evaluate(kept)
    assert KEY not in page.content()
    assert not any(KEY in request for request in seen.requests)
    page.get_by_role("button", name="Forget the key").click()
    page.get_by_role("button", name="Unload: keyword").click()
    expect(dialog.get_by_label("Control key")).to_be_visible()
    assert [each for each in seen.complaints if "401" not in each] == []


def test_a_lost_connection_is_told_and_comes_back(page: Page) -> None:
    made = LivePage(TENANTS, MODELS)
    try:
        seen = Seen(page, made.url)
        expect(page.locator("#lost")).to_be_hidden()
        port = made.front.control_port
        assert port is not None
        made.front.close()
        expect(page.locator("#lost")).to_contain_text("Connection lost at")
        expect(page.locator("#connection")).to_have_text("Connection lost")
        made.listen(port)
        expect(page.locator("#lost")).to_be_hidden(timeout=20_000)
        expect(page.locator("#connection")).to_have_text("Live")
        seen.wait(2)
    finally:
        made.close()


def test_a_server_that_is_empty_and_not_ready(opened: Callable[..., Seen]) -> None:
    seen = opened(service_of([], [], ready=lambda: False))
    expect(seen.page.locator("#connection")).to_have_text("Not ready: loading or ending")
    expect(seen.page.get_by_text("No tenants.")).to_be_visible()
    expect(seen.page.get_by_text("No models are loaded")).to_be_visible()
    expect(seen.page.get_by_text("Nothing ran in the last seconds.")).to_be_visible()
    expect(seen.page.get_by_text("No request ended in the last minute.")).to_be_visible()
    assert seen.complaints == []


def door_of(name: str) -> Any:
    settings = ServedTenant.model_construct(**{**ServedTenant(name="x").__dict__, "name": name})
    return SimpleNamespace(settings=settings, requests=1, bytes=10)


def test_hostile_names_are_shown_as_they_are(opened: Callable[..., Seen]) -> None:
    figures = Figures(1, lambda: 5.0, timeline := Timeline(NoLog()))
    figures.answered(Answered(HOSTILE, HOSTILE, "1", 0.1, 0.05, 0.0, 0.05, True))
    figures.add(LogRow(4.8, "progress", 1, HOSTILE, f"{HOSTILE}/1@0", 1, 0, 1, "serial", "0", 4.0))
    figures.add(LogRow(4.9, "start", 2, HOSTILE, f"{HOSTILE}/1@0", 2, 0, 1, "serial", "0"))
    index = [
        IndexEntry(HOSTILE, "1", ModelState.READY),
        IndexEntry("broken", "1", ModelState.UNAVAILABLE, HOSTILE),
    ]
    seen = opened(
        service_of([door_of(HOSTILE)], index), figures, timeline=timeline, name=HOSTILE, lanes=(HOSTILE,)
    )
    page = seen.page
    page.get_by_text("The latest blocks as a table").click()
    page.locator("#timeline").hover()
    page.get_by_role("button", name="Unload: ").first.click()

    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("#tenants .name").all_text_contents() == [HOSTILE]
    assert HOSTILE in page.locator("#models .name").all_text_contents()
    assert HOSTILE in page.locator("#models .reason").all_text_contents()
    assert page.locator("#lanes b").text_content() == HOSTILE
    expect(page.locator("#blocks-rows")).to_contain_text(HOSTILE)
    assert page.locator("#confirm-title").text_content() == f"Unload {HOSTILE}?"
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert seen.complaints == []


def test_scripts_from_elsewhere_do_not_run(seen: Seen) -> None:
    seen.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hacked = 1'>");
        }"""
    )
    seen.wait(1)
    assert seen.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)


def many(opened: Callable[..., Seen]) -> Seen:
    doors = [door_of(f"tenant-{at:02d}-with-a-long-name-that-does-not-end-soon") for at in range(20)]
    index = [IndexEntry(f"model-{at:02d}", "1", ModelState.READY) for at in range(50)]
    figures = Figures(16, lambda: 5.0)
    for door in doors:
        figures.answered(Answered(door.settings.name, "model-07", "1", 0.1, 0.05, 0.0, 0.05, True))
    lanes = tuple(f"lane{at}" for at in range(16))
    return opened(service_of(doors, index), figures, lanes=lanes)


def test_many_tenants_models_and_lanes_fit_a_phone(opened: Callable[..., Seen]) -> None:
    seen = many(opened)
    page = seen.page
    for width in (1280, 940, 700, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        hidden = page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((node) => {
                const box = node.getBoundingClientRect();
                return box.width && box.right > innerWidth + 1 && !node.closest("#legend, .scroll, svg");
            }).map((node) => node.outerHTML.slice(0, 80))"""
        )
        assert hidden == [], width
    assert page.locator("#tenants tr").count() == 20
    assert page.locator("#models tr").count() == 50
    page.get_by_label("Find").last.fill("07")
    assert page.locator("#models .name").all_text_contents() == ["model-07"]
    page.get_by_label("Find").last.fill("nobody")
    expect(page.get_by_text("No model of that name.")).to_be_visible()
    page.get_by_label("Order").select_option("queue")
    assert page.locator("#tenants tr").count() == 20
    assert seen.complaints == []


def test_rows_keep_the_focus_while_figures_change(seen: Seen) -> None:
    page = seen.page
    page.get_by_label("Order").select_option("rate")
    button = page.get_by_role("button", name="Load again: camera")
    button.focus()
    seen.wait(3)
    expect(button).to_be_focused()


def test_all_can_be_reached_and_is_named(seen: Seen) -> None:
    page = seen.page
    tree = page.locator("body").aria_snapshot()
    for part in (
        "banner",
        "main",
        "contentinfo",
        'heading "shop" [level=1]',
        'region "Lanes"',
        'table "Tenants"',
        'table "Models"',
        'columnheader "Rejected"',
        'rowheader "web 95 % within 500 ms"',
        'button "Unload: camera"',
        'combobox "Order"',
        "status",
    ):
        assert part in tree, f"{part} is not in\n{tree}"
    for live in ("#announce", "#outcome"):
        assert page.locator(live).get_attribute("role") == "status"
    reached = []
    while True:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline not in ("none", ""), page.evaluate("document.activeElement.outerHTML")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[0] == "Skip to the lanes"
    for wanted in ("span", "pause", "tenant-find", "tenant-order", "model-find", "Load again", "Unload"):
        assert wanted in reached, reached


CONTRAST = """() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (css) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = css;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => {
        const part = (v) => (v / 255 <= 0.04045 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const colour = rgba(getComputedStyle(at).backgroundColor);
            if (colour[3] > 250) return colour;
        }
        return [255, 255, 255, 255];
    };
    const poor = [];
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].filter((child) => child.nodeType === 3);
        const text = own.map((child) => child.data.trim()).join("");
        if (!text || !node.checkVisibility() || node.closest("noscript, option, :disabled")) continue;
        const style = getComputedStyle(node);
        const [one, other] = [light(rgba(style.color)), light(behind(node))].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const ratio = (one + 0.05) / (other + 0.05);
        if (ratio < (large ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${text.slice(0, 40)}`);
    }
    return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(seen: Seen, scheme: Any) -> None:
    page = seen.page
    page.emulate_media(color_scheme=scheme)
    page.locator("#legend button").first.click()
    seen.wait(2)
    assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="Unload: camera").click()
    page.evaluate("document.getElementById('confirm-error').textContent = 'an error'")
    assert page.evaluate(CONTRAST) == []
    page.keyboard.press("Escape")
    page.evaluate(
        """() => {
            document.body.classList.add("stale");
            Object.assign(document.getElementById("lost"), { hidden: false, textContent: "lost" });
            const outcome = document.getElementById("outcome");
            Object.assign(outcome, { className: "outcome bad", textContent: "bad" });
            document.querySelectorAll(".tag").forEach((tag, at) =>
                tag.setAttribute("data-state", ["UNAVAILABLE", "LOADING"][at % 2]));
            for (const state of ["bad", "warn"]) {
                const pill = document.getElementById("connection").cloneNode(true);
                pill.dataset.state = state;
                document.querySelector(".title").append(pill);
            }
        }"""
    )
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_by_itself_for_who_wants_it_still(page: Page, live: LivePage, motion: Any) -> None:
    page.emulate_media(reduced_motion=motion)
    page.add_init_script(
        """window.draws = 0;
        const clear = CanvasRenderingContext2D.prototype.clearRect;
        CanvasRenderingContext2D.prototype.clearRect = function (...box) {
            window.draws += 1;
            clear.apply(this, box);
        };"""
    )
    seen = Seen(page, live.url)
    seen.wait(2)
    draws, heard = page.evaluate("window.draws"), seen.heard
    seen.wait(3)
    more, moments = page.evaluate("window.draws") - draws, seen.heard - heard
    if motion == "reduce":
        assert 0 < more <= moments + 2
    else:
        assert more > moments + 2


def test_what_a_browser_keeps_open_is_little(page: Page, live: LivePage) -> None:
    """One stream, however long the page is open."""
    seen = Seen(page, live.url)
    seen.wait(4)
    assert sum("ui/events" in request for request in seen.requests) == 1
    assert not any("snapshot" in request for request in seen.requests)
