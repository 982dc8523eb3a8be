"""`headway export`: an event log as one Parquet or CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.core.errors import HeadwayError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("export")(export_command)


def export_command(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="A folder with a log, such as out/edf, or one of its segments."),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where it goes: a name in .parquet or .csv.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write the event log of a run as one Parquet or CSV file."""
    from headway.record.log import read_log

    kind = out.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise HeadwayError(f"--out: found {out.name!r}; accepted: a name that ends in .parquet or .csv")
    if out.exists() and not force:
        raise HeadwayError(f"--out: {out} exists; choose another name, or overwrite it with --force")
    table = read_log(log)
    out.parent.mkdir(parents=True, exist_ok=True)
    if kind == ".parquet":
        table.to_parquet(out)
    else:
        table.to_csv(out)
    typer.echo(f"{len(table)} rows: {out}")
