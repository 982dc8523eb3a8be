"""What a server keeps up for weeks: memory over many loads, logs of bounded size, files that are accepted."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tiny_models
import yaml

from headway.config.schema import json_schema
from headway.config.serving import Serving
from headway.core.protocols import LogRow
from headway.record.log import read_log
from headway.serve.event_log import RetainedLog
from headway.wiring.serving import Server

ROOT = Path(__file__).parents[2]
LANE = {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to tell resident memory")
def test_memory_and_files_stay_flat_over_many_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    tiny_models.put(tmp_path / "models", "lookup", 1, tiny_models.lookup())
    serving = Serving.from_mapping(
        {"hardware": LANE, "repository": {"path": "models", "load": "none"}}, tmp_path
    )
    server = Server(serving, lambda words: None)
    try:
        server.load()
        for load in range(150):
            server.models.load("lookup").result(60)
            server.models.unload("lookup").result(60)
            if load == 49:
                before, files = resident_bytes(), descriptors()
        gc.collect()
        assert resident_bytes() - before < 10e6
        assert descriptors() <= files + 5
        assert not server._installation._in_use
        assert not server._executor._sessions  # type: ignore[attr-defined]
        left = list(Path(server._intake._folder.name).iterdir())
        assert len(left) <= 1, "files go with the model"
    finally:
        server.close(10.0)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_event_log_begins_parts_and_removes_the_oldest(tmp_path: Path) -> None:
    now_s = [1.8e9]
    metadata: dict[str, Any] = {"policy": "edf"}
    log = RetainedLog(tmp_path / "log", metadata, 60.0, 20e3, clock=lambda: now_s[0])
    for minute in range(30):
        now_s[0] = 1.8e9 + 60.0 * minute
        for second in range(20):
            log.add(LogRow(60.0 * minute + second, "end"))
    log.close()
    parts = sorted((tmp_path / "log").iterdir())
    assert 1 < len(parts) < 30
    assert len({part.name for part in parts}) == len(parts)
    rows = [read_log(part) for part in parts]
    assert [row.table.num_rows for row in rows] == [20] * len(parts)
    size = sum(file.stat().st_size for part in parts for file in part.iterdir())
    assert size < 20e3 + 2 * size / len(parts), "at most the bound and the part that is being written"


def test_a_log_that_cannot_be_written_ends_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("a file where a folder should be")
    log = RetainedLog(tmp_path / "log", {}, 60.0, 1e6)
    log.add(LogRow(0.0, "end"))
    log.add(LogRow(1.0, "end"))
    log.close()
    assert capsys.readouterr().err.count("event log ends") == 1


def test_the_example_and_the_guides_configuration_are_accepted(tmp_path: Path) -> None:
    example = Serving.load(ROOT / "examples" / "serve.yaml")
    assert [tenant.name for tenant in example.tenants] == ["web", "batch", "operator"]
    guide = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    whole, repository = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert Serving.from_yaml(whole).tenants[0].burst == 20
    (tmp_path / "models").mkdir()
    both = {"hardware": "cpu-lanes", **yaml.safe_load(repository)}
    assert Serving.from_mapping(both, tmp_path).repository is not None


def test_the_schema_accepts_what_is_accepted_and_no_key_in_clear() -> None:
    validator = jsonschema.Draft202012Validator(json_schema("serving"))
    example = yaml.safe_load((ROOT / "examples" / "serve.yaml").read_text(encoding="utf-8"))
    assert list(validator.iter_errors(example)) == []
    example["tenants"][0]["keys"] = ["hw_web-example"]
    example["models"][0]["colour"] = "red"
    assert len(list(validator.iter_errors(example))) == 2


def test_a_scenario_is_served_without_keys() -> None:
    serving = Serving.load(ROOT / "examples" / "live.yaml", {"listen": {"http": 0}})
    assert [model.name for model in serving.models] == ["keyword", "camera", "search"]
    assert [tenant.models for tenant in serving.tenants] == [("keyword",), ("camera",), ("search",)]
    assert serving.tenants[0].sla is not None
    assert serving.tenants[0].sla.isolated == 8.0
    assert not serving.has_keys
    assert serving.listen.http == 0
    assert serving.listen.grpc == 8001
