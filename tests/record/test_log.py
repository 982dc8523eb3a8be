from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyarrow import parquet

from headway.core.errors import HeadwayError
from headway.core.protocols import LogRow
from headway.record.log import ROWS_PER_BATCH, ArrowLog, MemoryLog, read_log

FULL = LogRow(
    1.5,
    "progress",
    7,
    "téa",
    "resnet",
    3,
    0,
    5,
    "fused",
    "0+2",
    1.25,
    2.0,
    0.5,
    1.75,
    0.4,
    1e6,
    2.0,
    3.0,
    4.0,
    "done",
    "why",
)
BARE = LogRow(2.0, "end")


def write(
    folder: Path, rows: list[LogRow], rows_per_segment: int = 1 << 20, **metadata: object
) -> list[Path]:
    with ArrowLog(folder, {"policy": "edf", **metadata}, rows_per_segment) as log:
        for row in rows:
            log.add(row)
    return sorted(folder.iterdir())


def read_rows(folder: Path) -> list[LogRow]:
    return [LogRow(**row) for row in read_log(folder).table.to_pylist()]


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    write(tmp_path, [FULL, BARE], seed=7)

    log = read_log(tmp_path)

    assert [LogRow(**row) for row in log.table.to_pylist()] == [FULL, BARE]
    assert log.metadata == {"policy": "edf", "seed": 7}
    assert log.end_s == 2.0


def test_memory_and_files_hold_the_same(tmp_path: Path, synthetic: ModuleType) -> None:
    rows = synthetic.rows_of(synthetic.description())
    write(tmp_path, rows)
    memory = MemoryLog({})
    for row in rows:
        memory.add(row)

    assert len(rows) > ROWS_PER_BATCH
    assert memory.table().table.to_pylist() == read_log(tmp_path).table.to_pylist()


def test_memory_log_goes_on_after_it_was_looked_at() -> None:
    log = MemoryLog({})
    log.add(FULL)
    assert len(log.table()) == 1
    log.add(BARE)
    assert log.table().where("end").tolist() == [1]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path, synthetic: ModuleType) -> None:
    rows = synthetic.rows_of(synthetic.description())
    first, second = (write(tmp_path / name, rows, 4_000) for name in ("a", "b"))

    assert len(first) > 1
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_segments_rotate_and_join(tmp_path: Path) -> None:
    rows = [FULL._replace(time_s=float(at), tenant=f"tenant {at}") for at in range(10)]

    files = write(tmp_path, rows, rows_per_segment=4)

    assert [file.name for file in files] == ["log-00000.arrows", "log-00001.arrows", "log-00002.arrows"]
    assert read_rows(tmp_path) == rows
    codes, values = read_log(tmp_path).codes("tenant")
    assert [values[code] for code in codes] == [row.tenant for row in rows]


def test_an_earlier_log_in_the_folder_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, [FULL] * 9, rows_per_segment=2)
    (tmp_path / "notes.txt").write_text("mine")

    write(tmp_path, [BARE])

    assert sorted(file.name for file in tmp_path.iterdir()) == ["log-00000.arrows", "notes.txt"]


def test_an_exception_keeps_the_rows(tmp_path: Path) -> None:
    def break_off() -> None:
        with ArrowLog(tmp_path, {}) as log:
            log.add(FULL)
            raise KeyError

    with pytest.raises(KeyError):
        break_off()

    assert read_rows(tmp_path) == [FULL]


@pytest.mark.parametrize("kept", [0.99, 0.6])
def test_a_cut_off_segment_reads_up_to_its_last_whole_batch(tmp_path: Path, kept: float) -> None:
    rows = [FULL._replace(request=at) for at in range(3 * ROWS_PER_BATCH)]
    (file,) = write(tmp_path, rows)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])

    with pytest.warns(UserWarning, match=r"log-00000\.arrows: cut off"):
        found = read_rows(tmp_path)

    assert len(found) in (ROWS_PER_BATCH, 2 * ROWS_PER_BATCH)
    assert found == rows[: len(found)]


def test_a_log_that_was_never_closed_can_be_read(tmp_path: Path) -> None:
    log = ArrowLog(tmp_path, {})
    for _ in range(ROWS_PER_BATCH + 1):
        log.add(FULL)

    assert read_rows(tmp_path) == [FULL] * ROWS_PER_BATCH
    log.close()
    assert len(read_log(tmp_path)) == ROWS_PER_BATCH + 1


def test_a_last_segment_cut_before_its_schema_is_passed_over(tmp_path: Path) -> None:
    files = write(tmp_path, [FULL] * 4, rows_per_segment=2)
    files[-1].write_bytes(files[-1].read_bytes()[:20])

    with pytest.warns(UserWarning, match="cut off"):
        assert read_rows(tmp_path) == [FULL] * 2


def test_damage_before_the_last_segment_is_refused(tmp_path: Path) -> None:
    files = write(tmp_path, [FULL] * 4, rows_per_segment=2)
    files[0].write_bytes(files[0].read_bytes()[:-100])

    with pytest.raises(HeadwayError, match=r"log-00000\.arrows: not a readable segment"):
        read_log(tmp_path)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="no event log here"):
        read_log(tmp_path)
    with pytest.raises(HeadwayError, match="no event log here"):
        read_log(tmp_path / "missing")
    (tmp_path / "log-00000.arrows").write_text("hello")
    with pytest.raises(HeadwayError, match="not a readable segment"):
        read_log(tmp_path)
    with pa.ipc.new_stream(tmp_path / "log-00000.arrows", pa.schema([("x", pa.int8())])):
        pass
    with pytest.raises(HeadwayError, match="no 'headway' metadata"):
        read_log(tmp_path)


def test_missing_and_foreign_segments_are_refused(tmp_path: Path) -> None:
    files = write(tmp_path, [FULL] * 6, rows_per_segment=2)
    other = write(tmp_path / "other", [FULL], policy="fcfs")
    files[1].write_bytes(other[0].read_bytes())
    with pytest.raises(HeadwayError, match=r"log-00001\.arrows: is of another run"):
        read_log(tmp_path)
    files[1].unlink()
    with pytest.raises(HeadwayError, match=r"segment log-00001\.arrows is missing"):
        read_log(tmp_path)


def test_adding_to_a_closed_log_raises(tmp_path: Path) -> None:
    log = ArrowLog(tmp_path, {}, rows_per_segment=1)
    log.close()
    log.close()
    with pytest.raises(RuntimeError, match="closed"):
        log.add(BARE)


def test_exports_hold_every_row(tmp_path: Path) -> None:
    write(tmp_path / "log", [FULL, BARE])
    log = read_log(tmp_path / "log")

    log.to_parquet(tmp_path / "log.parquet")
    log.to_csv(tmp_path / "log.csv")

    back = parquet.read_table(tmp_path / "log.parquet")
    assert back.to_pylist() == log.table.to_pylist()
    assert b"headway" in back.schema.metadata
    with (tmp_path / "log.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] | {"tenant": "téa", "cores": "0+2", "share": "0.4", "request": "7"} == rows[0]
    assert [rows[1]["event"], rows[1]["request"], rows[1]["share"]] == ["end", "", ""]
    assert list(rows[0]) == list(LogRow._fields)


def test_columns_without_values(tmp_path: Path) -> None:
    write(tmp_path, [BARE, FULL])
    log = read_log(tmp_path)

    assert log.integers("request").tolist() == [-1, 7]
    assert log.strings("tenant").tolist() == [None, "téa"]
    assert str(log.floats("share").tolist()) == "[nan, 0.4]"
    assert log.where("start").tolist() == []
