"""The model that a command is given, and the sizes of its dimensions."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.core.errors import HeadwayError

ModelArgument = Annotated[
    str,
    typer.Argument(
        help="An ONNX file, a layer table (.csv of SCALE-Sim, .yaml of ZigZag, .m of MAESTRO, with "
        "#NETWORK where it holds several), or a name that `headway zoo list` shows.",
        show_default=False,
    ),
]
Dim = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Size of a symbolic dimension, by its name or as INPUT.AXIS; of a zoo model, batch or one "
        "of its options. Repeatable.",
    ),
]


def parsed_sizes(settings: list[str] | None) -> dict[str, int]:
    """The sizes that `--dim` gives. Raises HeadwayError for one that is not NAME=SIZE."""
    sizes: dict[str, int] = {}
    for setting in settings or []:
        name, separator, value = setting.rpartition("=")
        if not separator or not name:
            raise HeadwayError(f"--dim {setting!r}: accepted: NAME=SIZE, for example batch=1")
        if name in sizes:
            raise HeadwayError(f"--dim {name}: given twice")
        try:
            sizes[name] = int(value)
        except ValueError:
            raise HeadwayError(
                f"--dim {setting!r}: the size is {value!r}; accepted: a whole number"
            ) from None
    return sizes
