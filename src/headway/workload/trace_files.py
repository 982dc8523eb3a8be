"""Files of recorded traces, as tables of arrivals.

Formats: Azure's LLM inference traces (Splitwise, ISCA 2024), Mooncake's conversation trace (FAST 2025) as
CSV, Azure Functions 2019 (ATC 2020; invocations per minute) and 2021 (SOSP 2021; ends and durations of single
invocations), and the GPU jobs of vHive's In-Vitro, which are laid out as the former with a file more for each
property of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from math import nan
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.config.traces import MINUTE_COUNTS, Counts, Durations, Rows, Trace, TraceFormat
from headway.core.errors import HeadwayError
from headway.workload.csv_cells import CsvRow, csv_lines, csv_rows

MINUTE_S: Final = 60.0
_MINUTE_KEYS: Final = ("HashOwner", "HashApp", "HashFunction", "Trigger")

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TraceTable:
    """A trace, one entry per row or, where the format counts, per function and minute, in order of time.

    `arrival_s` counts from the first arrival, or the first minute; `requests` is how many came then. `span_s`
    is the length of the whole trace. `names` are texts and `numbers` figures of each entry.
    """

    file: str
    arrival_s: Floats
    requests: NDArray[np.int64]
    span_s: float
    names: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    numbers: Mapping[str, Floats] = field(default_factory=dict)

    def taken(self, rows: Rows) -> Mask:
        """Which entries meet the conditions. Raises HeadwayError for a name that no entry has."""
        mask = np.ones(len(self.arrival_s), dtype=bool)
        for column in rows.columns:
            wanted = getattr(rows, column)
            if isinstance(wanted, (Counts, Durations)):
                values = self.numbers[column]
                mask &= values >= wanted.at_least
                if wanted.below is not None:
                    mask &= values < wanted.below
            else:
                mask &= self._named(column, wanted)
        return mask

    def _named(self, column: str, wanted: Sequence[str]) -> Mask:
        """Entries with one of these names: whole ones, or else those that begin so."""
        known = dict.fromkeys(self.names[column].tolist())
        chosen: set[str] = set()
        for text in wanted:
            found = {text} if text in known else {name for name in known if name.startswith(text)}
            if not found:
                some = ", ".join(list(known)[:5])
                raise HeadwayError(
                    f"{self.file}: no {column} whose name is or begins with {text!r}; it has {len(known)}: "
                    f"{some}{', ...' if len(known) > 5 else ''}"
                )
            chosen |= found
        return np.array([name in chosen for name in self.names[column]], dtype=bool)


def read_trace(process: Trace) -> TraceTable:
    """The trace of a tenant, read once for all that share it, with what its conditions are about."""
    path = Path(process.file)
    extra = tuple(column for column in process.rows.columns if column in ("duration", "batch", "iterations"))
    files = [path]
    if process.format in MINUTE_COUNTS:
        files += [_companion(path, column) for column in extra]
    return _read(process.format, path, extra, tuple(_version(file) for file in files))


def _version(file: Path) -> tuple[int, int]:
    try:
        facts = file.stat()
    except OSError as error:
        raise HeadwayError(f"{file}: {error.strerror or error}") from None
    return facts.st_mtime_ns, facts.st_size


@lru_cache(maxsize=8)
def _read(
    kind: TraceFormat, path: Path, extra: tuple[str, ...], version: tuple[tuple[int, int], ...]
) -> TraceTable:
    del version  # tells changed files apart
    if kind == "azure-llm":
        return _stamped(path, "TIMESTAMP", _stamp_s("TIMESTAMP"), "ContextTokens", "GeneratedTokens")
    if kind == "mooncake":
        return _stamped(
            path,
            "timestamp_ms",
            lambda row: row.number("timestamp_ms") / 1e3,
            "input_length",
            "output_length",
        )
    if kind == "azure-functions-2021":
        return _ends(path)
    return _minutes(path, extra)


def _stamped(
    path: Path, stamp: str, stamp_s: Callable[[CsvRow], float], first: str, second: str
) -> TraceTable:
    """Rows with a time and the tokens that went in and came out."""
    times, inputs, outputs = [], [], []
    for row in csv_rows(path, (stamp, first, second)):
        times.append(stamp_s(row))
        inputs.append(row.count(first))
        outputs.append(row.count(second))
    return _in_order(path, times, numbers={"input": inputs, "output": outputs})


def _ends(path: Path) -> TraceTable:
    """Azure Functions 2021: the arrival is the end less the duration, and rows are in no order."""
    times, functions, apps, durations = [], [], [], []
    for row in csv_rows(path, ("app", "func", "end_timestamp", "duration")):
        duration_s = row.number("duration", least=0.0)
        times.append(row.number("end_timestamp") - duration_s)
        functions.append(row.text("func"))
        apps.append(row.text("app"))
        durations.append(duration_s)
    return _in_order(path, times, names={"function": functions, "app": apps}, numbers={"duration": durations})


def _minutes(path: Path, extra: tuple[str, ...]) -> TraceTable:
    """Azure Functions 2019 and In-Vitro's jobs: numbers of invocations per function and minute."""
    average_s = _average_durations_s(_companion(path, "duration")) if "duration" in extra else {}
    values = {
        column: dict(_by_minute(_companion(path, column)))
        for column in extra
        if column in ("batch", "iterations")
    }
    times: list[float] = []
    requests: list[int] = []
    names: dict[str, list[str]] = {"function": [], "app": []}
    numbers: dict[str, list[float]] = {column: [] for column in extra}
    minutes = 0
    for key, counts in _by_minute(path):
        minutes = max(minutes, len(counts))
        for minute, count in enumerate(counts):
            if not count:
                continue
            times.append(minute * MINUTE_S)
            requests.append(count)
            names["app"].append(key[1])
            names["function"].append(key[2])
            for column in extra:
                if column == "duration":
                    # Azure's own files lack the durations of some functions: no condition takes these.
                    numbers[column].append(average_s.get(key, nan))
                    continue
                own = values[column].get(key)
                if own is None or minute >= len(own):
                    raise HeadwayError(
                        f"{_companion(path, column)}: nothing for minute {minute + 1} of function {key[2]!r}"
                    )
                numbers[column].append(own[minute])
    table = _in_order(path, times, requests=requests, names=names, numbers=numbers, from_first=False)
    return replace(table, span_s=minutes * MINUTE_S)


