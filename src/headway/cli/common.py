"""What the commands that run a scenario share: options, preparation, progress, users' policies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from headway.record.outputs import OutputPaths
    from headway.wiring import Answered, Prepared

REFRESH_S: Final = 0.1  # between two updates of the progress bar

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario file (YAML): tenants, their models, SLAs and arrivals, on a piece of hardware. "
        "`headway schema scenario` describes every field.",
        show_default=False,
    ),
]
PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Instead of the scenario's policy; `headway policies` lists them.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the log, results.json and report.html go; without it, only the table is printed.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Instead of the scenario's seed.")]
PolicyFile = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy-file",
        metavar="FILE",
        help="A Python file that registers policies of your own, with `@headway.policy(NAME)`. Repeatable.",
    ),
]


def prepare(
    path: Path, seed: int | None, policies: list[str] | None, *, fresh: bool = False
) -> tuple[Prepared, list[str]]:
    """Load a scenario and prepare it, saying what is being done; `fresh` as for `wiring.prepare`.

    Returns the policies too, by default the scenario's own. Raises HeadwayError for an unknown one before
    anything is priced or measured.
    """
    from rich.console import Console

    from headway import wiring
    from headway.config import Scenario

    scenario = Scenario.load(path)
    if seed is not None:
        scenario = scenario.with_overrides({"seed": seed})
    names = policies or [scenario.policy]
    wiring.require_policies(names)
    console = Console(stderr=True)
    with console.status("reading the scenario") as status:
        prepared = wiring.prepare(scenario, lambda words: status.update(words), fresh=fresh)
    for warning in prepared.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return prepared, names


@contextmanager
def progress(prepared: Prepared, runs: int, what: str) -> Iterator[Answered]:
    """A progress bar over the replies of several runs, with their rate."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    expected = prepared.expected_requests
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        total = None if expected is None else expected * runs
        task = bar.add_task(what, total=total, rate="")
        done = 0
        began_s = shown_s = monotonic()

        def on_reply(_: object) -> None:
            nonlocal done, shown_s
            done += 1
            now_s = monotonic()
            if now_s - shown_s >= REFRESH_S:
                shown_s = now_s
                bar.update(task, completed=done, rate=f"{done / (now_s - began_s):,.0f} requests/s")

        yield on_reply


def say_where(written: OutputPaths) -> None:
    """Print where the results lie."""
    from rich.console import Console

    Console().print(
        f"Results: {written.results}\nReport:  {written.report}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def load_policies(files: list[Path] | None) -> None:
    """Run files that register policies. Raises HeadwayError for one that is missing or fails."""
    from headway.scale.tasks import PolicyFile as File

    for file in files or []:
        File.read(file).register()
