"""Running jobs on a Ray cluster. Needs Ray (`pip install "headway[scale]"`), here and on every node."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.scale.store import Part
from headway.scale.tasks import PolicyFile
from headway.scale.worker import Job, failed_rows, run_job


def run_on_ray(
    jobs: Sequence[Job], address: str, policy_files: Sequence[PolicyFile], folder: Path
) -> Iterator[list[Row]]:
    """The rows of every job, in the order in which jobs end, each written into a part of `folder`.

    `address` is what `ray.init` takes: `auto`, `local`, or `ray://HOST:PORT`; `local` starts a cluster on
    this machine for as long as the jobs last. Jobs whose worker dies are tried once more by Ray; if that
    dies, too, their runs have failed. Raises HeadwayError without Ray, and if there is no cluster at the
    address.
    """
    ray = _ray()
    own: dict[str, Any] = {}
    if address == "local":  # nobody looks at its dashboard, and nothing is to be reported elsewhere
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own["include_dashboard"] = False
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, ignore_reinit_error=True, **own)
    except Exception as error:
        raise HeadwayError(f"--ray {address}: no cluster there: {error}") from None
    part = Part(folder, "ray")
    try:
        remote = ray.remote(max_retries=1)(_work)
        waiting = deque(jobs)
        running: dict[Any, Job] = {}
        most = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))
        while waiting or running:
            while waiting and len(running) < most:
                job = waiting.popleft()
                running[remote.remote(job, tuple(policy_files))] = job
            (done, *_), _ = ray.wait(list(running))
            job = running.pop(done)
            try:
                rows = ray.get(done)
            except ray.exceptions.RayError as error:
                rows = failed_rows(job, f"Ray: {str(error).strip().splitlines()[-1]}")
            for row in rows:
                part.add(row)
            yield rows
    finally:
        ray.shutdown()


def _work(job: Job, policy_files: Sequence[PolicyFile]) -> list[Row]:
    for file in policy_files:
        file.register()
    return run_job(job)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise HeadwayError(
            '--ray needs Ray, which is not installed: pip install "headway[scale]"; without --ray all cores'
            " of this machine are used"
        ) from None
    return ray
