"""`headway serve` as a process: start, signals, a new configuration, exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import yaml

from headway.serve.keys import hash_of, new_key

LIMIT_S = 60.0
KEY, CONTROL = new_key(), new_key()
CONFIG = {
    "hardware": {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}},
    "listen": {"http": 0, "grpc": None, "control": 0},
    "drain": "20 s",
    "control_keys": [hash_of(CONTROL)],
    "models": [{"name": "lookup", "model": "lookup.onnx"}, {"name": "spin", "model": "spin.onnx"}],
    "tenants": [{"name": "a", "keys": [hash_of(KEY)]}],
}


class Serving:
    """A server that runs; `lines` are what it said."""

    def __init__(self, folder: Path, *arguments: str, config: dict[str, Any] | None = None) -> None:
        self.file = folder / "serve.yaml"
        if config is not None:
            self.file.write_text(yaml.safe_dump(config))
            arguments = (str(self.file), *arguments)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from headway.cli import main; main()", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "HEADWAY_CACHE": str(folder / "cache")},
            cwd=folder,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    def wait_for(self, pattern: str) -> str:
        """The first line that matches."""
        until_s = time.monotonic() + LIMIT_S
        while time.monotonic() < until_s:
            for line in list(self.lines):
                if re.search(pattern, line):
                    return line
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.01)
        raise AssertionError(f"no line matches {pattern!r} among {self.lines}")

    def ask(self, path: str, body: Any = None, *, control: bool = False, key: str = KEY) -> tuple[int, Any]:
        line = self.wait_for("^control: " if control else "^http: ")
        request = urllib.request.Request(
            line.split(": ", 1)[1] + path,
            None if body is None else json.dumps(body).encode(),
            {"X-API-Key": key, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def lookup(self, **more: Any) -> tuple[int, Any]:
        inputs = [{"name": "ids", "shape": [4], "datatype": "INT64", "data": [1, 2, 3, 4]}]
        return self.ask("/v2/models/lookup/infer", {"inputs": inputs}, **more)

    def spin(self, rounds: int) -> threading.Thread:
        """Keep the lane busy, from a thread of its own."""
        inputs = [{"name": "n", "shape": [1], "datatype": "INT64", "data": [rounds]}]
        thread = threading.Thread(target=self.ask, args=("/v2/models/spin/infer", {"inputs": inputs}))
        thread.start()
        return thread

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        return self.process.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    for name, model in (("lookup", tiny_models.lookup()), ("spin", tiny_models.spin())):
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    return folder


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    made = Serving(folder, config=CONFIG)
    yield made
    made.end()


@pytest.mark.slow
def test_a_server_serves_takes_a_new_configuration_and_drains(serving: Serving) -> None:
    serving.wait_for("^http: ")
    assert serving.ask("/v2/health/live")[0] == 200
    serving.wait_for("^ready$")
    assert serving.ask("/v2/health/ready")[0] == 200
    status, answer = serving.lookup()
    assert status == 200
    assert answer["outputs"][0]["data"] == [float(x) for x in tiny_models.expected(_ids())]
    assert serving.lookup(key="wrong")[0] == 401

    other = new_key()
    changed = {**CONFIG, "tenants": [{"name": "b", "keys": [hash_of(other)], "rate": "1 /h", "burst": 1}]}
    serving.file.write_text(yaml.safe_dump(changed))
    serving.process.send_signal(signal.SIGHUP)
    serving.wait_for("^configuration reloaded$")
    assert serving.lookup()[0] == 401
    assert serving.lookup(key=other)[0] == 200
    assert serving.lookup(key=other)[0] == 429

    serving.file.write_text("models: nonsense\n")
    serving.process.send_signal(signal.SIGHUP)
    serving.wait_for("^configuration not reloaded: ")
    assert serving.ask("/v2/headway/reload", {}, control=True)[0] == 401
    status, answer = serving.ask("/v2/headway/reload", {}, control=True, key=CONTROL)
    assert status == 409
    assert "models" in answer["error"]
    serving.file.write_text(yaml.safe_dump(CONFIG))
    assert serving.ask("/v2/headway/reload", {}, control=True, key=CONTROL) == (200, {})
    assert serving.lookup()[0] == 200

    busy = serving.spin(3_000_000)
    _wait_until_busy(serving)
    serving.process.send_signal(signal.SIGTERM)
    serving.wait_for("^draining")
    assert serving.process.wait(LIMIT_S) == 0
    busy.join()


@pytest.mark.slow
def test_a_signal_while_models_are_loaded_ends_the_server(folder: Path) -> None:
    serving = Serving(folder, config={**CONFIG, "models": [{"name": "m", "model": "resnet18"}]})
    try:
        serving.wait_for("^loading m")
        time.sleep(0.5)
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(20) == 0
        assert not [line for line in serving.lines if "Traceback" in line]
    finally:
        serving.end()


@pytest.mark.slow
def test_a_second_signal_ends_at_once(serving: Serving) -> None:
    serving.wait_for("^ready$")
    busy = serving.spin(10**12)
    _wait_until_busy(serving)
    serving.process.send_signal(signal.SIGTERM)
    serving.wait_for("^draining")
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(LIMIT_S) == 130
    busy.join()


@pytest.mark.slow
def test_what_takes_longer_than_the_limit_is_given_up(folder: Path) -> None:
    serving = Serving(folder, config={**CONFIG, "drain": "200 ms"})
    try:
        serving.wait_for("^ready$")
        busy = serving.spin(10**12)
        _wait_until_busy(serving)
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(LIMIT_S) == 1
        busy.join()
    finally:
        serving.end()


@pytest.mark.slow
def test_models_named_on_the_command_line(folder: Path) -> None:
    ports = ("--http-port", "0", "--grpc-port", "-1", "--control-port", "-1")
    serving = Serving(folder, "--model", "lookup=lookup.onnx", "--sla", "lookup=1us", *ports)
    try:
        serving.wait_for("no tenant has a key")
        serving.wait_for("^ready$")
        status, answer = serving.lookup(key="")
        assert status in (429, 504)
        assert "late" in answer["error"] or "time" in answer["error"]
    finally:
        serving.process.send_signal(signal.SIGINT)
        assert serving.process.wait(LIMIT_S) == 0
        serving.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "a=none.onnx"), r"error: headway serve: models\[0\].model: no file none.onnx"),
        (("--model", "lookup"), "error: --model: found 'lookup'; accepted: NAME=VALUE"),
        (("--model", "a=lookup.onnx", "--sla", "a=5"), r"tenants\[0\].slas.a.deadline: found '5'"),
        (("--model", "a=lookup.onnx", "--policy", "moca"), "moca|Moca"),
        ((), "neither models nor a repository"),
    ],
)
def test_mistakes_end_with_two(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    serving = Serving(folder, *arguments)
    try:
        assert serving.process.wait(LIMIT_S) == 2
        serving.wait_for(words)
    finally:
        serving.end()


def _ids() -> Any:
    import numpy as np

    return np.array([1, 2, 3, 4])


def _wait_until_busy(serving: Serving) -> None:
    """Until the server has had time to begin what was asked."""
    time.sleep(1.0)