def _by_minute(path: Path) -> Iterator[tuple[tuple[str, str, str], list[int]]]:
    """Owner, app and function of each row, and its whole numbers of minutes 1, 2, ..."""
    header, lines = csv_lines(path)
    for name in _MINUTE_KEYS:
        if name not in header:
            raise HeadwayError(f"{path}:1: no column {name}; accepted: {', '.join(_MINUTE_KEYS)}, 1, 2, ...")
    minutes = [name for name in header if name not in _MINUTE_KEYS]
    for number, name in enumerate(minutes, start=1):
        if name != str(number):
            raise HeadwayError(f"{path}:1: found column {name!r}; accepted: {number}")
    places = {name: place for place, name in enumerate(header)}
    for line, fields in lines:
        row = CsvRow(path, line, places, fields)
        key = (row.text("HashOwner"), row.text("HashApp"), row.text("HashFunction"))
        # Nearly all are 0 in a day of Azure's.
        yield key, [0 if row.text(name) == "0" else row.count(name) for name in minutes]


def _average_durations_s(path: Path) -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = {}
    for row in csv_rows(path, ("HashOwner", "HashApp", "HashFunction", "Average")):
        key = (row.text("HashOwner"), row.text("HashApp"), row.text("HashFunction"))
        found.setdefault(key, row.number("Average", least=0.0) / 1e3)  # In-Vitro repeats rows
    return found


def _companion(path: Path, column: str) -> Path:
    """The file beside the invocations with a further property, by the names that the data sets use."""
    if "invocations" not in path.name:
        raise HeadwayError(
            f"{path}: conditions on {column} need the file beside it; accepted: a name with 'invocations' in"
            " it, in whose place the other file's has 'durations', 'batch' or 'iterations'"
        )
    official = "invocations_per_function_md"
    if column == "duration" and official in path.name:
        return path.with_name(path.name.replace(official, "function_durations_percentiles"))
    return path.with_name(path.name.replace("invocations", {"duration": "durations"}.get(column, column)))


def _stamp_s(column: str) -> Callable[[CsvRow], float]:
    """Reads a column of times such as 2023-11-16 18:17:03.9799600, in seconds after the first."""
    first: list[datetime] = []

    def seconds(row: CsvRow) -> float:
        try:
            stamp = datetime.fromisoformat(row.text(column))
            if not first:
                first.append(stamp)
            return (stamp - first[0]).total_seconds()
        except (ValueError, TypeError):
            accepted = "a time such as 2023-11-16 18:17:03.979, all with a time zone or none"
            raise row.wrong(column, accepted) from None

    return seconds


def _in_order(
    path: Path,
    times: Sequence[float],
    *,
    requests: Sequence[int] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    numbers: Mapping[str, Sequence[float]] | None = None,
    from_first: bool = True,
) -> TraceTable:
    if not times:
        raise HeadwayError(f"{path}: no request in it")
    arrival_s = np.array(times)
    if from_first:
        arrival_s = arrival_s - arrival_s.min()
    order = np.argsort(arrival_s, kind="stable")
    return TraceTable(
        str(path),
        arrival_s[order],
        np.ones(len(times), dtype=np.int64) if requests is None else np.array(requests)[order],
        float(arrival_s.max()),
        {name: np.array(values, dtype=object)[order] for name, values in (names or {}).items()},
        {name: np.array(values, dtype=np.float64)[order] for name, values in (numbers or {}).items()},
    )
