"""`headway sweep`: one scenario over values of some of its fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.common import PolicyFile, ScenarioFile
from headway.cli.many import (
    OutFolder,
    Policies,
    RayAddress,
    Seeds,
    Workers,
    about,
    backend_of,
    end_with,
    names_of,
    policy_files_of,
    run_all,
    seeds_of,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("sweep")(sweep_command)


def sweep_command(
    scenario: ScenarioFile,
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="PLACE=VALUES",
            help="A field of the scenario and its values: load=0.5:1.2:0.1 (first, last, step) or"
            " hardware.dram.bandwidth=8GB/s,16GB/s. Repeatable: all combinations.",
            show_default=False,
        ),
    ],
    policies: Policies = None,
    seeds: Seeds = None,
    out: OutFolder = None,
    workers: Workers = None,
    ray: RayAddress = None,
    policy_file: PolicyFile = None,
) -> None:
    """Simulate a scenario over values of any of its fields, with several policies and seeds.

    Prints a table, and writes results.parquet, summary.csv and report.html with curves. An interrupted
    sweep goes on where it stopped. Exit status 1: some runs failed.
    """
    from rich.console import Console

    from headway.config import Scenario
    from headway.record.evaluation_outputs import cells, standings, write_evaluation
    from headway.record.evaluation_stats import Evaluation
    from headway.scale.sweep import Axis, sweep_tasks

    files = policy_files_of(policy_file)
    loaded = Scenario.load(scenario)
    given_seeds = [loaded.seed] if seeds is None else seeds_of(seeds)
    given_policies = [loaded.policy] if policies is None else names_of(policies, "--policies")
    backend = backend_of(workers, ray)
    axes = [Axis.parse(text) for text in over]
    tasks = sweep_tasks(loaded, axes, given_seeds, given_policies)
    folder = Path("out") / f"{scenario.stem}-sweep" if out is None else out
    rows = run_all(tasks, folder, backend, files)
    written = write_evaluation(folder, f"{loaded.name}, swept", rows, about(given_seeds))
    console = Console()
    evaluation = Evaluation(rows)
    console.print(cells(evaluation, [axis.place for axis in axes]))
    if len(evaluation.policies) > 1 and evaluation.complete:
        console.print(standings(evaluation))
    console.print(
        f"Results: {written.results}\nSummary: {written.summary}\nReport:  {written.report}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    end_with(rows)
