"""What a worker does: a task under each of its policies, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.scale.tasks import AnyTask


@dataclass(frozen=True, slots=True)
class Job:
    """A task with the keys of its runs, by policy."""

    task: AnyTask
    keys: Mapping[str, str]


def run_job(job: Job, done: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """A row for each policy, in order; `done` is called with each as soon as it is there.

    A run that fails has its cause in its row, and the others go on.
    """
    rows = []
    for row in _rows(job):
        done(row)
        rows.append(row)
    return rows


def failed_rows(job: Job, cause: str) -> list[Row]:
    """Rows for runs that never came back."""
    return [_about(job, policy) | {"failed": True, "cause": cause} for policy in job.task.policies]


def _rows(job: Job) -> Iterator[Row]:
    try:
        run = job.task.begin()
    except Exception as error:
        yield from failed_rows(job, _cause(error))
        return
    for policy in job.task.policies:
        try:
            yield _about(job, policy) | {"failed": False} | run(policy)
        except Exception as error:
            yield _about(job, policy) | {"failed": True, "cause": _cause(error)}


def _about(job: Job, policy: str) -> Row:
    task = job.task
    return {
        "key": job.keys[policy],
        "cell": task.cell,
        "coordinates": dict(task.coordinates),
        "policy": policy,
        "seed": task.seed,
        "cause": None,
    }


def _cause(error: Exception) -> str:
    text = str(error)
    return text if isinstance(error, HeadwayError) else f"{type(error).__name__}: {text}"
