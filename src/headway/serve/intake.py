"""Taking models in beside the lanes: by a process of low priority, which may crash of it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from weakref import WeakSet

from headway.core.errors import HeadwayError
from headway.live.profiler import Intake
from headway.models.weight_store import Workspace
from headway.serve.priority import LOWEST, Rank, rank_session
from headway.serve.repository import ModelSource

MOST_INTAKES: Final = 50
"""After so many a process makes room for a fresh one, so that nothing that leaks there stays."""

IDLE_S: Final = 5.0
"""A process that has nothing to do for so long ends: it holds the runtime and what it last read."""

LIMIT_S: Final = 900.0
"""For one model, however little of the processors the lanes leave."""

STEPS: Final = ((LOWEST, 4.0), (10, 8.0), (0, 14.0))
"""While the server serves: priorities of the child's session, and for how many seconds it has each. A model
that is not taken in then is begun again, as before the server served: somebody waits for it."""

_PROGRAM: Final = (
    "from headway.serve.priority import Rank, take_rank; take_rank(Rank({rank!r}));"
    " from headway.serve.intake_child import main; main()"
)


class IntakeProcess:
    """Takes models in, one at a time, in a child process at the lowest priority.

    What the child does never waits in front of the lanes' work, holds no lock of this process, and cannot
    break it: a model that crashes the runtime ends the child. It is started when needed and ends when idle.
    While the server is `serving`, the child runs only when a processor is idle. Before, there is nobody whom
    it could disturb, and other programs on the machine would make the start take long.

    Args:
        widths: numbers of threads to measure models with, each with its processors.
        beside: processors of another lane than the first, for probes of what models do to each other.
    """

    def __init__(self, widths: Mapping[int, Sequence[int]], beside: Sequence[int] = ()) -> None:
        self._widths = {width: tuple(processors) for width, processors in widths.items()}
        self._beside = tuple(beside)
        self.serving = False
        self._known: set[tuple[str, str]] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="headway-models-")
        self._lock = threading.Lock()
        self._workspaces: WeakSet[Workspace] = WeakSet()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._taken_in = 0
        self._idle: threading.Timer | None = None
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """Of the child, None if there is none."""
        return None if self._process is None else self._process.pid

    def take_in(self, source: ModelSource, key: str) -> Intake:
        """Split and measure a model, or find that it was measured before; see `headway.live.profiler`.

        Raises HeadwayError for a model that cannot be read or run, and for one that the process died of.
        """
        with self._lock:
            if self._closed:
                raise HeadwayError("the server is being stopped")
            if self._idle is not None:
                self._idle.cancel()
            answer = self._ask(source, key)
            if isinstance(answer, Intake):
                answer.split.workspace.adopt()
                self._workspaces.add(answer.split.workspace)
            self._taken_in += 1
            if self._taken_in >= MOST_INTAKES:
                self._end()
            self._idle = threading.Timer(IDLE_S, self._end_if_idle)
            self._idle.daemon = True
            self._idle.start()
        if isinstance(answer, str):
            raise HeadwayError(answer)
        return answer

    def close(self) -> None:
        """End the process; a model that is being taken in fails."""
        self._closed = True
        process = self._process
        if process is not None:
            with suppress(OSError):
                process.kill()
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            self._end()
        self._folder.cleanup()

    def _ask(self, source: ModelSource, key: str) -> Intake | str:
        known = (source.name, source.version) in self._known
        self._known.add((source.name, source.version))
        for rank in (Rank.IDLE, Rank.BEFORE_SERVING) if self.serving else (Rank.BEFORE_SERVING,):
            if self._closed:
                return "the server is being stopped"
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._start(rank)
            try:
                answer = self._answer((source, key, self._widths, self._beside, known, rank), rank)
            except (EOFError, OSError):
                status = self._end()
                self._clear()
                return f"the process that took it in was ended by it (status {status})"
            if answer is not None:
                return answer
            self._kill()
        return f"could not be taken in within {LIMIT_S:g} s"

    def _answer(self, question: tuple[object, ...], rank: Rank) -> Intake | str | None:
        """The child's answer, None if it takes too long. Raises EOFError or OSError if the child ends."""
        connection, process = self._connection, self._process
        assert connection is not None
        assert process is not None
        connection.send(question)
        steps = STEPS if rank is Rank.IDLE else ((None, LIMIT_S),)
        for priority, limit_s in steps:
            if priority is not None:
                rank_session(process.pid, priority)
            if connection.poll(limit_s):
                answer: Intake | str = connection.recv()
                return answer
        return None

    def _start(self, rank: Rank) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(rank=rank.value), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # what Ctrl-C means is decided here; see also `take_rank`
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "TMPDIR": self._folder.name,
                },
            )
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())
        self._taken_in = 0

    def _end_if_idle(self) -> None:
        if self._lock.acquire(blocking=False):  # else it is not idle
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> int:
        """End the process, if there is one, and return its status."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is None or connection is None:
            return 0
        connection.close()
        try:
            return process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _kill(self) -> None:
        """End it in the middle of its work; it would not hear that the connection is closed."""
        if self._process is not None:
            self._process.kill()
        self._end()
        self._clear()

    def _clear(self) -> None:
        """Remove what a process that crashed had begun to write."""
        in_use = {workspace.folder for workspace in self._workspaces}
        for left in Path(self._folder.name).iterdir():
            if left not in in_use:
                shutil.rmtree(left, ignore_errors=True)
