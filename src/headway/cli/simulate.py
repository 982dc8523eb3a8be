"""`headway simulate` and `headway compare`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.record.log import LogTable
    from headway.wiring import Prepared


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("simulate")(simulate_command)
    app.command("compare")(compare_command)
    app.command("policies")(policies_command)


def simulate_command(
    scenario: ScenarioFile,
    policy: PolicyName = None,
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Simulate a scenario under one policy and print each tenant's SLA."""
    load_policies(policy_file)
    _run(*prepare(scenario, seed, [policy] if policy else None), out, comparing=False)


def compare_command(
    scenario: ScenarioFile,
    policies: Annotated[
        str,
        typer.Option(
            "--policies", metavar="NAME,...", help="Policies to compare; `headway policies` lists them."
        ),
    ] = "fcfs,edf,lucas",
    out: Out = None,
    seed: Seed = None,
    policy_file: PolicyFile = None,
) -> None:
    """Simulate the same arrivals under several policies and compare them."""
    load_policies(policy_file)
    names = list(dict.fromkeys(name.strip() for name in policies.split(",") if name.strip()))
    if not names:
        raise HeadwayError("--policies: found no name; accepted: names of policies, separated by commas")
    _run(*prepare(scenario, seed, names), out, comparing=True)


def policies_command(policy_file: PolicyFile = None) -> None:
    """List the policies that can be named, variants of a policy with the options that make them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from headway.wiring import known_policies

    load_policies(policy_file)
    table = Table("policy", "what it does", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for name, words in known_policies().items():
        table.add_row(name, words)
    console = Console()
    console.print(table, markup=False)
    console.print(
        "Any of them with ':drop' behind its name (edf:drop) also drops a waiting request once it cannot meet"
        " its deadline any more.",
        markup=False,
        highlight=False,
    )


def _run(prepared: Prepared, policies: list[str], out: Path | None, *, comparing: bool) -> None:
    from rich.console import Console

    from headway.record import outputs, table
    from headway.record.metrics import summarise
    from headway.wiring import Bounding, compare

    with progress(prepared, len(policies), "simulating") as on_reply:
        logs: dict[str, LogTable] = compare(prepared, policies, out, on_reply)
    with Console(stderr=True).status("bounding"):
        bounding = Bounding(prepared)
        summaries = {
            name: replace(summarise(log), sla_bound=bounding.share(log)) for name, log in logs.items()
        }
    # Results are written before anything is printed: who reads the output may stop reading.
    written = None if out is None else outputs.write_outputs(out, logs, summaries)
    console = Console()
    if comparing:
        console.print(table.comparison(summaries))
    else:
        console.print(table.tenants(summaries[policies[0]]))
    if written is not None:
        say_where(written)
