"""The `headway` command: its options, and how errors reach the user."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from headway.cli import (
    calibrate,
    cost,
    evaluate,
    export,
    hardware,
    inspect,
    keys,
    live,
    plan,
    schema,
    serve,
    simulate,
    suite,
    sweep,
    top,
    zoo,
)
from headway.core.errors import HeadwayError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EXIT_USAGE = 2

app = typer.Typer(
    name="headway",
    help="Schedule many tenants' model inference on shared hardware so that each latency SLA holds.",
    epilog="Begin with a scenario file: `headway schema scenario` describes it, `headway hardware list` and "
    "`headway zoo list` show what it can name; then `headway compare SCENARIO --out DIR` writes a report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headway {version('headway')}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    # The callback of --version does its work; without commands of its own this function still
    # makes Typer treat the application as a group.
    del version


for _group in (
    simulate,
    evaluate,
    sweep,
    plan,
    live,
    serve,
    top,
    keys,
    export,
    inspect,
    calibrate,
    cost,
    hardware,
    zoo,
    schema,
    suite,
):
    _group.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit status: 0 done; 2 a usage error, a `HeadwayError`, or a file that cannot be read or
    written, said in one message on standard error; 130 interrupted (by Typer).

    Args:
        arguments: what follows the program's name; `sys.argv[1:]` if None.
    """
    try:
        app(args=arguments, prog_name="headway")
    except HeadwayError as error:
        _fail(str(error))
    except OSError as error:
        if error.filename is not None:
            _fail(f"{error.filename}: {error.strerror}")
        if error.errno in NO_ROOM:
            _fail(f"a file cannot be written to its end: {error.strerror}")
        raise


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(EXIT_USAGE)
