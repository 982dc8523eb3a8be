"""`headway run` and `headway twin`: scenarios on this machine's lanes, for real."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli.common import (
    Out,
    PolicyFile,
    PolicyName,
    ScenarioFile,
    Seed,
    load_policies,
    prepare,
    progress,
    say_where,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("run")(run_command)
    app.command("twin")(twin_command)


def run_command(
    scenario: ScenarioFile,
    policy: PolicyName = None,
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Run a scenario's models for real on this machine's lanes, and print each tenant's SLA.

    A lane is a set of this machine's processors that runs one model at a time; the scenario's hardware says
    how many there are (`cpu-lanes`, `cpu-wide`, or lanes of your own). What models cost is measured first,
    and kept for later runs.

    Ctrl-C ends arrivals, lets what runs finish, and reports; a second one cancels that too.
    """
    from rich.console import Console

    from headway.record import outputs, table
    from headway.record.metrics import summarise
    from headway.wiring import run

    load_policies(policy_file)
    prepared, (name,) = prepare(scenario, seed, [policy] if policy else None, fresh=True)
    folder = None if out is None else outputs.policy_folders(out, [name])[name]
    with progress(prepared, 1, "running") as on_reply:
        live = run(prepared, name, folder, on_reply)
    summary = summarise(live.log)
    written = None if out is None else outputs.write_outputs(out, {name: live.log}, {name: summary})
    console = Console()
    console.print(table.tenants(summary))
    console.print("\n".join(live.report.lines()), highlight=False)
    if written is not None:
        say_where(written)
    if live.report.interrupted:
        raise typer.Exit(130)


def twin_command(
    scenario: ScenarioFile,
    policy: PolicyName = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=100, help="How often to run for real.")] = 3,
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Predict a scenario by simulation, run it for real on this machine's lanes, and compare the two."""
    from rich.console import Console

    from headway.record import outputs, table
    from headway.record.twin import write_twin
    from headway.wiring import twin

    load_policies(policy_file)
    prepared, (name,) = prepare(scenario, seed, [policy] if policy else None, fresh=True)
    with progress(prepared, repeats, "running") as on_reply:
        result = twin(prepared, name, repeats, out, on_reply)
    written = None
    if out is not None:
        logs = {"predicted": result.predicted}
        logs |= {f"measured-{number}": live.log for number, live in enumerate(result.repeats, 1)}
        written = outputs.write_outputs(out, logs)
        write_twin(out / "twin.json", result.report)
    console = Console()
    console.print(table.twin(result.report))
    if out is not None and written is not None:
        console.print(
            f"Comparison: {out / 'twin.json'}\nReport:     {written.report}", soft_wrap=True, highlight=False
        )
    if result.repeats[-1].report.interrupted:
        raise typer.Exit(130)
