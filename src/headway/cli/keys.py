"""`headway keys`: API keys of a server's tenants."""

from __future__ import annotations

from typing import Final

import typer

_NOTE: Final = "Shown this once. The hash goes into a tenant's `keys`, the key to whoever is that tenant."


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    keys = typer.Typer(help="API keys of a server's tenants.", no_args_is_help=True)
    keys.command("new")(_new)
    app.add_typer(keys, name="keys")


def _new() -> None:
    """Print a new key, and the hash of it that a configuration holds."""
    from headway.serve.keys import hash_of, new_key

    key = new_key()
    typer.echo(f"key:  {key}\nhash: {hash_of(key)}")
    typer.echo(_NOTE, err=True)
