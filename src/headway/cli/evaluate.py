"""`headway evaluate`: a suite of scenarios under several policies and seeds, and two fixed evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from headway.cli.common import PolicyFile
from headway.cli.evaluate_blocks import evaluate_blocks_command
from headway.cli.evaluate_predictor import evaluate_predictor_command
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

SUITE: Final = "suite"


class _SuiteByDefault(TyperGroup):
    """What is no command of its own names a suite."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command for suites before arguments that begin with no other."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [SUITE, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(
        cls=_SuiteByDefault,
        no_args_is_help=True,
        subcommand_metavar="SUITE | COMMAND",
        help="Evaluate policies over a suite (`headway evaluate SUITE`), lane policies, or the predictor of"
        " overlaps.",
    )
    group.command(SUITE)(evaluate_command)
    group.command("blocks")(evaluate_blocks_command)
    group.command("predictor")(evaluate_predictor_command)
    app.add_typer(group, name="evaluate")


def evaluate_command(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A suite that `headway suite list` shows, or a file; `headway schema suite` describes it.",
            show_default=False,
        ),
    ],
    out: OutFolder = None,
    policies: Policies = None,
    seeds: Seeds = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(
            "--cell",
            metavar="NAME",
            help="Only this cell of `headway suite cells`; repeatable.",
        ),
    ] = None,
    workers: Workers = None,
    ray: RayAddress = None,
    policy_file: PolicyFile = None,
) -> None:
    """Run every cell of a suite with every policy and seed, and compare the policies.

    Writes results.parquet, summary.csv and report.html. An interrupted run goes on where it stopped.
    Exit status 1: some runs failed.
    """
    from rich.console import Console

    from headway.config import load_suite
    from headway.record.evaluation_outputs import standings, write_evaluation
    from headway.record.evaluation_stats import Evaluation
    from headway.scale.tasks import tasks_of

    files = policy_files_of(policy_file)
    chosen = load_suite(suite)
    given_seeds = list(chosen.seeds) if seeds is None else seeds_of(seeds)
    given_policies = list(chosen.policies) if policies is None else names_of(policies, "--policies")
    backend = backend_of(workers, ray)
    folder = Path("out") / chosen.name if out is None else out
    tasks = tasks_of(chosen, given_seeds, given_policies, cells or [])
    rows = run_all(tasks, folder, backend, files)
    written = write_evaluation(folder, chosen.name, rows, about(given_seeds))
    console = Console()
    evaluation = Evaluation(rows)
    if evaluation.complete:
        console.print(standings(evaluation))
    else:
        console.print("No cell has a result of every policy.")
    console.print(
        f"Results: {written.results}\nSummary: {written.summary}\nReport:  {written.report}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    end_with(rows)
