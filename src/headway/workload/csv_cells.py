"""Cells of CSV files, each with its place for messages."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from headway.core.errors import HeadwayError


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a file, with its place for messages."""

    path: Path
    line: int
    column: str
    text: str

    def number(self, least: float | None = None) -> float:
        try:
            value = float(self.text)
        except ValueError:
            raise self.wrong("a number") from None
        if not isfinite(value) or (least is not None and value < least):
            raise self.wrong("a number" if least is None else f"a number from {least:g} on")
        return value

    def count(self) -> int:
        value = self.number(least=0.0)
        if value != int(value):
            raise self.wrong("a whole number")
        return int(value)

    def wrong(self, accepted: str) -> HeadwayError:
        return HeadwayError(
            f"{self.path}:{self.line}: column {self.column}: found {self.text!r}; accepted: {accepted}"
        )


def csv_lines(path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header of a CSV file, and its other lines with their numbers, each as long as the header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise HeadwayError(f"{path}: {error.strerror or error}") from None
    reader = csv.reader(text.splitlines())
    header = next(reader, None)
    if header is None:
        raise HeadwayError(f"{path}: the file is empty; accepted: a header and a line for each row")

    def lines() -> Iterator[tuple[int, list[str]]]:
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise HeadwayError(
                    f"{path}:{reader.line_num}: found {len(row)} fields; accepted: {len(header)}, as many"
                    " as in the header"
                )
            yield reader.line_num, row

    return header, lines()


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """The named fields of each line; other columns are not read."""
    header, lines = csv_lines(path)
    for name in columns:
        if name not in header:
            raise HeadwayError(
                f"{path}:1: no column {name}; found {', '.join(header[:8])}; accepted: {', '.join(columns)}"
            )
    places = [(name, header.index(name)) for name in columns]
    for line, row in lines:
        yield {name: Cell(path, line, name, row[place]) for name, place in places}
