"""Layer tables that are shipped: those of XRBench, as `xrbench/NETWORK`."""

from __future__ import annotations

import difflib
import re
from importlib import resources
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph

PREFIX: Final = "xrbench/"


def is_shipped(name: str) -> bool:
    """Whether a model's name is that of a shipped table, known or not."""
    return name.startswith(PREFIX)


def shipped_names() -> tuple[str, ...]:
    """The names of the shipped tables."""
    networks = re.findall(r"^Network (\S+)", _file().read_text(encoding="utf-8"), flags=re.MULTILINE)
    return tuple(f"{PREFIX}{network}" for network in networks)


def read_shipped(name: str) -> Graph:
    """The graph of a shipped table. Raises HeadwayError, with the nearest name, if there is none."""
    from headway.models.importers.maestro_table import read_maestro_table

    known = shipped_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise HeadwayError(f"no shipped table named {name!r}{hint}; accepted: {', '.join(known)}")
    return read_maestro_table(_file(), name.removeprefix(PREFIX))


def _file() -> Path:
    return Path(str(resources.files("headway.models") / "tables" / "xrbench.m"))
