"""Running jobs on the cores of this machine, a process each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import TypeVar

from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.scale.store import Part
from headway.scale.tasks import PolicyFile
from headway.scale.worker import Job, failed_rows, run_job

DIED = "its process died: killed, perhaps for want of memory"

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def run_locally(
    jobs: Sequence[Job], workers: int, policy_files: Sequence[PolicyFile], folder: Path
) -> Iterator[list[Row]]:
    """The rows of every job, in the order in which jobs end.

    Each run is also written into a part of `folder` as soon as it is done. With one worker jobs run in this
    process. A job whose process dies is tried once more, alone; if that dies, too, its runs have failed.
    """
    work = partial(_run, folder)
    if workers <= 1:
        yield from map(work, jobs)
        return
    waiting = deque(jobs)
    while waiting:
        suspects = yield from _until_broken(work, waiting, workers, policy_files)
        for suspect in suspects:
            if (yield from _until_broken(work, deque([suspect]), 1, policy_files)):
                yield failed_rows(suspect, DIED)


def answers(
    function: Callable[[_Item], _Answer],
    items: Sequence[_Item],
    workers: int,
    policy_files: Sequence[PolicyFile],
) -> Iterator[_Answer]:
    """What a function of a module says to each item, in the order in which answers come.

    With one worker in this process. Raises what the function raises, and HeadwayError if a process dies.
    """
    if workers <= 1:
        yield from map(function, items)
    elif (yield from _until_broken(function, deque(items), workers, policy_files)):
        raise HeadwayError(f"a worker did not come back: {DIED}; accepted: fewer --workers")


def _until_broken(
    function: Callable[[_Item], _Answer],
    waiting: deque[_Item],
    workers: int,
    policy_files: Sequence[PolicyFile],
) -> Generator[_Answer, None, list[_Item]]:
    """Work on what waits, until all is done or a process dies; returns what was worked on then."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin, (tuple(policy_files),))
    running: dict[Future[_Answer], _Item] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                item = waiting.popleft()
                running[pool.submit(function, item)] = item
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                answer = future.result()
                del running[future]
                yield answer
    except BrokenProcessPool:
        return list(running.values())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
    return []


def _begin(policy_files: Sequence[PolicyFile]) -> None:
    """Make a new process ready: an interrupt is the parent's to handle, and it ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for file in policy_files:
        file.register()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(folder: Path, job: Job) -> list[Row]:
    return run_job(job, Part(folder, f"process-{os.getpid()}").add)
