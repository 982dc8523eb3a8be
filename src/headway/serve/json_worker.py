"""Large JSON is read and written in a process of its own, at a low priority.

The reader and the writer of JSON hold the interpreter's lock for as long as they take, a second for 16 MB: in
the server's process nothing else would be answered or scheduled meanwhile. `python -m
headway.serve.json_worker` is that process: it takes calls by its standard input, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar

from headway.serve.refusal import Cause, Refusal

LARGE_BYTES = 128 << 10
LARGE_ELEMENTS = 16 << 10

_NICENESS = 5
_Value = TypeVar("_Value")


class JsonWorker:
    """Runs functions in a process that starts with the first call, and again after it ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # One thread: calls that wait must not take those that compress and decompress.
        self._thread = ThreadPoolExecutor(1, "headway-json")

    async def call(self, function: Callable[..., _Value], *arguments: object) -> _Value:
        """The function's value; raises the Refusal that it raises, and UNAVAILABLE if the process ended.

        Function and arguments are pickled. Calls wait for each other.
        """
        # The call's bytes are made here, in the loop: views of a body cannot be pickled by another.
        call = pickle.dumps((function, arguments), protocol=5)
        outcome = await asyncio.get_running_loop().run_in_executor(self._thread, self._call, call)
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _call(self, call: bytes) -> Any:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headway.serve.json_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None
        assert receiver is not None
        try:
            _write(sender, call)
            outcome, value = pickle.loads(_read(receiver))
        except (OSError, EOFError):
            self._process.kill()
            self._process.wait()
            return Refusal(Cause.UNAVAILABLE, "the process that reads large JSON ended; try again")
        return Refusal(*value[:2]) if outcome == "refusal" else value

    def close(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
        self._thread.shutdown(cancel_futures=True)


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "little"))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    size = stream.read(8)
    if len(size) < 8:
        raise EOFError
    content = stream.read(int.from_bytes(size, "little"))
    if len(content) < int.from_bytes(size, "little"):
        raise EOFError
    return content


def main() -> None:
    """Answer calls until the standard input ends."""
    os.nice(_NICENESS)
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            function, arguments = pickle.loads(_read(calls))
        except EOFError:
            return
        try:
            answer: tuple[str, object] = ("value", function(*arguments))
        except Refusal as refusal:
            answer = ("refusal", (refusal.cause, refusal.message))
        _write(answers, pickle.dumps(answer, protocol=5))


if __name__ == "__main__":
    main()
