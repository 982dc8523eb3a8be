"""`headway evaluate blocks`: lane policies on simulated lanes, from light load to overload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from headway.cli.common import PolicyFile
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
    numbers_of,
    policy_files_of,
    run_all,
    seeds_of,
)

POLICIES: Final = (
    "edf,laxity,edf:planned,split,gslice,abacus,skadi,headway,headway:oracle-overlap,headway:no-calibration,"
    "headway:no-margin,headway:no-fluid,headway:barrier"
)

SHOWN: Final = ("device", "policy", "violations", "work in time", "over skadi", "new models' first")
_Numbers = str | None


def evaluate_blocks_command(
    out: OutFolder = None,
    full: Annotated[
        bool, typer.Option("--full", help="All points, with 20,000 requests in each; takes hours.")
    ] = False,
    devices: Annotated[
        _Numbers, typer.Option(metavar="NAME,...", help="Of lanes, streams, gpu, gpu-large; by default all.")
    ] = None,
    models: Annotated[_Numbers, typer.Option(metavar="N,...", help="How many at a time.")] = None,
    utilisations: Annotated[
        _Numbers, typer.Option(metavar="U,...", help="1 is one request after the other without a pause.")
    ] = None,
    slas: Annotated[_Numbers, typer.Option(metavar="X,...", help="Multiples of the time alone.")] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="In each point, over all seeds; five times that with new models."
        ),
    ] = None,
    newcomers: Annotated[
        bool, typer.Option(help="Also points in which a new model comes every ten seconds.")
    ] = True,
    policies: Policies = None,
    seeds: Seeds = None,
    workers: Workers = None,
    ray: RayAddress = None,
    policy_file: PolicyFile = None,
) -> None:
    """Compare lane policies on simulated lanes and GPUs, from light load to overload.

    Violations count drops and rejections. Writes runs.csv, summary.csv and report.html. An interrupted run
    goes on where it stopped. Takes a few minutes; with --full hours. Exit status 1: some runs failed.
    """
    from rich.console import Console

    from headway.record.block_outputs import (
        means_table,
        pooled,
        rich_table,
        violations_table,
        write_blocks,
    )
    from headway.scale.block_tasks import FULL, BlockGrid, block_tasks

    files = policy_files_of(policy_file)
    grid = FULL if full else BlockGrid()
    if devices is not None:
        grid = replace(grid, devices=tuple(names_of(devices, "--devices")))
    if models is not None:
        grid = replace(grid, models=tuple(int(each) for each in numbers_of(models, "--models", whole=True)))
    if utilisations is not None:
        grid = replace(grid, utilisations=tuple(numbers_of(utilisations, "--utilisations")))
    if slas is not None:
        grid = replace(grid, slas=tuple(numbers_of(slas, "--slas")))
    if seeds is not None:
        grid = replace(grid, seeds=tuple(seeds_of(seeds)))
    if requests is not None:
        grid = replace(grid, requests=requests)
    if not newcomers:
        grid = replace(grid, newcomer_models=None)
    tasks = block_tasks(grid, names_of(POLICIES if policies is None else policies, "--policies"))
    folder = Path("out") / "blocks" if out is None else out
    rows = run_all(tasks, folder, backend_of(workers, ray), files)
    written = write_blocks(folder, rows, about(grid.seeds))
    console = Console()
    cells = pooled(rows)
    if cells:
        console.print(rich_table("Violations, %", violations_table(cells)))
        console.print(rich_table("Means by device", means_table(cells), SHOWN))
    console.print(
        f"Runs:    {written.runs}\nSummary: {written.summary}\nReport:  {written.report}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    end_with(rows)
