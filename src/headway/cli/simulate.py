"""`headway simulate` and `headway compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
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

Measure = Annotated[
    bool,
    typer.Option(
        "--measure", help="Time the policy's decisions on this machine; with --out also in measured.json."
    ),
]

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
    measure: Measure = False,
) -> None:
    """Simulate a scenario under one policy and print each tenant's SLA."""
    load_policies(policy_file)
    _run(*prepare(scenario, seed, [policy] if policy else None), out, comparing=False, measuring=measure)


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
    measure: Measure = False,
) -> None:
    """Simulate the same arrivals under several policies and compare them."""
    load_policies(policy_file)
    names = list(dict.fromkeys(name.strip() for name in policies.split(",") if name.strip()))
    if not names:
        raise HeadwayError("--policies: found no name; accepted: names of policies, separated by commas")
    _run(*prepare(scenario, seed, names), out, comparing=True, measuring=measure)


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


def _run(
    prepared: Prepared, policies: list[str], out: Path | None, *, comparing: bool, measuring: bool
) -> None:
    from rich.console import Console

    from headway.core.decision_time import DecisionTimes
    from headway.record import outputs, table
    from headway.record.metrics import summarise
    from headway.record.results import write_json
    from headway.wiring import Bounding, compare

    with progress(prepared, len(policies), "simulating") as on_reply:
        times = {name: DecisionTimes(perf_counter) for name in policies} if measuring else {}
        logs: dict[str, LogTable] = compare(prepared, policies, out, on_reply, times)
    with Console(stderr=True).status("bounding"):
        bounding = Bounding(prepared)
        summaries = {
            name: replace(summarise(log), sla_bound=bounding.share(log)) for name, log in logs.items()
        }
    # Results are written before anything is printed: who reads the output may stop reading.
    written = None if out is None else outputs.write_outputs(out, logs, summaries)
    measured = {name: {"decision_us": each.microseconds()} for name, each in times.items()}
    if out is not None and measuring:
        write_json(out / "measured.json", {"format": 1, "policies": measured})
    console = Console()
    if comparing:
        console.print(table.comparison(summaries))
    else:
        console.print(table.tenants(summaries[policies[0]]))
    for name, figures in measured.items():
        console.print(_decision_times(name, figures["decision_us"]), markup=False, highlight=False)
    if written is not None:
        say_where(written)


def _decision_times(policy: str, microseconds: Mapping[str, float | int | None]) -> str:
    if not microseconds["count"]:
        return f"{policy}: no decision was taken"
    p50, p99, most = (microseconds[name] for name in ("p50", "p99", "max"))
    return f"{policy}: {microseconds['count']:,} decisions, us: p50 {p50:.1f}, p99 {p99:.1f}, max {most:.1f}"
