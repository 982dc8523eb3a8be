"""A request that was moved goes on with the rest of its range."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from headway.core.messages import Adjust, Decision, Dispatch, Wake
from headway.core.protocols import Capability, View
from headway.policies import Policy
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.testing import Rows, ToyTable, play, toy_device, toy_request


class Moves(Policy):
    """Starts on core 0, moves to core 1 during the first block."""

    needs = frozenset({Capability.REALLOCATE})

    def decide(self, view: View) -> Iterable[Decision]:
        for request in view.ready:
            yield Dispatch((request,), range(request.blocks), view.device.cores[:1])
            yield Wake(0.5e-3)
        for run in view.running:
            if run.id == 0:
                yield Adjust(run, view.device.cores[1:])


def moved() -> Rows:
    device = toy_device(2)
    tables = {"m": ToyTable(device, [(1e-3, 0.0)] * 3)}
    return play(Moves(), device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)])


def checked(rows: Rows) -> list[str]:
    log = MemoryLog({})
    for row in rows:
        log.add(row)
    return check_conservation(log.table())


def test_a_move_is_lawful() -> None:
    assert [row.event for row in moved()][2:6] == ["adjust", "progress", "stop", "start"]
    assert checked(moved()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first_block": 2}, "goes on at 0.001 s with blocks 2 to 3, after it was moved with 1 to 3 left"),
        ({"end_block": 2}, "goes on at 0.001 s with blocks 1 to 2, after it was moved with 1 to 3 left"),
        ({"event": "reply", "outcome": "done"}, "done at 0.001 s with blocks 1 to 3 left"),
        ({"cores": "0"}, "goes on at 0.001 s on cores 0, after it was moved to 1"),
    ],
)
def test_a_move_that_loses_blocks_is_found(changes: dict[str, Any], message: str) -> None:
    rows = moved()
    rows[5] = rows[5]._replace(**changes)
    assert any(message in problem for problem in checked(rows))
