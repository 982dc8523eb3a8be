"""The comparison of a prediction with live repeats, on logs small enough to work out by hand."""

import json
from io import StringIO

import pytest

from headway.core.protocols import LogRow
from headway.record.log import MemoryLog
from headway.record.table import twin
from headway.record.twin import compare_twin, write_twin

MS = 1e-3


def log_of(latencies_ms, factor=1.0):
    """A tenant, due after 10 ms, whose requests take so long; its 2 ms blocks take `factor` times that."""
    log = MemoryLog(
        {
            "policy": "edf",
            "tenants": [{"name": "t", "model": "m", "percentile": 90.0, "strict": True}],
            "device": {"name": "lanes", "cores": [{"index": 0, "name": "lane-0", "kind": "lane"}]},
            "profiles": {"m": {"classes": ["convolution"], "seconds": [2 * MS], "isolated_s": 2 * MS}},
            "warmup_s": 0.0,
            "warmup_share": 0.0,
            "duration_s": None,
        }
    )
    at = 0.0
    for index, latency_ms in enumerate(latencies_ms):
        at = index * 0.1
        block_s = 2 * MS * factor
        end = at + latency_ms * MS
        common = {"request": index, "tenant": "t", "model": "m"}
        run = {"run": index, "first_block": 0, "end_block": 1, "mode": "serial", "cores": "0"}
        log.add(LogRow(at, "arrive", **common, deadline_s=at + 10 * MS, isolated_s=2 * MS))
        log.add(LogRow(end - block_s, "start", **common, **run))
        log.add(LogRow(end, "progress", **common, **run, start_s=end - block_s, share=1.0))
        log.add(LogRow(end, "finish", **common, **run))
        log.add(LogRow(end, "reply", **common, deadline_s=at + 10 * MS, isolated_s=2 * MS, outcome="done"))
    log.add(LogRow(at + 1.0, "end"))
    return log.table()


def test_error_is_measured_against_the_mean_and_judged_by_the_repeats():
    predicted = log_of([4, 4, 4, 4])  # all in time
    repeats = [log_of([4, 4, 12, 12]), log_of([4, 4, 4, 12])]  # 50 % and 75 %
    (tenant,) = compare_twin(predicted, repeats).tenants
    assert tenant.sla.predicted == 1.0
    assert tenant.sla.measured == pytest.approx(0.625)
    assert tenant.sla.repeat_difference == pytest.approx(0.25)
    assert tenant.sla.error == pytest.approx(0.375)
    assert tenant.sla.beyond == pytest.approx(0.125)


def test_latency_errors_are_relative():
    (tenant,) = compare_twin(log_of([5] * 4), [log_of([4] * 4), log_of([4] * 4)]).tenants
    assert tenant.p50_ms.error == pytest.approx(0.25)
    assert tenant.p50_ms.beyond == pytest.approx(0.25)


def test_one_repeat_tells_no_difference_between_repeats():
    (tenant,) = compare_twin(log_of([5] * 4), [log_of([4] * 4)]).tenants
    assert tenant.p50_ms.repeat_difference is None
    assert tenant.p50_ms.beyond is None


def test_blocks_are_compared_by_class_and_the_host_s_drift_is_shown():
    report = compare_twin(log_of([5] * 12), [log_of([5] * 12, factor=1.5)])
    (block,) = report.blocks
    assert (block.kind, block.profiled_ms) == ("convolution", pytest.approx(2.0))
    assert block.predicted_ms == pytest.approx(2.0)
    assert block.measured_ms == pytest.approx(3.0)
    assert report.drift[0] == (pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))


def test_without_a_live_run_there_is_nothing_to_compare():
    with pytest.raises(ValueError, match="at least one"):
        compare_twin(log_of([5]), [])


def test_the_file_and_the_table(tmp_path):
    from rich.console import Console

    report = compare_twin(log_of([5] * 4), [log_of([4] * 4), log_of([6] * 4)])
    write_twin(tmp_path / "twin.json", report)
    read = json.loads((tmp_path / "twin.json").read_text())
    assert read["tenants"][0]["tenant"] == "t"
    assert read["format"] == 1
    console = Console(width=100, record=True, file=StringIO())
    console.print(twin(report))
    assert "predicted" in console.export_text()
