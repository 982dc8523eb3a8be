"""Runs that go on elsewhere, live: the same engine, so the same schedule as the simulator's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.core.messages import Adjust, Decision, Dispatch
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.policies import Policy
from headway.testing import play


class Wanders(Policy):
    """Everything on the first idle core; whoever runs moves to core 2 when an odd request arrives."""

    needs = frozenset({Capability.REALLOCATE})

    def decide(self, view: View) -> Iterable[Decision]:
        idle = list(view.idle)
        for request in view.ready:
            if request.id % 2 and view.running and view.device.cores[2] in idle:
                idle.remove(view.device.cores[2])
                yield Adjust(view.running[0], view.device.cores[2:3])
            if idle:
                blocks = range(request.next_block, request.blocks)
                yield Dispatch((request,), blocks, (idle.pop(0),))


def test_a_run_that_moves_has_the_schedule_of_the_simulator(make_world: Any) -> None:
    world = make_world(3)

    def requests() -> list[Request]:
        return [
            world.request(0, "long"),
            world.request(1, "short", at=3e-3),
            world.request(2, "long", at=4e-3),
        ]

    world.play(Wanders(), requests())
    simulated = play(Wanders(), world.device, world.tables, requests())
    shown = [
        [(row.event, row.request, row.run, row.cores, row.reason, round(row.time_s, 9)) for row in rows]
        for rows in (world.rows, simulated)
    ]
    assert shown[0] == shown[1]
    assert ("start", 0, 2, "2", None, 4e-3) in shown[0]
    assert ("stop", 0, 0, "0", "reallocate", 4e-3) in shown[0]
    assert world.outcomes == {0: "done", 1: "done", 2: "done"}


class Counts(Policy):
    """Serves in order of arrival, and notes when it is asked."""

    at_block_ends = True

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    def decide(self, view: View) -> Iterable[Decision]:
        self.asked_s.append(round(view.now, 9))
        for request, core in zip(view.ready, view.idle, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,))


def test_a_policy_can_be_asked_at_block_ends(make_world: Any) -> None:
    world, policy = make_world(1), Counts()
    world.play(policy, [world.request(0, "long"), world.request(1, "short")])
    assert policy.asked_s == [0.0, 2e-3, 4e-3, 6e-3, 8e-3]
