from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.core.protocols import LogRow
from headway.record.metrics import summarise
from headway.record.results import write_results, write_text

REQUIRED = {
    "requests", "sla_satisfaction", "late", "dropped", "rejected", "failed", "cancelled", "unfinished",
    "p50_ms", "p95_ms", "p99_ms",
}  # fmt: skip


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def test_the_contract(tmp_path: Path, synthetic: ModuleType) -> None:
    summaries = {name: summarise(synthetic.synthetic_log(name, load=1.2)) for name in ("edf", "lucas:lbl")}
    path = tmp_path / "out" / "results.json"

    write_results(path, summaries)

    results = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_constant)
    assert results["format"] == 1
    assert results["seed"] == 7
    assert results["scenario"]["name"] == "three tenants"
    assert results["versions"] == {"headway": "0.1.0"}
    assert list(results["policies"]) == ["edf", "lucas:lbl"]
    for policy in results["policies"].values():
        assert set(policy["total"]) >= REQUIRED
        assert list(policy["tenants"]) == ["camera", "search", "chat"]
        assert all(set(tenant) >= REQUIRED for tenant in policy["tenants"].values())
        assert sum(tenant["requests"] for tenant in policy["tenants"].values()) == policy["total"]["requests"]
        assert set(policy["cores"]) == {"tpu0", "tpu1", "meta2", "meta3"}
        assert 0 < policy["dram_utilisation"] < 1


def test_what_is_infinite_or_undefined_is_null(tmp_path: Path, synthetic: ModuleType) -> None:
    asked = (1, "a", "m")
    rows = [
        LogRow(0.0, "arrive", *asked, deadline_s=1.0, isolated_s=0.5),
        LogRow(0.5, "reply", *asked, outcome="dropped"),
    ]
    device = {"name": "d", "cores": [], "dram_bandwidth_bytes_s": float("inf")}
    log = synthetic.log_of(rows, {"tenants": [], "device": device, "scenario": {"deadlines": [float("inf")]}})

    write_results(tmp_path / "results.json", {"edf": summarise(log)})

    results = json.loads((tmp_path / "results.json").read_text(), parse_constant=no_constant)
    total = results["policies"]["edf"]["total"]
    assert (total["p99_ms"], total["p99_ms_with_drops"], total["antt_with_drops"]) == (None, None, None)
    assert results["device"]["dram_bandwidth_bytes_s"] is None
    assert results["scenario"]["deadlines"] == [None]


def test_the_same_log_gives_the_same_file(tmp_path: Path, synthetic: ModuleType) -> None:
    for name in ("a", "b"):
        write_results(tmp_path / name, {"edf": summarise(synthetic.synthetic_log())})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_text(path, "first")

    def full_disk(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "second")

    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["results.json"]
