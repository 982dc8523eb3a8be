"""The child's side of an IntakeProcess: takes models in until the other end closes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from headway.core.errors import HeadwayError
from headway.live.profiler import Intake
from headway.serve.repository import ModelSource

LOWEST_PRIORITY: Final = 19


def take_in_here(source: ModelSource, key: str, widths: Mapping[int, Sequence[int]]) -> Intake | str:
    """Take a model in, or say why that cannot be."""
    from headway.live.cache import ProfileCache
    from headway.live.profiler import take_in
    from headway.models.reading import zoo_model

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # profiles that are measured again: the server's log is no place
            if source.path is None:
                built = zoo_model(source.zoo, source.options, weights=True)
                return take_in(built, widths, name=key, cache=ProfileCache())
            return take_in(source.path, widths, name=key, dims=dict(source.dims), cache=ProfileCache())
    except HeadwayError as error:
        return str(error)
    except Exception as error:
        # Models are written by others: whatever reading one raises must not end the server's loading.
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Serve the socket whose descriptor is the program's argument."""
    with suppress(OSError, AttributeError):
        os.nice(LOWEST_PRIORITY)
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        while True:
            answer = take_in_here(*connection.recv())
            if isinstance(answer, Intake):
                answer.split.workspace.give_away()
            connection.send(answer)
            del answer
