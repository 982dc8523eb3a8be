"""`headway export` writes what the log holds."""

import csv

import pytest

from headway.cli import app
from headway.core.protocols import LogRow
from headway.record.log import ArrowLog


@pytest.fixture
def headway(capsys):
    """Runs the command line; gives exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ending:
            app.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return ending.value.code or 0, out, err

    return run


@pytest.fixture
def log(tmp_path):
    """A log of three rows."""
    with ArrowLog(tmp_path / "log", {"policy": "edf"}) as sink:
        sink.add(LogRow(0.0, "arrive", 1, "t", "m", deadline_s=2.0))
        sink.add(LogRow(1.0, "reply", 1, "t", "m", outcome="done"))
        sink.add(LogRow(1.0, "end"))
    return tmp_path / "log"


def test_csv_has_a_row_for_each_row_of_the_log(headway, log, tmp_path):
    code, out, _ = headway("export", log, "--out", tmp_path / "new" / "log.csv")
    assert code == 0
    assert out.startswith("3 rows")
    rows = list(csv.DictReader((tmp_path / "new" / "log.csv").open()))
    assert [row["event"] for row in rows] == ["arrive", "reply", "end"]
    assert rows[0]["deadline_s"] == "2"
    assert rows[2]["tenant"] == ""


def test_parquet_keeps_the_description(headway, log, tmp_path):
    from pyarrow import parquet

    assert headway("export", log, "--out", tmp_path / "log.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "log.parquet")
    assert table.num_rows == 3
    assert b'"policy":"edf"' in table.schema.metadata[b"headway"]


def test_other_kinds_and_existing_files_are_refused(headway, log, tmp_path):
    code, _, err = headway("export", log, "--out", tmp_path / "log.txt")
    assert (code, "accepted: a name that ends in .parquet or .csv" in err) == (2, True)
    there = tmp_path / "log.csv"
    there.write_text("mine")
    code, _, err = headway("export", log, "--out", there)
    assert (code, "exists" in err, there.read_text()) == (2, True, "mine")
    assert headway("export", log, "--out", there, "--force")[0] == 0


def test_a_folder_without_a_log_is_named(headway, tmp_path):
    code, _, err = headway("export", tmp_path, "--out", tmp_path / "log.csv")
    assert code == 2
    assert "no event log here" in err
