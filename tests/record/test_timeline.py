from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.core.protocols import LogRow
from headway.record.columns import stretches_of
from headway.record.log import LogTable
from headway.record.metrics import summarise
from headway.record.timeline import bandwidth_steps, write_timeline


@pytest.fixture(scope="module")
def log(synthetic: ModuleType) -> LogTable:
    found: LogTable = synthetic.synthetic_log("edf", load=1.0)
    return found


def trace(path: Path, log: LogTable, **options: Any) -> dict[str, Any]:
    write_timeline(path, log, **options)
    content = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return found


def of(events: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in events["traceEvents"] if event["ph"] == phase]


def test_tracks_are_named(tmp_path: Path, log: LogTable) -> None:
    names = [event["args"]["name"] for event in of(trace(tmp_path / "timeline.json", log), "M")]
    assert names[:5] == ["cores", "tpu0 (tpu)", "tpu1 (tpu)", "meta2 (meta)", "meta3 (meta)"]
    assert {"camera", "search", "chat"} <= set(names)


def test_slices_nest_and_never_overlap(tmp_path: Path, log: LogTable) -> None:
    tracks = defaultdict(list)
    for event in of(trace(tmp_path / "timeline.json", log), "X"):
        tracks[event["tid"]].append(event)
    assert set(tracks) == {0, 1, 2, 3}
    for events in tracks.values():
        open_until: list[float] = []
        for event in events:
            while open_until and event["ts"] >= open_until[-1] - 1e-6:
                open_until.pop()
            assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-6
            open_until.append(event["ts"] + event["dur"])
            assert len(open_until) <= 2


def test_busy_time_is_that_of_the_metrics(tmp_path: Path, log: LogTable) -> None:
    slices = [event for event in of(trace(tmp_path / "timeline.json", log), "X") if "args" in event]
    for core in summarise(log).cores:
        busy_us = sum(event["dur"] for event in slices if event["tid"] == core.index)
        assert busy_us == pytest.approx(core.busy_s * 1e6, rel=1e-6)
    assert {event["name"] for event in slices} == {"camera", "search", "chat"}
    some = slices[0]["args"]
    assert set(some) >= {"request", "run", "mode", "blocks", "model", "deadline_ms", "ended"}


def test_late_and_dropped_requests_are_instants(tmp_path: Path, log: LogTable) -> None:
    instants = of(trace(tmp_path / "timeline.json", log), "i")
    names = [event["name"] for event in instants]
    everything = summarise(LogTable(log.table, {**log.metadata, "warmup_s": 0.0})).total
    assert names.count("late") == everything.late > 0
    assert names.count("dropped") == everything.dropped > 0


def test_bandwidth_counter_adds_up(tmp_path: Path, log: LogTable) -> None:
    counter = of(trace(tmp_path / "timeline.json", log), "C")
    moved = sum(
        before["args"]["GB/s"] * 1e9 * (after["ts"] - before["ts"]) / 1e6
        for before, after in pairwise(counter)
    )
    assert moved == pytest.approx(summarise(log).total.dram_bytes, rel=1e-3)
    assert counter[-1]["args"]["GB/s"] == 0
    assert bandwidth_steps(stretches_of(log))[1].min() >= 0


def test_a_long_log_is_cut_off_and_says_so(tmp_path: Path, log: LogTable) -> None:
    path = tmp_path / "timeline.json"
    assert write_timeline(path, log)
    assert "cut_off" not in json.loads(path.read_text())["otherData"]

    assert not write_timeline(path, log, max_stretches=100)

    short = json.loads(path.read_text())
    assert "only the first 100 stretches" in short["otherData"]["cut_off"]
    last_us = max(event["ts"] + event["dur"] for event in of(short, "X"))
    assert all(event["ts"] <= last_us + 1e4 for event in of(short, "i"))
    assert len(of(short, "X")) < 600


def test_compressed_and_plain_are_the_same_and_repeatable(tmp_path: Path, log: LogTable) -> None:
    plain = trace(tmp_path / "timeline.json", log)
    assert trace(tmp_path / "timeline.json.gz", log) == plain
    first = (tmp_path / "timeline.json.gz").read_bytes()
    write_timeline(tmp_path / "timeline.json.gz", log)
    assert (tmp_path / "timeline.json.gz").read_bytes() == first


def test_killed_work_is_marked(tmp_path: Path, synthetic: ModuleType) -> None:
    where = (1, "a", "m", 1)
    rows = [
        LogRow(1.0, "progress", *where, 0, 1, "serial", "0", 0.0, share=1.0, dram_bytes=1.0),
        LogRow(1.0, "progress", *where, 1, 2, "serial", "0", 1.0, share=0.0),  # of no length
        LogRow(1.5, "progress", *where, 1, 2, "serial", "0", 1.0, share=0.5, reason="lost"),
    ]
    names = [event["name"] for event in of(trace(tmp_path / "t.json", synthetic.log_of(rows, {})), "X")]
    assert names == ["a", "block 0", "block 1", "block 1, lost"]


def test_an_empty_log_has_a_timeline(tmp_path: Path, synthetic: ModuleType) -> None:
    assert of(trace(tmp_path / "t.json", synthetic.log_of([], {})), "X") == []
