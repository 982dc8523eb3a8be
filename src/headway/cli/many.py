"""What the commands that run many simulations share: options, progress, and the end of it."""

from __future__ import annotations

import math
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.record.evaluation import Row
    from headway.scale.evaluate import Backend
    from headway.scale.tasks import AnyTask, PolicyFile

EXIT_FAILED_RUNS = 1
MOST_CAUSES = 5

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="How many processes; by default as many as there are cores."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on a Ray cluster instead: auto, local, or ray://HOST:PORT.",
        show_default=False,
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where results go. What was run there before, with nothing changed since, is not run again.",
        show_default=False,
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="N,...", help="Instead of those given.", show_default=False),
]
Policies = Annotated[
    str | None,
    typer.Option("--policies", metavar="NAME,...", help="Instead of those given.", show_default=False),
]


def names_of(text: str, option: str) -> list[str]:
    """Names separated by commas, each once. Raises HeadwayError if there is none."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise HeadwayError(f"{option}: found no name; accepted: names, separated by commas")
    return names


def numbers_of(text: str, option: str, *, whole: bool = False) -> list[float]:
    """Numbers separated by commas, each once; only whole ones if `whole`. Raises HeadwayError for anything
    else."""
    try:
        found = [float(part) for part in names_of(text, option)]
    except ValueError:
        found = [float("nan")]
    if not all(math.isfinite(each) and (not whole or each.is_integer()) for each in found):
        kind = "whole numbers" if whole else "numbers"
        raise HeadwayError(f"{option}: found {text!r}; accepted: {kind}, separated by commas")
    return found


def seeds_of(text: str) -> list[int]:
    """Seeds separated by commas. Raises HeadwayError for anything else."""
    parts = names_of(text, "--seeds")
    if not all(part.isdecimal() and int(part) < 2**63 for part in parts):
        raise HeadwayError(f"--seeds: found {text!r}; accepted: whole numbers from 0 on, separated by commas")
    return [int(part) for part in parts]


def backend_of(workers: int | None, ray: str | None) -> Backend:
    """Where to run. Raises HeadwayError for both at once."""
    from headway.scale.evaluate import Backend, all_cores

    if workers is not None and ray is not None:
        raise HeadwayError("--workers and --ray: found both; accepted: one of them")
    return Backend(workers or all_cores(), ray)


def policy_files_of(files: list[Path] | None) -> list[PolicyFile]:
    """A user's files of policies, registered here. Raises HeadwayError for one that is missing or fails."""
    from headway.scale.tasks import PolicyFile

    found = [PolicyFile.read(file) for file in files or []]
    for file in found:
        file.register()
    return found


def run_all(
    tasks: Sequence[AnyTask], folder: Path, backend: Backend, policy_files: Sequence[PolicyFile]
) -> list[Row]:
    """Run tasks with a bar that shows how many runs are done; after Ctrl-C say what is kept."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from headway.scale.evaluate import evaluate, require_folder

    require_folder(folder)
    total = sum(len(task.policies) for task in tasks)
    done = failed = 0
    console = Console(stderr=True)
    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            shown = bar.add_task("runs", total=total, failed="")

            def on_rows(rows: Sequence[Row]) -> None:
                nonlocal done, failed
                done += len(rows)
                failed += sum(row["failed"] for row in rows)
                bar.update(shown, completed=done, failed=f"{failed} failed" if failed else "")

            return evaluate(tasks, folder, backend, policy_files, on_rows)
    except KeyboardInterrupt:
        print(
            f"interrupted: {done} of {total} runs are kept in {folder}; the same command goes on from there",
            file=sys.stderr,
        )
        raise


def about(seeds: Sequence[int]) -> dict[str, str]:
    """How results were made, for their files: command, machine, versions, seeds, date."""
    from importlib.metadata import version

    from headway.scale.evaluate import all_cores

    return {
        "Command": shlex.join(["headway", *sys.argv[1:]]),
        "Machine": f"{platform.machine()}, {all_cores()} cores, Python {platform.python_version()}",
        "Version": f"headway {version('headway')}, numpy {version('numpy')}",
        "Seeds": ", ".join(map(str, seeds)),
        "Date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def end_with(rows: Sequence[Row]) -> None:
    """Say which runs failed, and exit with an error if any did."""
    failures = [row for row in rows if row["failed"]]
    if not failures:
        return
    by_cause: dict[str, list[Row]] = {}
    for row in failures:
        by_cause.setdefault(str(row["cause"]), []).append(row)
    for cause, alike in list(by_cause.items())[:MOST_CAUSES]:
        first = alike[0]
        others = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        print(
            f"failed: {first['cell']}, {first['policy']}, seed {first['seed']}{others}: {cause}",
            file=sys.stderr,
        )
    more = len(by_cause) - MOST_CAUSES
    print(
        f"error: {len(failures)} of {len(rows)} runs failed"
        + (f", for {more} more causes than listed here" if more > 0 else "")
        + ("; the others are in the results" if len(failures) < len(rows) else ""),
        file=sys.stderr,
    )
    raise typer.Exit(EXIT_FAILED_RUNS)
