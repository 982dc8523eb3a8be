"""Rows of finished runs on disk: append-only, so that whatever stops an evaluation loses none of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from headway.core.errors import HeadwayError
from headway.record.evaluation import Row

PARTS: Final = "parts"


class Part:
    """One worker's file: a line of JSON for each run that it finished."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = Path(folder) / PARTS / f"{name}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, row: Row) -> None:
        """Append a row; it is on its way to the disk when this returns. Raises HeadwayError if it cannot."""
        line = json.dumps(_told(row), allow_nan=False, ensure_ascii=False) + "\n"
        try:
            with open(self._path, "ab") as file:
                # First ends a line that an earlier process of the same name left cut off.
                file.write(b"\n" + line.encode() if file.tell() and not self._ended() else line.encode())
        except OSError as error:
            raise HeadwayError(
                f"--out: {self._path} cannot be written: {error.strerror}; what is in it stays, and the same"
                " command goes on from there once there is room"
            ) from None

    def _ended(self) -> bool:
        with open(self._path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def finished(folder: Path) -> dict[str, Row]:
    """The runs that were finished in a folder, by key; those that failed are not, so that they run again.

    A line that was cut off is left out.
    """
    return {row["key"]: row for row in _lines(Path(folder) / PARTS) if not row["failed"]}


def _lines(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                row = json.loads(line, object_hook=_untold)
            except ValueError:  # cut off
                continue
            if isinstance(row, dict) and "key" in row:
                yield row


def _told(value: Any) -> Any:
    """The same with infinity, which JSON does not have, told in another way."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, dict):
        return {key: _told(item) for key, item in value.items()}
    return [_told(item) for item in value] if isinstance(value, list) else value


def _untold(value: dict[str, Any]) -> Any:
    return float(value["float"]) if value.keys() == {"float"} else value
