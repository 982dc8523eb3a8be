"""What a run moves stays within the bandwidth caps that it has meanwhile, as far as the log tells."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from headway.core.messages import Adjust, Decision, Dispatch, Wake
from headway.core.protocols import Capability, View
from headway.policies import Policy, make
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.testing import Rows, ToyTable, play, toy_device, toy_request

MB = 1e6


class Capped(Policy):
    """Starts at 0.5 GB/s, goes on at 0.2 GB/s from 1 ms on, without a cap from 2 ms on."""

    needs = frozenset({Capability.THROTTLE})

    def decide(self, view: View) -> Iterable[Decision]:
        for request in view.ready:
            cores = view.device.cores[:1]
            yield Dispatch((request,), range(request.blocks), cores, bandwidth_cap_bytes_s=0.5e9)
            yield Wake(1e-3)
        for run in view.running:
            cap = 0.2e9 if view.now < 1.5e-3 else math.inf
            if view.now > 0.5e-3 and cap != run.bandwidth_cap_bytes_s:
                yield Adjust(run, bandwidth_cap_bytes_s=cap)
                if cap < math.inf:
                    yield Wake(2e-3)


def capped() -> Rows:
    """3 MB over 1 GB/s: 0.5 in the first, 0.2 in the second, 2.3 from then on, so that it ends at 4.3 ms."""
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1e-4, 3 * MB)])}
    return play(Capped(), device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)])


def checked(rows: Iterable, leave_out: str | None = None) -> list[str]:
    log = MemoryLog({})
    for row in rows:
        log.add(row)
    table = log.table()
    if leave_out is not None:
        table.table = table.table.drop_columns([leave_out])
    return check_conservation(table)


def test_caps_are_in_the_log() -> None:
    log = capped()
    caps = [(row.time_s, row.bandwidth_cap_bytes_s) for row in log if row.event in ("start", "adjust")]
    assert caps == [(0.0, 0.5e9), (pytest.approx(1e-3), 0.2e9), (pytest.approx(2e-3), None)]
    assert log.of("finish")[0].time_s == pytest.approx(4.3e-3)
    assert checked(log) == []


def test_more_bytes_than_the_caps_allow_are_found() -> None:
    rows = capped()
    at = next(
        at for at, row in enumerate(rows) if row.event == "adjust" and row.bandwidth_cap_bytes_s is None
    )
    rows[at] = rows[at]._replace(bandwidth_cap_bytes_s=0.2e9)  # so 0.5 + 0.2 + 2.3 * 0.2 MB are allowed
    (problem,) = checked(rows)
    assert problem.startswith("run 0: 3000000.0 DRAM bytes from 0.0 s to 0.0043")
    assert problem.endswith("is the most within its bandwidth caps")
    assert checked(rows, leave_out="bandwidth_cap_bytes_s") == []  # a log of before there were caps in it


@pytest.mark.parametrize("name", ["moca", "aurora"])
def test_policies_that_throttle_keep_their_caps(name: str) -> None:
    device = toy_device(4, bandwidth_bytes_s=1e9)
    blocks = [(1e-3, 0.9 * MB), (1e-3, 0.5 * MB), (0.5e-3, 2 * MB)]
    tables = {"m": ToyTable(device, blocks), "n": ToyTable(device, blocks[::-1])}
    requests = [
        toy_request(at, "mn"[at % 2], tables, arrival_s=0.7e-3 * at, deadline_s=0.7e-3 * at + 0.02)
        for at in range(20)
    ]
    log = play(make(name), device, tables, requests)
    assert any(row.bandwidth_cap_bytes_s is not None for row in log)
    assert checked(log) == []
