"""`headway zoo`: list the standard models and write one as an ONNX file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    import onnx

app = typer.Typer(
    name="zoo",
    help="Standard models with seeded random weights, generated on the spot.",
    no_args_is_help=True,
)


def register(parent: typer.Typer) -> None:
    """Add the group `zoo` to the command line."""
    parent.add_typer(app)


@app.command("list")
def list_models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with each model's source and options.")
    ] = False,
) -> None:
    """List the models with their parameters and, at the default options, MACs and shapes for one item."""
    from headway.models import zoo

    entries = [zoo.describe(name) for name in zoo.names()]
    graphs = {name: zoo.build(name, weights=False) for name in zoo.names()}
    if as_json:
        models = [
            {
                "name": entry.name,
                "family": entry.family,
                "summary": entry.summary,
                "params": zoo.count_parameters(graphs[entry.name]),
                "macs": zoo.count_macs(graphs[entry.name]),
                "inputs": entry.inputs,
                "source": entry.source,
                "options": [
                    {
                        "name": option.name,
                        "default": option.default,
                        "accepted": option.accepted,
                        "meaning": option.meaning,
                    }
                    for option in entry.options
                ],
            }
            for entry in entries
        ]
        typer.echo(json.dumps({"models": models}, indent=2))
        return

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("Name", "Parameters", "GMACs", "Input", "Options"):
        numeric = title in {"Parameters", "GMACs"}
        table.add_column(title, justify="right" if numeric else "left", no_wrap=True)
    for entry in entries:
        model = graphs[entry.name]
        parameters, gmacs = f"{zoo.count_parameters(model):,}", f"{zoo.count_macs(model) / 1e9:.3f}"
        options = "\n".join(f"{option.name}={option.default}" for option in entry.options)
        table.add_row(entry.name, parameters, gmacs, _item_shapes(model), options)
    Console().print(table)


@app.command("build")
def build_model(
    name: Annotated[str, typer.Argument(help="A name that `headway zoo list` shows.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The .onnx file to write.", show_default=False)],
    batch: Annotated[int, typer.Option("--batch", help="Leading dimension of every input.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random weights.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option of the model, such as image_size=320; repeatable.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Build a model and write it as an ONNX file.

    Weights of more than 1.5 GiB go to a file beside it.
    """
    from rich.console import Console

    from headway.models import zoo

    options = _parsed(option or [])
    zoo.check_target(out, overwrite=force)
    with Console(stderr=True).status(f"Building {name}"):
        model = zoo.build(name, batch=batch, seed=seed, weights=True, **options)
        written = zoo.save(model, out, overwrite=force)
    for file in written:
        typer.echo(f"{file}  {file.stat().st_size:,} bytes")


def _item_shapes(model: onnx.ModelProto) -> str:
    """The inputs' shapes without the batch; several equal ones as NUMBER*SHAPE."""
    shapes = Counter(
        "x".join(str(dim.dim_value) for dim in given.type.tensor_type.shape.dim[1:])
        for given in model.graph.input
    )
    return ", ".join(shape if count == 1 else f"{count}*{shape}" for shape, count in shapes.items())


def _parsed(settings: list[str]) -> dict[str, int]:
    options: dict[str, int] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise HeadwayError(f"--option {setting!r}: accepted: KEY=VALUE, for example image_size=320")
        if key in options:
            raise HeadwayError(f"--option {key}: given twice")
        if key in {"batch", "seed", "weights"}:
            raise HeadwayError(
                f"--option {setting!r}: {key} is no option of a model; see `headway zoo build -h`"
            )
        try:
            options[key] = int(value)
        except ValueError:
            raise HeadwayError(
                f"--option {setting!r}: the value is {value!r}; accepted: a whole number"
            ) from None
    return options
