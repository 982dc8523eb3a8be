"""`headway simulate` and `headway compare`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.record.log import LogTable
    from headway.wiring import Answered, Prepared

REFRESH_S: Final = 0.1  # between two updates of the progress bar

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file (YAML).")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where results go; without it, only the table is printed."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Instead of the scenario's seed.")]
PolicyFile = Annotated[
    list[Path] | None,
    typer.Option("--policy-file", metavar="FILE", help="A Python file that registers policies of your own."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("simulate")(simulate_command)
    app.command("compare")(compare_command)
    app.command("policies")(policies_command)


def simulate_command(
    scenario: ScenarioFile,
    policy: Annotated[str | None, typer.Option("--policy", help="Instead of the scenario's policy.")] = None,
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Simulate a scenario under one policy and print each tenant's SLA."""
    _load_policies(policy_file)
    prepared = _prepare(scenario, seed)
    _run(prepared, [policy or prepared.scenario.policy], out, comparing=False)


def compare_command(
    scenario: ScenarioFile,
    policies: Annotated[
        str, typer.Option("--policies", metavar="NAME,...", help="Policies to compare, by name.")
    ] = "fcfs,edf,lucas",
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Simulate the same arrivals under several policies and compare them."""
    _load_policies(policy_file)
    names = list(dict.fromkeys(name.strip() for name in policies.split(",") if name.strip()))
    if not names:
        raise HeadwayError("--policies: found no name; accepted: names of policies, separated by commas")
    _run(_prepare(scenario, seed), names, out, comparing=True)


def policies_command(policy_file: PolicyFile = None) -> None:
    """List the policies that can be named."""
    from rich.console import Console
    from rich.table import Table

    from headway.wiring import known_policies

    _load_policies(policy_file)
    table = Table("policy", "what it does")
    for name, words in known_policies().items():
        table.add_row(name, words)
    Console().print(table)


def _prepare(path: Path, seed: int | None) -> Prepared:
    from rich.console import Console

    from headway.config import Scenario
    from headway.wiring import prepare

    scenario = Scenario.load(path)
    if seed is not None:
        scenario = scenario.with_overrides({"seed": seed})
    console = Console(stderr=True)
    with console.status("reading the scenario") as status:
        return prepare(scenario, lambda words: status.update(words))


def _run(prepared: Prepared, policies: list[str], out: Path | None, *, comparing: bool) -> None:
    from rich.console import Console

    from headway.record import outputs, table
    from headway.record.metrics import summarise
    from headway.wiring import compare, require_policies

    require_policies(policies)
    with _progress(prepared, len(policies)) as on_reply:
        logs: dict[str, LogTable] = compare(prepared, policies, out, on_reply)
    summaries = {name: summarise(log) for name, log in logs.items()}
    console = Console()
    if comparing:
        console.print(table.comparison(summaries))
    else:
        console.print(table.tenants(summaries[policies[0]]))
    if out is not None:
        written = outputs.write_outputs(out, logs, summaries)
        console.print(
            f"Results: {written.results}\nReport:  {written.report}", soft_wrap=True, highlight=False
        )


@contextmanager
def _progress(prepared: Prepared, policies: int) -> Iterator[Answered]:
    """A progress bar over the replies of all policies, with their rate."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    expected = prepared.expected_requests
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        total = None if expected is None else expected * policies
        task = progress.add_task("simulating", total=total, rate="")
        done = 0
        began_s = shown_s = monotonic()

        def on_reply(_: object) -> None:
            nonlocal done, shown_s
            done += 1
            now_s = monotonic()
            if now_s - shown_s >= REFRESH_S:
                shown_s = now_s
                progress.update(task, completed=done, rate=f"{done / (now_s - began_s):,.0f} requests/s")

        yield on_reply


def _load_policies(files: list[Path] | None) -> None:
    """Run files that register policies. Raises HeadwayError for one that is missing or fails."""
    import runpy

    for file in files or []:
        if not file.is_file():
            raise HeadwayError(f"--policy-file: found no file {file}; accepted: a Python file")
        try:
            runpy.run_path(str(file))
        except (Exception, SystemExit) as error:
            raise HeadwayError(f"--policy-file {file}: {type(error).__name__}: {error}") from error
