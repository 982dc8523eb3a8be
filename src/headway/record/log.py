"""The event log: append-only Arrow IPC stream segments, or the same rows in memory.

A log is a folder of segments `log-00000.arrows`, `log-00001.arrows`, ... in Arrow's IPC stream format,
one column per field of `LogRow`. Each carries the run's description as JSON in its schema's metadata
under the key `headway`. The same rows give the same bytes: nothing of the clock or the machine is
written. A stream needs no footer, so what a crash leaves behind can be read up to its last whole batch.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from headway.core.errors import HeadwayError
from headway.core.protocols import LogRow

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY: Final = b"headway"
SEGMENT_PATTERN: Final = "log-*.arrows"
ROWS_PER_BATCH: Final = 4_096
ROWS_PER_SEGMENT: Final = 1 << 20

_STRINGS: Final = frozenset({"event", "tenant", "model", "mode", "cores", "outcome", "reason"})
_INTEGERS: Final = frozenset({"request", "run", "first_block", "end_block"})


class LogTable:
    """A log that was read, or that was kept in memory: the rows and the description of the run.

    `table` is a pyarrow.Table with the columns of `LogRow`; strings are dictionary-encoded. `metadata`
    has the policy, scenario, seed, versions, device, tenants, warmup_s and duration_s.
    """

    def __init__(self, table: pa.Table, metadata: Mapping[str, Any]) -> None:
        self.table = table.unify_dictionaries()
        self.metadata = metadata
        self._floats: dict[str, NDArray[np.float64]] = {}
        self._integers: dict[str, NDArray[np.int64]] = {}
        self._codes: dict[str, tuple[NDArray[np.int32], tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def floats(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, one value per row, NaN where a row has none."""
        if name not in self._floats:
            column = self.table.column(name).cast("float64")
            self._floats[name] = column.to_numpy()
        return self._floats[name]

    def integers(self, name: str) -> NDArray[np.int64]:
        """A column of integers (ids, blocks), one value per row, -1 where a row has none."""
        if name not in self._integers:
            self._integers[name] = self.table.column(name).fill_null(-1).to_numpy()
        return self._integers[name]

    def codes(self, name: str) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """A column of strings as positions in the tuple of its distinct values, -1 where a row has none."""
        if name not in self._codes:
            column = self.table.column(name).combine_chunks()
            values = tuple(column.dictionary.to_pylist())
            self._codes[name] = (column.indices.fill_null(-1).to_numpy(zero_copy_only=False), values)
        return self._codes[name]

    def strings(self, name: str) -> NDArray[np.object_]:
        """A column of strings, one value per row, None where a row has none."""
        codes, values = self.codes(name)
        return np.array([*values, None], dtype=object)[codes]

    def where(self, event: str) -> NDArray[np.int64]:
        """Positions of the rows with that event, in order."""
        codes, values = self.codes("event")
        if event not in values:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(codes == values.index(event))

    @cached_property
    def end_s(self) -> float:
        """Time of the end of the run; of the last thing logged if the run did not get there."""
        times = self.floats("time_s")
        return float(times.max()) if len(times) else 0.0

    def to_parquet(self, path: Path) -> None:
        """Write the log as one Parquet file; the description stays in the schema's metadata."""
        from pyarrow import parquet

        parquet.write_table(self.table, path)

    def to_csv(self, path: Path) -> None:
        """Write the log as one CSV file with a header; fields that a row does not have are empty."""
        import pyarrow as pa
        from pyarrow import csv

        plain = pa.schema([(name, pa.string()) if name in _STRINGS else field for name, field in _fields()])
        csv.write_csv(self.table.cast(plain), path)


