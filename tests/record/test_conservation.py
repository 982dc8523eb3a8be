from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.protocols import LogRow
from headway.record.conservation import check_conservation
from headway.record.log import LogTable

DEVICE = {"device": {"cores": [], "dram_bandwidth_bytes_s": 1e9}}


@given(seed=st.integers(0, 10_000), load=st.floats(0.3, 1.5))
@settings(deadline=None, max_examples=10)
def test_a_lawful_log_has_no_violation(synthetic: ModuleType, seed: int, load: float) -> None:
    assert check_conservation(synthetic.synthetic_log(seed=seed, load=load)) == []


def of(event: str, **fields: Any) -> Callable[[LogRow], bool]:
    return lambda row: (
        row.event == event and all(getattr(row, name) == value for name, value in fields.items())
    )


def later(row: LogRow) -> bool:
    return row.event == "progress" and row.mode == "serial" and (row.first_block or 0) > 0


@pytest.mark.parametrize(
    ("chosen", "changes", "message"),
    [
        (later, {"run": 10_000_000}, "without a start"),
        (later, {"start_s": 0.0}, "is on it until"),
        (later, {"start_s": 0.0}, "a stretch starts at 0.0 s, expected at"),
        (later, {"start_s": 9.0}, "ends before"),
        (later, {"cores": "0+1+2+3"}, "is on it until"),
        (later, {"mode": "split"}, "in another mode"),
        (later, {"request": 10_000_000}, "of another request"),
        (later, {"first_block": 0}, "in blocks 0 to"),
        (later, {"share": 0.5}, "not where it was"),
        (later, {"share": 1.5}, "a share of 1.5"),
        (later, {"reason": "lost"}, "not where it was"),
        (of("progress", share=0.6), {"share": 0.5}, "done after 0.9"),
        (later, {"dram_bytes": 1e15}, "DRAM bytes from"),
        (of("reply"), {"request": 10_000_000}, "a reply without an arrival"),
        (of("reply", outcome="done"), {"request": 1_000_000}, "a reply without an arrival"),
        (of("arrive", request=1), {"request": 0}, "arrives twice"),
        (of("start", run=1), {"run": 0}, "run 0: starts twice"),
    ],
)
def test_each_violation_is_found(
    synthetic: ModuleType, chosen: Callable[[LogRow], bool], changes: dict[str, Any], message: str
) -> None:
    rows = synthetic.rows_of(synthetic.description())

    found = check_conservation(synthetic.log_of(synthetic.replaced(rows, chosen, **changes)))

    assert any(message in violation for violation in found), found[:5]


def done(synthetic: ModuleType, *parts: LogRow, blocks: int = 4) -> LogTable:
    """A log in which one request is done by those stretches, each stretch a run of its own, back to back."""
    asked = (1, "a", "m")
    rows = [LogRow(0.0, "arrive", *asked, deadline_s=99.0, isolated_s=1.0)]
    for run, part in enumerate(parts):
        begun, ended = float(run), float(run + 1)
        where = (*asked, run, part.first_block, blocks, part.mode, "0")
        rows.append(LogRow(begun, "start", *where))
        rows.append(
            part._replace(time_s=ended, request=1, tenant="a", model="m", run=run, start_s=begun, cores="0")
        )
        rows.append(LogRow(ended, "stop", *where, reason="spill"))
    rows.append(LogRow(float(len(parts)), "reply", *asked, outcome="done"))
    return synthetic.log_of(rows, DEVICE)


def part(first: int, end: int, share: float = 1.0, mode: str = "fused", reason: str | None = None) -> LogRow:
    return LogRow(0.0, "progress", first_block=first, end_block=end, mode=mode, share=share, reason=reason)


