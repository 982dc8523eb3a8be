"""The dashboard's data: timeline, snapshots, the stream of them, and what the control port answers."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from fake_service import FakeService
from hypothesis import given
from hypothesis import strategies as st
from served_world import NOW, ServedWorld

from headway.config.serving import Serving
from headway.core.protocols import LogRow
from headway.serve.dashboard.routes import routes_of
from headway.serve.dashboard.snapshot import MOST_TENANTS, Shown, state_of
from headway.serve.dashboard.stream import MOST_VIEWERS, Snapshots
from headway.serve.dashboard.timeline import MERGED_S, MOST_WAITING, SPAN_S, Span, Timeline, merged
from headway.serve.event_log import NoLog
from headway.serve.figures import Figures
from headway.serve.frontends import serve_frontends
from headway.serve.keys import hash_of
from headway.serve.refusal import Refusal
from headway.serve.requests import WARM_UP
from headway.serve.service import InferenceRequest
from headway.testing import Rows
from headway.wiring.serving import Server


def row(event: str, time_s: float, **fields: Any) -> LogRow:
    return LogRow(time_s, event, **{"tenant": "a", "model": "m/1@f00", "run": 1, "cores": "0", **fields})


def block(start_s: float, end_s: float, first: int = 0, **fields: Any) -> LogRow:
    return row("progress", end_s, start_s=start_s, first_block=first, end_block=first + 1, **fields)


# --- timeline --------------------------------------------------------------------------------------


def test_blocks_are_kept_for_some_seconds() -> None:
    rows = Rows()
    timeline = Timeline(rows)
    given = [block(0.0, 0.1), block(5.0, 5.1, 1, cores="0+1"), row("reply", 5.1)]
    for each in given:
        timeline.add(each)
    assert list(rows) == given
    new, lost = timeline.take(6.0)
    assert new == [Span((0,), 0.0, 0.1, "a", "m/1", 0, 1, 1), Span((0, 1), 5.0, 5.1, "a", "m/1", 1, 2, 1)]
    assert (timeline.spans(), lost) == (new, 0)
    assert timeline.take(6.0) == ([], 0)
    timeline.take(0.2 + SPAN_S)
    assert timeline.spans() == new[1:]


def test_a_run_goes_on_until_it_ends() -> None:
    timeline = Timeline(NoLog())
    timeline.add(row("start", 1.0, expected_end_s=1.5))
    ((going),) = timeline.going()
    assert (going.since_s, going.expected_end_s, going.model) == (1.0, 1.5, "m/1")
    timeline.add(block(1.0, 1.2))
    assert [each.since_s for each in timeline.going()] == [1.2]
    timeline.add(row("stop", 1.3))
    assert timeline.going() == []


def test_the_latest_blocks_are_kept_if_nobody_looks() -> None:
    timeline = Timeline(NoLog())
    for at in range(MOST_WAITING + 7):
        timeline.add(block(float(at), at + 0.5, run=at))
    new, lost = timeline.take(0.0)
    assert (len(new), lost) == (MOST_WAITING, 7)
    assert new[-1].end_s == MOST_WAITING + 6.5


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(1e-4, 5e-3), st.floats(0.0, 1e-3)), max_size=40))
def test_merging_loses_neither_time_nor_blocks(given: list[tuple[int, float, float]]) -> None:
    ends, blocks, spans = [0.0] * 3, [0] * 3, []
    for run, took_s, pause_s in given:
        start_s = ends[run] + (pause_s if pause_s > 5e-4 else 0.0)
        ends[run] = start_s + took_s
        spans.append(Span((run,), start_s, ends[run], "a", "m/1", blocks[run], blocks[run] + 1, run))
        blocks[run] += 1
    result = merged(spans)
    assert sum(each.end_s - each.start_s for each in result) == pytest.approx(
        sum(took for _, took, _ in given)
    )
    assert sum(each.end - each.first for each in result) == len(given)
    assert [each.end_s for each in result] == sorted(each.end_s for each in result)
    for each in result:
        assert each.end - each.first == 1 or each.end_s - each.start_s <= MERGED_S


# --- snapshots -------------------------------------------------------------------------------------


def shown_of(world: ServedWorld, figures: Figures | None = None, timeline: Timeline | None = None) -> Shown:
    now = world.clock.now
    return Shown(
        "shop",
        "edf",
        ("lane0",),
        world.service,
        figures or Figures(1, now),
        timeline or Timeline(NoLog()),
        now,
        lambda key: 2,
        lambda: 3,
    )


def watched(world: ServedWorld) -> Shown:
    timeline = Timeline(world.rows)
    figures = Figures(1, world.clock.now, timeline)
    world.service.watch(figures.answered)
    world.live.engine.journal.sink = figures
    return shown_of(world, figures, timeline)


TENANTS = [
    {"name": "web", "sla": {"deadline": "20 ms", "percentile": 95}, "rate": "1 /s", "burst": 2},
    {"name": "batch", "class": "best-effort", "sla": {"isolated": 4}, "queue": {"requests": 7}},
    {"name": "other", "slas": {"short": {"deadline": "1 s"}, "long": {"deadline": "2 s"}}},
]


def test_what_is_told_of_tenants() -> None:
    world = ServedWorld(TENANTS)
    shown = watched(world)
    for at in range(3):
        world.infer(0.0, f"web {at}", "short", key="web")
    world.infer(0.0, "late", "long", key="batch", timeout_s=0.001)
    world.play(0.5)
    state = state_of(shown)
    web, batch, other, anonymous = state["tenants"]
    assert [web["sla"], batch["sla"], other["sla"], anonymous["sla"]] == [
        "95 % within 20 ms",
        "99 % within 4 times alone",
        "99 % within 1 s, 1 more by model",
        "",
    ]
    assert (web["attainment"], web["target"], web["counts"]["rejected"], web["strict"]) == (
        1.0,
        0.95,
        1,
        True,
    )
    assert (batch["counts"]["expired"], batch["attainment"], batch["queue_most"]) == (1, 0.0, 7)
    assert other["attainment"] is None
    assert state["all"]["due"] == 3
    assert state["all"]["counts"]["in_time"] == 2
    assert state["lanes"] == [{"name": "lane0", "busy": pytest.approx(0.008)}]
    assert (state["faults"], state["key_needed"]) == (3, False)
    assert not state["live"], "it has been played to its end"


def test_what_is_told_of_models() -> None:
    world = ServedWorld(TENANTS)
    shown = watched(world)
    world.installer.broken["long"] = "it is torn"
    world.at(0.1, lambda: world.models.unload("short").result())
    with pytest.raises(Refusal):
        world.models.load("long").result()
    world.play(0.5)
    by_name = {model["name"]: model for model in state_of(shown)["models"]}
    assert by_name["long"]["state"] == "READY", "the old one goes on"
    assert "torn" in by_name["long"]["reason"]
    assert (by_name["long"]["blocks"], by_name["long"]["tier"]) == (4, 2)
    assert by_name["long"]["alone_ms"] == pytest.approx(8.0)
    assert (by_name["short"]["state"], by_name["short"]["reason"]) == ("UNAVAILABLE", "not loaded")


def test_a_key_is_needed_where_there_are_control_keys() -> None:
    world = ServedWorld(TENANTS, control_keys=[hash_of("hw_k")])
    assert state_of(shown_of(world))["key_needed"]


def test_of_many_tenants_those_are_shown_to_whom_most_happens() -> None:
    world = ServedWorld([{"name": f"t{at:03d}"} for at in range(MOST_TENANTS + 5)])
    shown = watched(world)
    world.infer(0.0, "one", key=f"t{MOST_TENANTS + 2:03d}")
    world.play(0.5)
    state = state_of(shown)
    names = [tenant["name"] for tenant in state["tenants"]]
    assert len(names) == MOST_TENANTS
    assert names[-1] == f"t{MOST_TENANTS + 2:03d}"
    assert state["tenants_left_out"] == 6, "and one is anonymous"


# --- the stream ------------------------------------------------------------------------------------


def data_of(event: bytes) -> Any:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    return json.loads(event[6:])


async def first_of(events: Any) -> Any:
    assert (await anext(events)).startswith(b"retry: ")
    return data_of(await anext(events))


def test_all_viewers_share_one_snapshot_and_nobody_costs_none() -> None:
    snapshots = Snapshots(shown_of(ServedWorld(TENANTS)), every_s=3600.0)
    assert snapshots.made == 0

    async def look() -> list[Any]:
        streams = [snapshots.events() for _ in range(MOST_VIEWERS)]
        moments = await asyncio.gather(*(first_of(stream) for stream in streams))
        with pytest.raises(Refusal):
            snapshots.require_room()
        for stream in streams:
            await stream.aclose()
        snapshots.require_room()
        return moments

    moments = asyncio.run(look())
    assert snapshots.made == 1
    assert all(moment == moments[0] for moment in moments)


def test_only_those_who_missed_nothing_are_sent_new_blocks_alone() -> None:
    timeline = Timeline(NoLog())
    snapshots = Snapshots(shown_of(ServedWorld(TENANTS), timeline=timeline), every_s=0.0)

    async def look() -> list[Any]:
        timeline.add(block(-0.2, -0.1))
        stream = snapshots.events()
        moments = [await first_of(stream)]
        timeline.add(block(-0.1, -0.05, 1))
        moments.append(data_of(await anext(stream)))
        await snapshots.latest()  # another one comes between
        moments.append(data_of(await anext(stream)))
        await stream.aclose()
        return moments

    whole, following, again = asyncio.run(look())
    assert [whole["whole"], following["whole"], again["whole"]] == [True, False, True]
    assert whole["names"] == ["a", "m/1"]
    assert whole["spans"] == [[[0], -0.2, -0.1, 0, 1, 0, 1]]
    assert following["spans"] == [[[0], -0.1, -0.05, 0, 1, 1, 2]]
    assert again["spans"] == whole["spans"] + following["spans"]
    assert [whole["number"], following["number"], again["number"]] == [1, 2, 4]


# --- the port --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    routes = routes_of(Snapshots(shown_of(ServedWorld(TENANTS))))
    here = ("127.0.0.1", 0)
    with serve_frontends(FakeService(), http=here, control=("localhost", 0), control_routes=routes) as front:
        assert front.control_port is not None
        yield front.control_port
        assert front.http_port is not None
        assert get(front.http_port, "/ui")[0] == 404, "the data port has no page"


def get(port: int, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/ui", "/ui/main.js", "/ui/dashboard.css", "/ui/icon.svg", "/ui/snapshot"])
def test_everything_of_the_page_forbids_what_it_does_not_need(port: int, path: str) -> None:
    status, headers, body = get(port, path)
    assert (status, headers["x-content-type-options"]) == (200, "nosniff")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert len(body) > 200


def test_the_page_holds_no_script_and_no_style_of_its_own(port: int) -> None:
    text = get(port, "/ui")[2].decode()
    assert text.count("<script") == text.count('<script type="module" src="ui/main.js"></script>') == 1
    assert "<style" not in text
    assert " style=" not in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/..%2froutes.py", "/ui/__init__.py", "/ui/a/b"])
def test_there_are_no_other_files(port: int, path: str) -> None:
    status, _, body = get(port, path)
    assert status == 404
    assert "error" in json.loads(body)


def test_a_slash_too_many_leads_to_the_page(port: int) -> None:
    status, headers, _ = get(port, "/ui/")
    assert (status, headers["location"]) == (307, "../ui")


def test_the_snapshot_is_json(port: int) -> None:
    _, headers, body = get(port, "/ui/snapshot")
    assert headers["content-type"] == "application/json"
    assert {tenant["name"] for tenant in json.loads(body)["tenants"]} == {
        "web",
        "batch",
        "other",
        "anonymous",
    }


def test_as_many_pages_as_may_be_open_and_those_that_close_make_room() -> None:
    snapshots = Snapshots(shown_of(ServedWorld(TENANTS)), every_s=0.05)
    with serve_frontends(
        FakeService(), control=("localhost", 0), control_routes=routes_of(snapshots)
    ) as front:
        assert front.control_port is not None
        sockets = [socket.create_connection(("localhost", front.control_port)) for _ in range(MOST_VIEWERS)]
        for each in sockets:
            each.sendall(b"GET /ui/events HTTP/1.1\r\nHost: x\r\n\r\n")
            each.settimeout(20)
            assert each.recv(12) == b"HTTP/1.1 200"
        status, _, body = get(front.control_port, "/ui/events")
        assert status == 503
        assert "32 pages are open" in json.loads(body)["error"]
        for each in sockets:
            each.close()
        until_s = time.monotonic() + 20
        while snapshots.viewers and time.monotonic() < until_s:
            time.sleep(0.02)
        assert snapshots.viewers == 0


def test_an_open_page_does_not_hold_up_the_end_and_its_stream_is_whole() -> None:
    snapshots = Snapshots(shown_of(ServedWorld(TENANTS)), every_s=60.0)
    front = serve_frontends(FakeService(), control=("localhost", 0), control_routes=routes_of(snapshots))
    assert front.control_port is not None
    connection = http.client.HTTPConnection("127.0.0.1", front.control_port, timeout=30)
    connection.request("GET", "/ui/events")
    stream = connection.getresponse()
    assert stream.readline().startswith(b"retry:")
    front.close(drain_s=20.0)
    stream.read()  # one that is cut off raises IncompleteRead
    connection.close()


@pytest.mark.slow
def test_a_server_over_onnx_runtime_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    tiny_models.put(tmp_path / "models", "lookup", 3, tiny_models.lookup())
    lane = {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}}
    data = {"name": "real", "hardware": lane, "repository": {"path": "models"}, "policy": "edf"}
    server = Server(Serving.from_mapping(data, tmp_path), lambda words: None)
    try:
        assert server.load() == []
        answered = threading.Event()
        inputs = {"ids": np.zeros(tiny_models.IDS, np.int64)}
        request = InferenceRequest("lookup", "", inputs, (), "", None, NOW)
        server.service.submit(request, lambda answer: answered.set())
        assert answered.wait(30)
        assert server.close(10.0)  # which hands on the log's last rows
        state = state_of(shown := server.shown())
        new, _ = shown.timeline.take(shown.now())
    finally:
        server.close(0.0)
    (model,) = state["models"]
    assert (state["name"], state["policy"], state["faults"]) == ("real", "edf", 0)
    assert (model["name"], model["version"], model["counts"]["in_time"]) == ("lookup", "3", 1)
    assert model["tier"] in (0, 1), "what runs by itself overlaps with nothing"
    assert {(span.tenant, span.model) for span in new} == {(WARM_UP, "lookup/3"), ("anonymous", "lookup/3")}
    assert all(span.end_s > span.start_s for span in new)
