"""`headway inspect --predict`: what a model's blocks should take on this machine's lanes, before any run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headway.wiring.calibration import Prediction

Predict = Annotated[
    bool,
    typer.Option(
        "--predict",
        help="Show instead how it would be cut for this machine's lanes, and what its blocks should take, "
        "before any run.",
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Of the lane, with --predict.")]

_FILE_WIDTH = 140
_SHOWN_OPERATORS = 4


def show(model: str, threads: int, dims: Mapping[str, int], *, as_json: bool) -> None:
    """Print predicted latencies of a model's blocks on a lane of so many threads."""
    from rich.console import Console

    from headway.wiring.calibration import predict_model

    with Console(stderr=True).status(f"Optimising {model}"):
        found = predict_model(model, threads, dims)
    if as_json:
        typer.echo(json.dumps(_document(found), indent=2))
        return
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    console.print(_table(found))
    total = found.total
    console.print(
        f"{found.name}: {_ms(total.mean_s)} ms alone with {threads} "
        f"{'thread' if threads == 1 else 'threads'}, {_ms(total.low_s)} to {_ms(total.high_s)} ms in"
        f" {found.interval:.0%} of cases; {found.basis}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _document(found: Prediction) -> dict[str, Any]:
    def latency(of: Any) -> dict[str, float]:
        return {"mean_s": of.mean_s, "low_s": of.low_s, "high_s": of.high_s}

    return {
        "name": found.name,
        "threads": found.threads,
        "interval": found.interval,
        "basis": found.basis,
        "total": latency(found.total),
        "blocks": [
            {
                "operators": list(block.operators),
                "flops": block.flops,
                "moved_bytes": block.moved_bytes,
                **latency(block.latency),
            }
            for block in found.blocks
        ],
    }


def _table(found: Prediction) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("block", justify="right")
    table.add_column("operators", overflow="fold")
    for title in ("MFLOP", "MB moved", "ms", "low", "high"):
        table.add_column(title, justify="right", no_wrap=True)
    for index, block in enumerate(found.blocks):
        counts = Counter(block.operators).most_common()
        shown = ", ".join(f"{count} {name}" for name, count in counts[:_SHOWN_OPERATORS])
        latency = block.latency
        table.add_row(
            str(index),
            shown + (", ..." if len(counts) > _SHOWN_OPERATORS else ""),
            f"{block.flops / 1e6:.3g}",
            f"{block.moved_bytes / 1e6:.3g}",
            _ms(latency.mean_s),
            _ms(latency.low_s),
            _ms(latency.high_s),
        )
    return table
