"""The process in which lanes live under `isolation: process`: an executor at the other end of a pipe."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from headway.core.errors import HeadwayError
from headway.core.messages import Event
from headway.core.protocols import Executor
from headway.core.request import Request
from headway.core.run import Run
from headway.live.executors.tensors import TensorReader, TensorWriter, Ticket
from headway.live.thread_ranks import answering_soon


class SharedClock:
    """The driver's time in another process of the same machine."""

    def __init__(self, origin_s: float) -> None:
        self._origin_s = origin_s

    def now(self) -> float:
        """Seconds since the driver's start."""
        return perf_counter() - self._origin_s


class Child:
    """Carries out what arrives on a pipe and sends back what happens."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._tickets: dict[int, Ticket] = {}
        make, folder, generation, brings_inputs, wants_results = connection.recv()
        self._folder = folder
        self._reader = TensorReader(Path(folder))
        self._writer = TensorWriter(Path(folder), f"results-{generation}")
        self._writing = threading.Lock()
        try:
            self._executor: Executor = make(
                self._inputs if brings_inputs else None, self._on_result if wants_results else None
            )
        except HeadwayError as error:
            self._send("ready", str(error))
            raise SystemExit(0) from None
        self._send("ready", None)

    def serve(self) -> None:
        """Until the other end closes."""
        runs: dict[int, Run] = {}
        executor = self._executor
        try:
            while True:
                kind, *content = self._connection.recv()
                if kind == "start":
                    run, tickets = content
                    runs = {id: known for id, known in runs.items() if known.cores[0] != run.cores[0]}
                    runs[run.id] = run
                    for id, ticket in tickets.items():
                        if ticket is not None:
                            self._tickets[id] = ticket
                    executor.start(run)
                elif kind == "stop":
                    run_id, how = content
                    if run_id in runs:
                        executor.stop(runs[run_id], how)
                elif kind == "release":
                    (request,) = content
                    for run in runs.values():
                        _part(run, request)
                    executor.release(request)
                    self._tickets.pop(request.id, None)
                elif kind == "free":
                    with self._writing:
                        self._writer.free(content[0])
                elif kind == "prepare":
                    self._prepare(*content)
                elif kind in ("admit", "retire"):
                    getattr(executor, kind)(*content)
                elif kind == "connect":
                    executor.connect(self._post, SharedClock(content[0]))
        except (EOFError, OSError):
            pass
        finally:
            executor.close()
            if not self._is_heard():  # whoever would remove it was killed
                shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self, ask: int, *arguments: Any) -> None:
        try:
            self._executor.prepare(*arguments)
        except HeadwayError as error:
            self._send("prepared", ask, str(error))
        else:
            self._send("prepared", ask, None)

    def _inputs(self, request: Request) -> Mapping[str, Any]:
        return self._reader.read(self._tickets[request.id])

    def _on_result(self, request: Request, results: Mapping[str, Any]) -> None:
        with self._writing:
            ticket = self._writer.write(results)
        self._send("result", request.id, ticket)

    def _post(self, event: Event) -> None:
        self._send("event", event)

    def _is_heard(self) -> bool:
        """Whether the other end only has no more to say. One that died hears nothing either; that it is no
        longer the parent shows only a moment after its end of the pipe has closed."""
        try:
            self._send("bye")
        except OSError:
            return False
        return True

    def _send(self, *message: Any) -> None:
        with self._sending:
            self._connection.send(message)


def _part(run: Run, released: Request) -> None:
    """A member of a batch is given up while the others go on."""
    if len(run.requests) > 1 and any(request.id == released.id for request in run.requests):
        run.requests = tuple([request for request in run.requests if request.id != released.id])


def main() -> None:
    """Serve the pipe whose descriptor is the program's argument."""
    with answering_soon():
        Child(Connection(int(sys.argv[1]))).serve()
