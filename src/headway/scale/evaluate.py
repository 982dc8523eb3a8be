"""Running tasks to their end, over processes or a cluster, going on where an earlier try stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from headway import wiring
from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.scale.store import finished
from headway.scale.tasks import AnyTask, Keys, PolicyFile
from headway.scale.worker import Job


@dataclass(frozen=True, slots=True)
class Backend:
    """Where runs are done: on `workers` processes here, or on the Ray cluster at an address."""

    workers: int = 1
    ray: str | None = None

    def run(
        self, jobs: Sequence[Job], policy_files: Sequence[PolicyFile], folder: Path
    ) -> Iterator[list[Row]]:
        """The rows of every job, in the order in which jobs end; they are also written below `folder`."""
        if self.ray is not None:
            from headway.scale.cluster import run_on_ray

            return run_on_ray(jobs, self.ray, policy_files, folder)
        from headway.scale.pool import run_locally

        return run_locally(jobs, min(self.workers, max(1, len(jobs))), policy_files, folder)


def all_cores() -> int:
    """How many processes this machine has room for."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def evaluate(
    tasks: Sequence[AnyTask],
    folder: Path,
    backend: Backend,
    policy_files: Sequence[PolicyFile] = (),
    on_rows: Callable[[Sequence[Row]], None] = lambda rows: None,
) -> list[Row]:
    """Run all tasks and return a row for each run, in the order of the tasks and their policies.

    Runs that were finished in `folder` before, with nothing changed since, are not run again: `on_rows` is
    first called with all of those, then with the rows of every task that ends. Rows are appended to files
    below `folder` as they come, so that an interrupt loses only runs that were not done. A run that fails has
    its cause in its row.

    Raises HeadwayError for an unknown policy.
    """
    wiring.require_policies(list(dict.fromkeys(policy for task in tasks for policy in task.policies)))
    keys = Keys(policy_files)
    known = finished(folder)
    wanted: list[tuple[AnyTask, dict[str, str]]] = [
        (task, {policy: keys.of(task, policy) for policy in task.policies}) for task in tasks
    ]
    rows: dict[str, Row] = {}
    jobs = []
    for task, by_policy in wanted:
        missing = {policy: key for policy, key in by_policy.items() if key not in known}
        rows |= {key: _placed(known[key], task) for key in by_policy.values() if key in known}
        if missing:
            jobs.append(Job(_with(task, tuple(missing)), missing))
    on_rows(list(rows.values()))
    if jobs:
        for found in backend.run(jobs, policy_files, folder):
            rows |= {row["key"]: row for row in found}
            on_rows(found)
    return [_placed(rows[key], task) for task, by_policy in wanted for key in by_policy.values()]


def _with(task: AnyTask, policies: tuple[str, ...]) -> AnyTask:
    changed: Any = replace(task, policies=policies)  # type: ignore[type-var]
    found: AnyTask = changed
    return found


def _placed(row: Row, task: AnyTask) -> Row:
    """The row as one of that task: a scenario may have had another name or place in an earlier matrix."""
    return row | {"cell": task.cell, "coordinates": dict(task.coordinates)}


def require_folder(folder: Path) -> None:
    """Make the folder if it is not there. Raises HeadwayError if results cannot go there."""
    if folder.exists() and not folder.is_dir():
        raise HeadwayError(f"--out {folder}: is a file; accepted: a folder, or a name for a new one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise HeadwayError(
            f"--out {folder}: nothing can be written there: {error.strerror}; accepted: a folder that can be"
            " written, or a name for a new one"
        ) from None
