"""`headway suite`: what there is to evaluate, and single cells as scenario files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_Suite = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A suite that `headway suite list` shows, or a file; `headway schema suite` describes"
        " every field.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(
        help="List suites and their cells, and write cells as scenarios.", no_args_is_help=True
    )
    group.command("list")(_list)
    group.command("cells")(_cells)
    group.command("write")(_write)
    app.add_typer(group, name="suite")


def _list() -> None:
    """List the suites that are shipped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from headway.config import load_suite, suite_names

    table = Table("suite", "cells", "runs", "what it varies", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for name in suite_names():
        suite = load_suite(name)
        table.add_row(name, str(len(suite.cells())), f"{suite.runs:,}", suite.summary)
    Console().print(table, markup=False)


def _cells(suite: _Suite) -> None:
    """List the cells of a suite, one name a line."""
    from headway.config import load_suite

    for cell in load_suite(suite).cells():
        typer.echo(cell.name)


def _write(
    suite: _Suite,
    cell: Annotated[str, typer.Argument(metavar="CELL", help="As `headway suite cells SUITE` names it.")],
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="By default the first of the suite.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="By default it is printed.", show_default=False),
    ] = None,
) -> None:
    """Write one cell as a scenario file, which `headway simulate` and the others take."""
    import yaml

    from headway.config import load_suite

    chosen = load_suite(suite)
    scenario = chosen.scenario(chosen.cell(cell), chosen.seeds[0] if seed is None else seed)
    folder = Path() if out is None else out.parent
    text = yaml.safe_dump(scenario.to_mapping(folder), sort_keys=False, allow_unicode=True, width=110)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
