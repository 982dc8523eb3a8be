"""The command line: one module per group of commands."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit, as `headway.cli.app.main`; Ctrl-C may come at any moment."""
    from headway.cli.interrupts import ending_quietly

    with ending_quietly():
        from headway.cli.app import main as run

        run(arguments)
