"""Lanes in a process of their own: whatever kills it costs the requests in flight, nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.messages import Event, Failed, Finish, SafePoint
from headway.core.protocols import Clock
from headway.core.request import Request
from headway.core.run import How, Run
from headway.live.executors.makers import Make
from headway.live.executors.onnxruntime import TIMEOUT_S, InputSource, OnResult
from headway.live.executors.tensors import TensorReader, TensorWriter, Ticket, shared_folder
from headway.live.thread_ranks import answering_soon

if TYPE_CHECKING:
    from headway.models.chain import SplitModel

MOST_FAILED_STARTS: Final = 3
HANG_S: Final = 3 * TIMEOUT_S
"""Time enough for a block to be terminated there; a kernel that does not heed it ends with its process."""

_PROGRAM: Final = "from headway.live.executors.child import main; main()"
_BROKEN: Final = "the lanes' process does not start any more"
_CLOSE_WAIT_S: Final = 5.0
_CHECKS_PER_HANG: Final = 8


class ProcessExecutor:
    """An executor that hands everything to one in a child process and restarts it when it dies.

    A death fails the runs in flight with its cause. Requests that wait between two runs have lost what their
    blocks made and fail when they go on; all others are not concerned. Messages go through a pipe, tensors
    through shared memory.

    Args:
        make: makes the executor there.
        inputs: of each request; None if the executor there has its own.
        on_result: takes outputs, on a thread of this executor's.
        hang_s: a run of which nothing is heard for so long has its process ended; None waits for ever.

    Raises:
        HeadwayError: as the executor there, or its process does not start.
    """

    def __init__(
        self,
        make: Make,
        *,
        inputs: InputSource | None = None,
        on_result: OnResult | None = None,
        hang_s: float | None = HANG_S,
    ) -> None:
        self._make = make
        self._inputs = inputs
        self._on_result = on_result
        self._folder = tempfile.TemporaryDirectory(prefix="headway-", dir=shared_folder())
        self._writer = TensorWriter(Path(self._folder.name), "inputs")
        self._reader = TensorReader(Path(self._folder.name))
        self._lock = threading.RLock()
        self._post: Callable[[Event], None] = lambda event: None
        self._origin_s: float | None = None
        self._admitted: dict[str, SplitModel] = {}
        self._prepared: list[tuple[str, tuple[Core, ...], int]] = []
        self._asked: dict[int, SimpleQueue[str | None]] = {}
        self._asks = 0
        self._in_flight: dict[int, tuple[Run, float]] = {}  # with when it was heard of last
        self._requests: dict[int, tuple[Request, Ticket | None]] = {}
        self._closing = threading.Event()
        self._generation = 0
        self._failed_starts = 0
        self._to_come_up = 0
        self._hung = ""
        self.deaths = 0
        self._ready: SimpleQueue[str | None] = SimpleQueue()
        with self._lock:
            self._spawn()
        refusal = self._ready.get()
        if refusal is not None:
            self.close()
            raise HeadwayError(refusal)
        if hang_s is not None:
            threading.Thread(target=self._watch, args=(hang_s,), name="headway hangs", daemon=True).start()

    @property
    def _is_broken(self) -> bool:
        return self._failed_starts >= MOST_FAILED_STARTS

    @property
    def process_id(self) -> int:
        """Of the child that serves now."""
        return self._process.pid

    # --- the Executor protocol ---------------------------------------------------------------------

    def connect(self, post: Callable[[Event], None], clock: Clock) -> None:
        """Where events go, and the clock whose times they carry."""
        with self._lock:
            self._post = post
            self._origin_s = perf_counter() - clock.now()
            self._send("connect", self._origin_s)

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Have it prepared, and wait until it is.

        Raises:
            HeadwayError: as the executor there, or the process died of it.
        """
        answer: SimpleQueue[str | None] = SimpleQueue()
        with self._lock:
            if self._is_broken:
                raise HeadwayError(_BROKEN)
            self._asks += 1
            self._asked[self._asks] = answer
            self._send("prepare", self._asks, model, tuple(cores), batch)
        refusal = answer.get()
        if refusal is not None:
            raise HeadwayError(refusal)
        with self._lock:
            self._prepared.append((model, tuple(cores), batch))

    def admit(self, model: str, split: SplitModel) -> None:
        """Take one more model, whose files stay this process's; `prepare` it next."""
        with self._lock:
            self._admitted[model] = split
            self._send("admit", model, split)

    def retire(self, model: str) -> None:
        """Have a model's sessions closed and forget it; none of its requests may be under way."""
        with self._lock:
            self._admitted.pop(model, None)
            self._prepared = [prepared for prepared in self._prepared if prepared[0] != model]
            self._send("retire", model)

    def start(self, run: Run) -> None:
        """Send the run there, its inputs with it if it is the request's first."""
        with self._lock:
            if self._is_broken:
                self._post(Failed(run.id, _BROKEN))
                return
            tickets: dict[int, Ticket | None] = {}
            for request in run.requests:
                _, ticket = self._requests.get(request.id, (request, None))
                if ticket is None and self._inputs is not None:
                    try:
                        ticket = self._writer.write(self._inputs(request))
                    except Exception as error:
                        self._post(Failed(run.id, f"its inputs: {type(error).__name__}: {error}"))
                        return
                self._requests[request.id] = (request, ticket)
                tickets[request.id] = ticket
            self._in_flight[run.id] = (run, perf_counter())
            self._send("start", _slim(run), tickets)

    def stop(self, run: Run, how: How) -> None:
        """Pass it on."""
        with self._lock:
            self._send("stop", run.id, how)

    def release(self, request: Request) -> None:
        """Pass it on; the request's tensors make room for others'."""
        with self._lock:
            _, ticket = self._requests.pop(request.id, (request, None))
            self._send("release", _bare(request))
            if ticket is not None:
                self._writer.free(ticket)

    def close(self) -> None:
        """End the process and remove what it shared."""
        with self._lock, suppress(OSError):  # a dead one needs no goodbye
            self._closing.set()
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(_CLOSE_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._hang_up()
        self._folder.cleanup()

    def _hang_up(self) -> None:
        self._connection.close()
        self._socket.close()

    # --- the child ---------------------------------------------------------------------------------

    def _spawn(self) -> None:
        """Start a child and tell it all that the last one was told."""
        self._generation += 1
        self._to_come_up = 1 + len(self._prepared)
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # or Ctrl-C would reach it, too; the driver decides what that means
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        finally:
            theirs.close()
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))
        wants_results = self._on_result is not None
        self._send(self._make, self._folder.name, self._generation, self._inputs is not None, wants_results)
        for model, split in self._admitted.items():
            self._send("admit", model, split)
        for prepared in self._prepared:
            self._send("prepare", 0, *prepared)
        if self._origin_s is not None:
            self._send("connect", self._origin_s)
        self._thread = threading.Thread(
            target=self._read, args=(self._connection, self._process), name="headway child", daemon=True
        )
        self._thread.start()

    def _send(self, *message: Any) -> None:
        with suppress(OSError):  # if it is dead, the thread that reads from it will say so
            self._connection.send(message)

    def _read(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        with answering_soon():
            self._take_in(connection)
        if not self._closing.is_set():
            self._bury(process)

    def _take_in(self, connection: Connection) -> None:
        while True:
            try:
                kind, *content = connection.recv()
            except (EOFError, OSError):
                break
            if kind == "event":
                self._pass_on(content[0])
            elif kind == "result":
                self._take_result(*content)
            elif kind == "bye":
                pass  # it only asks whether anybody hears it
            elif kind == "prepared":
                ask, refusal = content
                if not ask:
                    self._came_up()
                answer = self._asked.pop(ask, None)
                if answer is not None:
                    answer.put(refusal)
            else:
                (refusal,) = content
                self._came_up()
                self._failed_starts = 0 if refusal is None else MOST_FAILED_STARTS
                self._ready.put(refusal)

    def _came_up(self) -> None:
        """A part of the child's start is done; what was sent meanwhile waits only from the last one on."""
        with self._lock:
            self._to_come_up -= 1
            now = perf_counter()
            self._in_flight = {id: (run, now) for id, (run, _) in self._in_flight.items()}

    def _pass_on(self, event: SafePoint | Finish | Failed) -> None:
        with self._lock:
            run, _ = self._in_flight.pop(event.run_id)
            if isinstance(event, SafePoint) and not event.stopped:
                self._in_flight[run.id] = (run, perf_counter())
        self._post(event)

    def _take_result(self, request_id: int, ticket: Ticket) -> None:
        request, _ = self._requests.get(request_id, (None, None))
        results = self._reader.read(ticket)
        copies = {name: value.copy() if hasattr(value, "copy") else value for name, value in results.items()}
        with self._lock:
            self._send("free", ticket)
        if self._on_result is not None and request is not None:  # one of a batch may be given up meanwhile
            self._on_result(request, copies)

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        """The child is dead: fail what it ran, and start another one."""
        process.kill()
        status = process.wait()
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        cause = self._hung or f"the process that ran it was ended {how}"
        with self._lock:
            self._hung = ""
            self.deaths += 1
            self._failed_starts += 1
            lost = [run for run, _ in self._in_flight.values()]
            self._in_flight.clear()
            asked, self._asked = self._asked, {}
            self._hang_up()
            if not self._is_broken and not self._closing.is_set():
                self._spawn()
        for answer in (self._ready, *asked.values()):
            answer.put(f"the lanes' process was ended {how} while it prepared")
        for run in lost:
            self._post(Failed(run.id, cause))

    def _watch(self, hang_s: float) -> None:
        while not self._closing.wait(hang_s / _CHECKS_PER_HANG):
            with self._lock:
                heard_s = min((heard_s for _, heard_s in self._in_flight.values()), default=None)
                if self._to_come_up > 0:
                    continue
                if heard_s is not None and perf_counter() - heard_s > hang_s and not self._hung:
                    self._hung = f"no block ended for {hang_s} s, so its process was ended"
                    self._process.kill()


def _slim(run: Run) -> Run:
    """A run without what only the engine and policies read."""
    return replace(run, requests=tuple(_bare(request) for request in run.requests), segments=())


def _bare(request: Request) -> Request:
    return replace(request, story=deque())