class MemoryLog:
    """A Sink that keeps the rows in memory."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = dict(metadata)
        self._schema = _schema(self.metadata)
        self._rows: list[LogRow] = []
        self._batches: list[pa.RecordBatch] = []
        _load_converters()

    def add(self, row: LogRow) -> None:
        """Append a row."""
        rows = self._rows
        rows.append(row)
        if len(rows) >= ROWS_PER_BATCH:
            self._flush()

    def table(self) -> LogTable:
        """What was logged so far."""
        import pyarrow as pa

        self._flush()
        return LogTable(pa.Table.from_batches(self._batches, self._schema), self.metadata)

    def _flush(self) -> None:
        if self._rows:
            self._batches.append(_batch(self._rows, self._schema))
            self._rows.clear()


class ArrowLog:
    """A Sink that writes segments into a folder.

    The folder is made if it is missing; segments of an earlier run in it are deleted. Rows are written
    in batches of `ROWS_PER_BATCH`, so a crash loses at most that many. Close it, or use it as a context
    manager: the rows of a run that ends in an exception are then kept too.
    """

    def __init__(
        self, directory: Path, metadata: Mapping[str, Any], rows_per_segment: int = ROWS_PER_SEGMENT
    ) -> None:
        if rows_per_segment < 1:
            raise HeadwayError(f"rows_per_segment is {rows_per_segment}; it must be at least 1")
        self.directory = Path(directory)
        self.metadata = dict(metadata)
        self.directory.mkdir(parents=True, exist_ok=True)
        _load_converters()
        for old in self.directory.glob(SEGMENT_PATTERN):
            old.unlink()
        self._schema = _schema(self.metadata)
        self._rows_per_segment = rows_per_segment
        self._rows_per_batch = min(ROWS_PER_BATCH, rows_per_segment)
        self._rows: list[LogRow] = []
        self._segments = 0
        self._in_segment = 0
        self._file: pa.OSFile | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._open_segment()

    def add(self, row: LogRow) -> None:
        """Append a row."""
        rows = self._rows
        rows.append(row)
        if len(rows) >= self._rows_per_batch:
            self._flush()

    def close(self) -> None:
        """Write what is buffered and end the last segment. Closing twice does nothing."""
        if self._file is not None:
            self._flush()
            self._close_segment()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        if self._file is None or self._writer is None:
            raise RuntimeError(f"a row was added to the log in {self.directory} after it was closed")
        if self._in_segment and self._in_segment + len(self._rows) > self._rows_per_segment:
            self._close_segment()
            self._open_segment()
        batch = _batch(self._rows, self._schema)
        self._rows.clear()  # before they are written: an interrupt must not write them twice
        self._writer.write_batch(batch)
        self._in_segment += batch.num_rows

    def _open_segment(self) -> None:
        import pyarrow as pa

        # Not a Python file: an interrupt in the middle of a batch would leave half of it.
        self._file = pa.OSFile(str(self.directory / f"log-{self._segments:05d}.arrows"), "wb")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(self._file, self._schema, options=options)
        self._segments += 1
        self._in_segment = 0

    def _close_segment(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
            self._writer = self._file = None


def read_log(path: Path) -> LogTable:
    """Read a folder of segments, or one segment file.

    If the last segment was cut off by a crash, it is read up to its last whole batch and a UserWarning
    says so. Raises HeadwayError if there is no log, if a segment is missing or is damaged before the
    end, or if segments are of different runs.
    """
    import pyarrow as pa

    path = Path(path)
    files = sorted(path.glob(SEGMENT_PATTERN)) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise HeadwayError(f"{path}: no event log here; expected segments named {SEGMENT_PATTERN}")
    if path.is_dir():
        for number, file in enumerate(files):
            if file.name != f"log-{number:05d}.arrows":
                raise HeadwayError(f"{path}: segment log-{number:05d}.arrows is missing, found {file.name}")
    schema = None
    batches: list[pa.RecordBatch] = []
    for file in files:
        found, got, damage = _read_segment(file)
        if damage is not None:
            if file is not files[-1] or (found is None and schema is None):
                raise HeadwayError(f"{file}: not a readable segment of an event log ({damage})")
            warnings.warn(f"{file}: cut off, read up to its last whole batch ({damage})", stacklevel=2)
        if found is not None:
            if schema is not None and not found.equals(schema, check_metadata=True):
                raise HeadwayError(f"{file}: is of another run than {files[0].name}")
            schema = found
            batches += got
    assert schema is not None
    description = (schema.metadata or {}).get(METADATA_KEY)
    if description is None:
        raise HeadwayError(
            f"{files[0]}: an Arrow file, but no event log: its schema has no 'headway' metadata"
        )
    return LogTable(pa.Table.from_batches(batches, schema), json.loads(description))


def _read_segment(file: Path) -> tuple[pa.Schema | None, list[pa.RecordBatch], str | None]:
    """The schema and whole batches of a segment, and what was wrong after them if anything was."""
    import pyarrow as pa

    schema, batches = None, []
    with pa.OSFile(str(file)) as source:
        try:
            reader = pa.ipc.open_stream(source)
            schema = reader.schema
            while True:
                batches.append(reader.read_next_batch())
        except StopIteration:
            return schema, batches, None
        except (pa.ArrowException, OSError) as error:
            return schema, batches, str(error).splitlines()[0]


def _fields() -> list[tuple[str, Any]]:
    import pyarrow as pa

    def kind(name: str) -> Any:
        if name in _STRINGS:
            return pa.dictionary(pa.int32(), pa.string())
        return pa.int64() if name in _INTEGERS else pa.float64()

    return [(name, pa.field(name, kind(name))) for name in LogRow._fields]


def _schema(metadata: Mapping[str, Any]) -> pa.Schema:
    import pyarrow as pa

    description = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    return pa.schema([field for _, field in _fields()], metadata={METADATA_KEY: description.encode()})


def _load_converters() -> None:
    """Load what the first batch needs: pyarrow then looks for pandas, which takes half a second and should
    not happen amid a live run."""
    import pyarrow as pa

    pa.array([None])


def _batch(rows: list[LogRow], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for field, column in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
