"""`headway evaluate predictor`: errors of overlap predictors on pairs that they were not taught."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.many import OutFolder, about
from headway.core.errors import HeadwayError


def evaluate_predictor_command(
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            "--measured",
            metavar="FILE",
            help="Pairs that bench/overlap_measure.py measured; repeatable.",
            show_default=False,
        ),
    ] = None,
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="NAME", help="Of the simulated pairs; `none` leaves them out.")
    ] = "a100-sxm-40gb",
    pairs: Annotated[
        int, typer.Option("--pairs", metavar="N", min=100, max=100_000, help="In a simulated sample.")
    ] = 2_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of all draws.")] = 0,
    out: OutFolder = None,
) -> None:
    """Teach overlap predictors some pairs and ask them about others: models, families and batches left out.

    Writes errors.csv, learning.csv, costs.csv and report.html. With the same files and seed all but costs.csv
    comes out the same. Takes some minutes. Needs `pip install "headway[train]"`.
    """
    from rich.console import Console

    from headway.record.block_outputs import rich_table
    from headway.record.predictor_outputs import write_predictor
    from headway.scale.evaluate import require_folder
    from headway.wiring.predictor import evaluate_predictors

    simulated = None if gpu == "none" else gpu
    if simulated is None and not measured:
        raise HeadwayError("--gpu none without --measured; accepted: at least one of the two")
    folder = Path("out") / "predictor" if out is None else out
    require_folder(folder)
    progress = Console(stderr=True)
    with progress.status("pairs") as status:
        samples = evaluate_predictors(measured or [], simulated, pairs, seed, status.update)
    written = write_predictor(folder, samples, about([seed]))
    console = Console()
    for each in samples:
        console.print(rich_table(f"{each.sample}: {each.pairs:,} pairs", each.errors_table()))
        console.print(rich_table("After overlaps of its own, family left out", each.curve_table()))
        console.print(rich_table("Processor time of one prediction", each.costs_table()))
    console.print(
        f"Errors:   {written.errors}\nLearning: {written.curve}\nCosts:    {written.costs}\n"
        f"Report:   {written.report}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