@pytest.mark.parametrize(
    "parts",
    [
        (part(0, 4),),
        (part(0, 2), part(2, 4)),
        (part(0, 4, 0.4), part(0, 4, 0.6)),
        (part(0, 4, 0.2), part(0, 4, 0.3), part(0, 4, 0.5)),
        (part(0, 4, 0.4), part(0, 4)),  # resumed nothing: other cores
        (part(0, 4, 0.4), part(0, 4, 0.3), part(0, 4, 0.7)),  # the second began afresh
        (part(0, 4, 0.4), part(0, 2), part(2, 4)),  # another range
        (part(0, 4, 0.4), part(0, 4, mode="pipeline")),
        (part(0, 4, 0.7, reason="lost"), part(0, 4)),
        (part(0, 2), part(2, 4, 0.4), part(2, 4, 0.2, reason="lost"), part(2, 4)),
    ],
)
def test_ways_of_doing_every_block_once(synthetic: ModuleType, parts: tuple[LogRow, ...]) -> None:
    assert check_conservation(done(synthetic, *parts)) == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((part(0, 4, 0.4), part(0, 4, 0.5)), "done after 0.9"),
        ((part(0, 4, 0.5), part(0, 4, 0.5, mode="pipeline")), "done after 0.5"),
        ((part(0, 4, 0.5, reason="lost"), part(0, 4, 0.5)), "done after 0.5"),
        ((part(0, 2), part(3, 4)), "goes on at block 3"),
        ((part(0, 2), part(0, 2), part(2, 4)), "goes on at block 0"),
        ((part(0, 2), part(2, 4), part(2, 4)), "goes on at block 2"),
        ((part(0, 3, 0.5), part(3, 4)), "goes on at block 3"),
    ],
)
def test_blocks_missed_or_done_twice(synthetic: ModuleType, parts: tuple[LogRow, ...], message: str) -> None:
    found = check_conservation(done(synthetic, *parts))
    assert any(message in violation for violation in found), found


def test_a_request_that_was_done_too_early(synthetic: ModuleType) -> None:
    rows = synthetic.rows_of(synthetic.description())
    whole = check_conservation(synthetic.log_of(rows))
    short = [row for row in rows if not (row.event == "progress" and row.request == 3)]

    assert whole == []
    assert any(
        "request 3: done after" in violation for violation in check_conservation(synthetic.log_of(short))
    )


def test_two_runs_of_a_request_at_once_and_late_work(synthetic: ModuleType) -> None:
    log = done(synthetic, part(0, 2), part(2, 4))
    rows = [LogRow(**row) for row in log.table.to_pylist()]
    overlapping = [
        row._replace(start_s=0.5, cores="1") if row.event == "progress" and row.run == 1 else row
        for row in rows
    ]
    found = check_conservation(synthetic.log_of(overlapping, DEVICE))
    assert any("runs 0 and 1 at once" in violation for violation in found), found

    early = synthetic.replaced(rows, of("reply"), time_s=1.5)
    found = check_conservation(synthetic.log_of(early, DEVICE))
    assert any("after it was done at 1.5 s" in violation for violation in found), found


def test_a_second_reply_and_an_early_one(synthetic: ModuleType) -> None:
    rows = [LogRow(**row) for row in done(synthetic, part(0, 4)).table.to_pylist()]
    assert "request 1: more than one reply" in check_conservation(synthetic.log_of([*rows, rows[-1]], DEVICE))

    early = check_conservation(synthetic.log_of([rows[0]._replace(time_s=5.0), *rows[1:]], DEVICE))
    assert any("before its arrival" in violation for violation in early)


def test_progress_after_the_end_of_its_run(synthetic: ModuleType) -> None:
    rows = [LogRow(**row) for row in done(synthetic, part(0, 2), part(2, 4)).table.to_pylist()]
    again = [row for row in rows if row.event == "progress" and row.run == 0]
    found = check_conservation(synthetic.log_of([*rows, *again], DEVICE))
    assert any("run 0: progress at 1.0 s after its end" in violation for violation in found), found


def test_bandwidth_is_shared_by_stretches_that_overlap(synthetic: ModuleType) -> None:
    def row(run: int, dram_bytes: float, core: str) -> list[LogRow]:
        where = (run, "a", "m", run, 0, 1, "serial", core)
        return [
            LogRow(0.0, "start", *where),
            LogRow(1.0, "progress", *where, 0.0, share=1.0, dram_bytes=dram_bytes),
            LogRow(1.0, "finish", *where),
        ]

    end = [LogRow(10.0, "end")]
    shared = [*row(1, 0.5e9, "0"), *row(2, 0.5e9, "1"), *end]
    too_much = [*row(1, 0.6e9, "0"), *row(2, 0.6e9, "1"), *end]
    assert check_conservation(synthetic.log_of(shared, DEVICE)) == []
    assert any(
        "DRAM bytes from 0.0 s" in found for found in check_conservation(synthetic.log_of(too_much, DEVICE))
    )
    unlimited = {"device": {"cores": []}}
    assert check_conservation(synthetic.log_of(too_much, unlimited)) == []
