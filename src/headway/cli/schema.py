"""`headway schema`: the JSON Schemas of the files that users write."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class _Kind(StrEnum):
    HARDWARE = "hardware"
    SCENARIO = "scenario"
    SERVING = "serving"
    SUITE = "suite"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("schema")(_schema)


def _schema(kind: Annotated[_Kind, typer.Argument(help="Which file's schema.")]) -> None:
    """Print the JSON Schema of hardware, scenario, serving or suite files, for editors and other programs."""
    from headway.config.schema import json_schema

    typer.echo(json.dumps(json_schema(kind.value), indent=2, ensure_ascii=False))
