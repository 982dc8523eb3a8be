"""`headway top`: what is shown of a server's figures, and what is said when there are none."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from headway.cli import app as cli
from headway.cli.top import SNAPSHOT_PATH, screen

LIMIT_S = 30.0


def counts(**some: int) -> dict[str, int]:
    names = ("in_time", "late", "shed", "expired", "failed", "rejected", "invalid", "cancelled")
    return {name: some.get(name, 0) for name in names}


def snapshot(**changes: Any) -> dict[str, Any]:
    tenant = {
        "name": "web",
        "strict": True,
        "sla": "99 % within 60 ms",
        "target": 0.99,
        "queue": 3,
        "attainment": 0.875,
        "counts": counts(in_time=70, late=4, expired=3, shed=2, failed=1, rejected=5),
        "per_s": 12.5,
        "p50_ms": 4.321,
        "p99_ms": 55.55,
    }
    idle = {
        **tenant,
        "name": "idle",
        "strict": False,
        "sla": "",
        "target": None,
        "attainment": None,
        "counts": counts(),
        "p50_ms": None,
        "p99_ms": None,
        "queue": 0,
        "per_s": 0.0,
    }
    model = {
        "name": "camera",
        "version": "2",
        "state": "READY",
        "tier": 2,
        "alone_ms": 2.5,
        "p50_ms": 4.0,
        "p99_ms": 1234.5,
        "per_s": 12.5,
        "ratio": {"runs": 9, "low": 0.9, "middle": 1.02, "high": 1.5},
    }
    gone = {**model, "name": "gone", "version": "", "state": "UNAVAILABLE", "tier": None, "ratio": None}
    return {
        "name": "shop",
        "policy": "headway",
        "live": True,
        "ready": True,
        "faults": 0,
        "window_s": 60.0,
        "all": {"attainment": 0.875, "per_s": 12.5, "queue": 3},
        "lanes": [{"name": "lane-0", "busy": 0.5}, {"name": "lane-1", "busy": 0.0}],
        "tenants": [tenant, idle],
        "tenants_left_out": 0,
        "models": [model, gone],
        "models_left_out": 0,
        "spans": ["for the page"],
        **changes,
    }


class Server(ThreadingHTTPServer):
    """Answers with `answer`, or, if that is None, not at all."""

    daemon_threads = True
    answer: bytes | None = b""
    status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.server.answer is None:
            self.close_connection = True
            return
        self.send_response(self.server.status if self.path == SNAPSHOT_PATH else 404)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.answer = json.dumps(snapshot()).encode()
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["top", *arguments])
    return stop.value.code


def shown(data: dict[str, Any], lost: str = "", width: int = 120) -> list[str]:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(screen(data, lost))
    return console.export_text().splitlines()


def line(lines: list[str], start: str) -> list[str]:
    (found,) = [line for line in lines if line.strip().startswith(start)]
    return found.split()


def test_tenants_lanes_and_models_are_shown() -> None:
    lines = shown(snapshot())
    assert "shop  ready  policy headway  SLA met 87.5 %" in lines[0]
    expected = "web 99 % within 60 ms 87.5 % 4.32 55.5 12.5 3 7 2 5 1"
    assert line(lines, "web") == expected.split()
    assert line(lines, "idle") == ["idle", "(best", "effort)", "-", "0.0", *"00000"]
    assert line(lines, "lane-0")[-2:] == ["50.0", "%"]
    assert line(lines, "lane-0")[1].count("█") == 12
    expected = "camera/2 ready C2 2.50 4.00 1234 12.5 1.02 (0.90 to 1.50)"
    assert line(lines, "camera/2") == expected.split()
    assert line(lines, "gone")[:2] == ["gone", "unavailable"]


def test_what_is_wrong_is_said() -> None:
    lines = "\n".join(shown(snapshot(ready=False, faults=3), "it went away"))
    assert "not ready" in lines
    assert "the policy failed 3 times" in lines
    assert "connection lost: it went away" in lines
    assert "ended by a defect" in "\n".join(shown(snapshot(ready=False, live=False)))
    assert "7 more tenants" in "\n".join(shown(snapshot(tenants_left_out=7)))


def test_names_cannot_write_to_the_terminal() -> None:
    data = snapshot()
    data["tenants"][0]["name"] = "\x1b[2J[bold]x[/bold]"
    console = Console(width=200, file=(out := StringIO()), force_terminal=True, color_system=None)
    console.print(screen(data))
    assert "\x1b[2J" not in out.getvalue()
    assert "[bold]x[/bold]" in out.getvalue(), "it is no markup"


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (80, "tenant SLA met p50 ms p99 ms req/s queue late"),
        (40, "tenant met p99 ms queue"),
    ],
)
def test_a_narrow_terminal_shows_what_matters_most_and_all_of_it(width: int, headers: str) -> None:
    data = snapshot()
    data["tenants"][0]["name"] = "a-tenant"
    lines = shown(data, width=width)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    assert line(lines, "tenant") == headers.split()
    assert "87.5 %" in " ".join(line(lines, "a-tenant"))
    assert line(lines, "model")[:2] == ["model", "state"]
    assert line(lines, "camera/2")[1] == "ready"


def test_only_names_are_cut_where_nothing_else_fits() -> None:
    data = snapshot()
    data["tenants"][0]["name"] = "a-tenant-with-a-name-that-is-too-long-for-this"
    lines = shown(data, width=40)
    assert max(map(len, lines)) <= 40
    assert line(lines, "a-tenant")[0].endswith("…")
    assert "87.5 %" in " ".join(line(lines, "a-tenant"))


def test_once_prints_it_once(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server.url + "/", "--once") == 0
    assert capsys.readouterr().out.count("policy headway") == 1


def test_json_is_the_figures_alone(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server.url.removeprefix("http://"), "--once", "--json") == 0
    (text,) = capsys.readouterr().out.splitlines()
    expected = snapshot()
    del expected["spans"]
    assert json.loads(text) == expected


@pytest.mark.parametrize(
    ("answer", "status", "cause"),
    [
        (b"{}", 200, "something else than figures"),
        (b"no json", 200, "something else than figures"),
        (b"[]", 200, "something else than figures"),
        (b"", 404, "answers 404"),
        (None, 200, "cannot be reached"),
    ],
)
def test_another_server_is_said(
    server: Server, answer: bytes | None, status: int, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer, server.status = answer, status
    assert run(server.url, "--once") == 2
    error = capsys.readouterr().err
    assert cause in error
    assert "accepted: the control port's address" in error


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://127.0.0.1:1", "http://[::", "http://a b"])
def test_no_server_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(url, "--once") == 2
    assert url in capsys.readouterr().err


def test_it_goes_on_in_a_terminal_and_survives_a_lost_server(server: Server) -> None:
    """A pseudo terminal of 120 columns; Ctrl-C ends it quietly."""
    own, its = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from headway.cli import main; main()"),
            *("top", server.url, "--every", "0.2"),
        ],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"},
    )
    os.close(its)
    try:
        text = read_until(own, "", "87.5")
        server.answer = json.dumps(snapshot(name="changed")).encode()
        text = read_until(own, text, "changed")
        server.answer = None
        text = read_until(own, text, "connection lost")
        server.answer = json.dumps(snapshot(name="back again")).encode()
        read_until(own, text, "back again")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in drain(own, process)
        assert process.wait(LIMIT_S) == 130
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(own)


def read_until(descriptor: int, text: str, wanted: str) -> str:
    until_s = time.monotonic() + LIMIT_S
    while wanted not in text and time.monotonic() < until_s:
        if select.select([descriptor], [], [], 0.1)[0]:
            text += os.read(descriptor, 1 << 16).decode(errors="replace")
    assert wanted in text
    return text


def drain(descriptor: int, process: subprocess.Popen[bytes]) -> str:
    """What a program still writes: it could not end before."""
    text = ""
    until_s = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < until_s:
        try:
            if select.select([descriptor], [], [], 0.1)[0]:
                text += os.read(descriptor, 1 << 16).decode(errors="replace")
        except OSError:  # it has closed its side
            break
    return text
