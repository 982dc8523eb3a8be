"""Lines of CSV files, with the places of their fields for messages."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from headway.core.errors import HeadwayError


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A line of a file, and which field of it each column is."""

    path: Path
    line: int
    places: Mapping[str, int]
    fields: Sequence[str]

    def text(self, column: str) -> str:
        """A field as it stands."""
        return self.fields[self.places[column]]

    def number(self, column: str, least: float = -inf) -> float:
        """A field as a number. Raises HeadwayError for what is none, not finite, or below `least`."""
        try:
            value = float(self.fields[self.places[column]])
        except ValueError:
            raise self.wrong(column, "a number") from None
        if not isfinite(value) or value < least:
            raise self.wrong(column, "a number" if least == -inf else f"a number from {least:g} on")
        return value

    def count(self, column: str) -> int:
        """A field as a whole number from 0 on. Raises HeadwayError for what is none."""
        value = self.number(column, least=0.0)
        if value != int(value):
            raise self.wrong(column, "a whole number")
        return int(value)

    def wrong(self, column: str, accepted: str) -> HeadwayError:
        """The error that a field is not what is accepted."""
        return HeadwayError(
            f"{self.path}:{self.line}: column {column}: found {self.text(column)!r}; accepted: {accepted}"
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


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[CsvRow]:
    """Each line of a file that has these columns; others are not read."""
    header, lines = csv_lines(path)
    for name in columns:
        if name not in header:
            raise HeadwayError(
                f"{path}:1: no column {name}; found {', '.join(header[:8])}; accepted: {', '.join(columns)}"
            )
    places = {name: header.index(name) for name in columns}
    for line, fields in lines:
        yield CsvRow(path, line, places, fields)
