"""`headway zoo`: list the standard models and write one as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headway.core.errors import HeadwayError

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
    """List the models with their parameters and default inputs."""
    from headway.models import zoo

    entries = [zoo.describe(name) for name in zoo.names()]
    parameters = {name: zoo.count_parameters(name) for name in zoo.names()}
    if as_json:
        models = [
            {
                "name": entry.name,
                "family": entry.family,
                "summary": entry.summary,
                "params": parameters[entry.name],
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

    from rich.console import Console
    from rich.table import Table

    table = Table(title="Zoo models, at their default options")
    table.add_column("Name", no_wrap=True)
    table.add_column("Family", no_wrap=True)
    table.add_column("Parameters", justify="right", no_wrap=True)
    table.add_column("Inputs")
    table.add_column("Options")
    for entry in entries:
        options = ", ".join(f"{option.name}={option.default}" for option in entry.options)
        table.add_row(entry.name, entry.family, f"{parameters[entry.name]:,}", entry.inputs, options)
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
