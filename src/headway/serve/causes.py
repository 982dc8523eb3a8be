"""Why a model failed, in words that a client may read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

MOST_CHARACTERS: Final = 400

_PATH: Final = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?[/\\](?:[\w.+~@%-]+[/\\])+([\w.+~@%-]*)")
_CLIENTS_FAULT: Final = re.compile(
    r"out of (?:data )?bounds|indices element|must be within the inclusive range|invalid index"
    r"|Got invalid dimensions|INVALID_ARGUMENT|[Ii]nvalid input|out of range|divi(?:de|sion) by zero",
)


def without_paths(text: str, model: Path | None = None) -> str:
    """The text without where files lie here: the model's path goes, others keep their last part."""
    if model is not None:
        for path in (str(model), str(model.absolute())):
            text = text.replace(f"{path}: ", "").replace(path, model.name)
    text = " ".join(_PATH.sub(r"\1", text).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."


def is_clients_fault(cause: str) -> bool:
    """Whether a model failed by what it was given, such as an index that is out of range."""
    return _CLIENTS_FAULT.search(cause) is not None
