"""The systems that are compared: how each is started, asked, halted while others are measured, and ended."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from noise import family
from tenants import TENANTS, Models
from ways import Answer, Headers, Outcome, Way

HERE = Path(__file__).parent
_READY_S = 240.0
_FIRST_PORT, _LAST_PORT = 18100, 32000
_END_S = 20.0


class System:
    """What all have in common. `told_sla` says whether the system hears of SLAs at all."""

    told_sla = False

    def __init__(self, name: str, label: str) -> None:
        self.name, self.label = name, label

    def start(self, models: Models) -> None:
        """Begin to start; raises OSError or subprocess.SubprocessError where it cannot be installed."""
        raise NotImplementedError

    async def wait_until_ready(self) -> None:
        """Until all models answer; raises RuntimeError if they never do."""

    async def connect(self) -> None:
        """Open connections."""

    def disconnect(self) -> None:
        """Close them: some servers close idle ones, also while they are halted."""

    async def ask(self, tenant: str, deadline_s: float, sla: float | None) -> Answer:
        """One request; `deadline_s` is what is left of its SLA, `sla` that SLA's multiple.

        Raises OSError where there is no answer.
        """
        raise NotImplementedError

    def processes(self) -> list[int]:
        """Ids of processes that it started."""
        return []

    def halt(self) -> None:
        """Take no processor time until `go_on`."""

    def go_on(self) -> None:
        """End of `halt`."""

    def end(self) -> None:
        """Stop for good."""


class Bare(System):
    """ONNX Runtime in this process: one queue for all models, first in first out, and some workers."""

    def __init__(self, workers: int, threads: int) -> None:
        super().__init__(
            f"bare-{workers}x{threads}",
            f"bare ONNX Runtime in process, first in first out, {workers} worker(s) of {threads} thread(s)",
        )
        self._workers, self._threads = workers, threads
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: list[threading.Thread] = []

    def start(self, models: Models) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        for _ in range(self._workers):
            sessions = {
                name: onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
                for name, content in models.contents.items()
            }
            thread = threading.Thread(target=self._work, args=(sessions, models.inputs), daemon=True)
            thread.start()
            self._running.append(thread)

    def _work(self, sessions: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]]) -> None:
        while (call := self._calls.get()) is not None:
            tenant, loop, answer = call
            (output,) = sessions[tenant].run([TENANTS[tenant].output], inputs[tenant])
            loop.call_soon_threadsafe(_set_if_awaited, answer, output)

    async def ask(self, tenant: str, deadline_s: float, sla: float | None) -> Answer:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._calls.put((tenant, loop, answer))
        return Answer(Outcome.DONE, await answer)

    def end(self) -> None:
        for _ in self._running:
            self._calls.put(None)
        for thread in self._running:
            thread.join()


def _set_if_awaited(answer: asyncio.Future[Any], output: Any) -> None:
    if not answer.done():
        answer.set_result(output)


class Served(System):
    """A server in processes of its own, a program of `servers` in an environment of its own."""

    def __init__(
        self, name: str, label: str, way: Way, environment: str = "", server: str = "", ports: int = 1
    ) -> None:
        super().__init__(name, label)
        self._way, self._environment, self._server, self.ports = way, environment, server, ports
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def start(self, models: Models) -> None:
        self.models = models
        self.port = free_ports(self.ports)
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        command = self._command(folder)
        variables = {
            "BENCH_MODELS": str(models.folder),
            "BENCH_PORT": str(self.port),
            "PYTHONPATH": str(HERE / "servers"),
            **self._variables(folder),
        }
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, folder: Path) -> Sequence[str | Path]:
        from environments import program

        return [program(self._environment), HERE / "servers" / self._server]

    def _variables(self, folder: Path) -> dict[str, str]:
        return {}

    async def wait_until_ready(self) -> None:
        """Until all models answer; raises RuntimeError with the end of the server's log."""
        until_s = time.monotonic() + _READY_S
        last: object = "nothing was asked"
        while time.monotonic() < until_s:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self._log_end()}")
            try:
                await self.connect()
                answers = [await asyncio.wait_for(self.ask(name, 60.0, None), 20.0) for name in TENANTS]
                wrong = [answer.words for answer in answers if answer.outcome is not Outcome.DONE]
                if not wrong:
                    return
                last = wrong[0]
            except (OSError, TimeoutError) as error:
                last = error
            await asyncio.sleep(0.5)
        raise RuntimeError(f"{self.name} does not answer: {last!r}; {self._log_end()}")

    def _log_end(self) -> str:
        assert self._scratch is not None
        return (Path(self._scratch.name) / "log").read_text(errors="replace")[-2000:]

    async def connect(self) -> None:
        await self._way.connect(self.port, self.models)

    def disconnect(self) -> None:
        self._way.disconnect()

    async def ask(self, tenant: str, deadline_s: float, sla: float | None) -> Answer:
        return await self._way.ask(tenant, self._headers(tenant, deadline_s, sla))

    def _headers(self, tenant: str, deadline_s: float, sla: float | None) -> Headers:
        return ()

    def processes(self) -> list[int]:
        return [self._process.pid] if self._process is not None else []

    def halt(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        for process in family(self.processes()):
            try:
                process.send_signal(which)
            except psutil.Error:
                continue

    def end(self) -> None:
        if self._process is None:
            return
        members = family(self.processes())
        self.go_on()
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in psutil.wait_procs(members, timeout=3.0)[1]:  # what it left behind
            try:
                process.kill()
            except psutil.Error:
                continue
        self._process = None
        assert self._scratch is not None
        self._scratch.cleanup()


class Ray(Served):
    """Halted for long, Ray would take its parts for dead."""

    def _variables(self, folder: Path) -> dict[str, str]:
        return {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_failure_threshold": "100000",
            "RAY_health_check_timeout_ms": "100000000",
        }


class MlServer(Served):
    """MLServer takes raw tensors by gRPC only."""

    def _command(self, folder: Path) -> Sequence[str | Path]:
        from environments import program

        settings = {
            "host": "127.0.0.1",
            "http_port": self.port,
            "grpc_port": self.port + 1,
            "metrics_port": self.port + 2,
            "parallel_workers": 2,
            "debug": False,
            "grpc_max_message_length": 1 << 26,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        for name in TENANTS:
            (folder / name).mkdir()
            own = {"name": name, "implementation": "mlserver_model.OnnxModel"}
            (folder / name / "model-settings.json").write_text(json.dumps(own))
        return [program(self._environment, "mlserver"), "start", "."]


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody uses now, below those of outgoing connections."""
    for first in range(_FIRST_PORT, _LAST_PORT, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise OSError(f"no {count} free ports in a row between {_FIRST_PORT} and {_LAST_PORT}")
