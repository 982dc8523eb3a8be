"""`headway calibrate`: what this machine makes of each sort of operator, measured once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headway.wiring.calibration import Calibration


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("calibrate")(calibrate_command)


def calibrate_command(
    fast: Annotated[
        bool, typer.Option("--fast", help="Fewer networks: about a minute, and wider intervals.")
    ] = False,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="N,...",
            help="Numbers of threads of a lane; one and all processors unless given.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where the parameters go, instead of the cache folder where predictions look for them.",
        ),
    ] = None,
) -> None:
    """Measure made-up networks on this machine, so that latency can be predicted before any run.

    Takes some minutes, and the machine should have nothing else to do meanwhile. Each measurement is kept as
    it is made: after an interruption the same command goes on from there.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from headway.wiring.calibration import FAST_NETWORKS, NETWORKS, calibrate

    widths = None if threads is None else _widths(threads)
    done = total = 0
    columns = (TextColumn("measuring networks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=None)

            def on_progress(now: int, of: int) -> None:
                nonlocal done, total
                done, total = now, of
                bar.update(task, completed=now, total=of)

            result = calibrate(FAST_NETWORKS if fast else NETWORKS, widths, out, on_progress)
    except KeyboardInterrupt:
        kept = f"{done} of {total} measurements are kept; the same command goes on from there"
        typer.echo(f"interrupted: {kept}", err=True)
        raise typer.Exit(130) from None
    console = Console()
    console.print(_table(result))
    before = f", {result.kept_before} kept from before" if result.kept_before else ""
    console.print(f"{result.measured} measurements{before}; parameters in {result.path}", highlight=False)


def _widths(text: str) -> list[int]:
    from headway.core.errors import HeadwayError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise HeadwayError(
            f"--threads {text!r}: accepted: whole numbers with commas, for example 1,2"
        ) from None


def _table(result: Calibration) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("threads", "networks", "GFLOP/s", "GB/s", "us a node", "us to begin", "interval"):
        table.add_column(title, justify="right")
    for width in result.model.widths.values():
        table.add_row(
            str(width.threads),
            str(width.samples),
            f"{width.flops_s / 1e9:.1f}",
            f"{width.bandwidth_bytes_s / 1e9:.1f}",
            f"{1e6 * width.call_s:.1f}",
            f"{1e6 * width.begin_s:.0f}",
            f"{width.low:.2f} to {width.high:.2f}",
        )
    return table
