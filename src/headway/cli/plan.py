"""`headway plan`: how much load a scenario carries, and what more hardware would change."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.common import PolicyFile, PolicyName, ScenarioFile
from headway.cli.many import Seeds, Workers, policy_files_of, seeds_of

if TYPE_CHECKING:
    from rich.table import Table

    from headway.config import Scenario
    from headway.record.intervals import Interval
    from headway.scale.plan import Limits, Planned, Variant


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("plan")(plan_command)


def plan_command(
    scenario: ScenarioFile,
    policy: PolicyName = None,
    seeds: Seeds = None,
    resolution: Annotated[
        float,
        typer.Option(
            "--resolution",
            metavar="SHARE",
            min=0.001,
            max=0.5,
            help="How finely limits are found; 0.02: 2 %.",
        ),
    ] = 0.02,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    policy_file: PolicyFile = None,
) -> None:
    """Find the largest load at which each tenant's SLA holds, and what more hardware changes.

    All rates are multiplied alike. Limits are multiples of the scenario's rates, found by bisection on
    simulations, with several seeds: three from the scenario's on, unless given.
    """
    from rich.console import Console

    from headway.config import Scenario
    from headway.record.results import finite
    from headway.scale.evaluate import all_cores
    from headway.scale.plan import document_of, plan

    files = policy_files_of(policy_file)
    loaded = Scenario.load(scenario)
    chosen = loaded.policy if policy is None else policy
    given = [loaded.seed + more for more in range(3)] if seeds is None else seeds_of(seeds)
    done = simulations = 0
    with Console(stderr=True).status("searching") as status:

        def on_found(limits: Limits) -> None:
            nonlocal done, simulations
            done, simulations = done + 1, simulations + limits.simulations
            status.update(f"searching: {done} searches done, {simulations} simulations")

        variants = plan(loaded, chosen, given, resolution, workers or all_cores(), files, on_found)
    if as_json:
        document = document_of(loaded, chosen, given, resolution, variants)
        typer.echo(json.dumps(finite(document), indent=2, ensure_ascii=False))
        return
    console = Console()
    console.print(_table(loaded, chosen, variants))
    console.print(_sentence(variants[0]), markup=False, highlight=False)


def _table(scenario: Scenario, policy: str, variants: list[Variant]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    now, *changes = variants
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title=Text(f"{scenario.name} under {policy}: largest load at which SLAs hold"),
        caption="in multiples of the scenario's rates; ± is half a 95 % interval over seeds; what a change"
        " adds is paired by seed",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("tenant", overflow="fold")
    table.add_column("SLA", overflow="fold")
    table.add_column("holds up to", justify="right", no_wrap=True)
    for variant in changes:
        table.add_column(variant.change, justify="right")
    for tenant in scenario.tenants:
        table.add_row(
            Text(tenant.name),
            Text(f"{tenant.sla.percentile:g} %"),
            _limit(now.tenants[tenant.name]),
            *(_gain(variant.tenants[tenant.name]) for variant in changes),
        )
    table.add_section()
    table.add_row("all", "", _limit(now.together), *(_gain(variant.together) for variant in changes))
    table.add_row("breaks first", "", now.first or "none", *(variant.first or "none" for variant in changes))
    return table


def _sentence(now: Variant) -> str:
    if now.first is None:
        return "No SLA breaks at any load that was looked at."
    limit = now.together
    if limit.highest == 0.0:
        return f"The SLA of {now.first} does not hold even at the lowest load that was looked at."
    if limit.lowest >= 1.0:
        return f"The SLA of {now.first} breaks first; all hold at the scenario's rates."
    return f"The SLA of {now.first} breaks first, at less than the scenario's rates with at least one seed."


def _limit(planned: Planned) -> str:
    if planned.limit is not None:
        return _number(planned.limit)
    if planned.highest == 0.0:
        return "never"
    if planned.lowest == math.inf:
        return "any searched"
    low = "never" if planned.lowest == 0.0 else f"{planned.lowest:.2f}"
    high = "any" if planned.highest == math.inf else f"{planned.highest:.2f}"
    return f"{low} to {high}"


def _gain(planned: Planned) -> str:
    return f"({_limit(planned)})" if planned.gain is None else _number(planned.gain, sign=True)


def _number(found: Interval, *, sign: bool = False) -> str:
    half = "" if found.half is None else f" ±{found.half:.2f}"
    return f"{found.mean:+.2f}{half}" if sign else f"{found.mean:.2f}{half}"
