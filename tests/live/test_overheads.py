"""Overheads are measured on made-up work; what they come out as depends on the machine."""

from __future__ import annotations

import threading

import pytest

from headway.live import overheads
from headway.live.overheads import (
    SERIAL_W,
    measure_isolation,
    measure_overheads,
    measure_overlap_w,
)
from headway.live.processors import available, machine, runtime
from headway.models.profile import DeviceProfile

LANES = [[number] for number in available()[:2]]


def test_overheads_of_lanes_that_are_there() -> None:
    profile = measure_overheads(LANES)
    assert (profile.machine, profile.runtime) == (machine(), runtime())
    assert profile.threads == len(LANES)
    assert profile.dispatch_s > 0.0
    assert profile.switch_s >= 0.0
    assert profile.overlap_w >= 0.0
    assert DeviceProfile.from_json(profile.to_json()) == profile


def test_isolation_costs_something() -> None:
    cost = measure_isolation(LANES)
    assert cost.start_s > 0.0


def test_one_lane_overlaps_nothing() -> None:
    assert measure_overlap_w(LANES[:1]) == SERIAL_W


@pytest.mark.parametrize(("together_s", "w"), [(3.0, 0.0), (3.5, 0.25), (5.0, 1.0), (6.0, 1.5)])
def test_the_loss_is_what_the_shorter_one_adds(
    monkeypatch: pytest.MonkeyPatch, together_s: float, w: float
) -> None:
    alone = iter([3.0, 2.0] * 1000)
    monkeypatch.setattr(overheads, "_together", lambda parts: together_s if len(parts) == 2 else next(alone))
    assert measure_overlap_w([[0], [1]], pin=False) == pytest.approx(w)


def test_pairs_count_as_often_as_their_work_should_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    computing_twice, one_of_each, moving_twice = 0.1, 0.3, 1.0
    losses = iter([computing_twice, one_of_each, moving_twice])
    monkeypatch.setattr(overheads, "_pair_loss", lambda *_: next(losses))
    monkeypatch.setattr(overheads, "MOVING_SHARE", 0.2)
    assert measure_overlap_w([[0], [1]], pin=False) == pytest.approx(0.64 * 0.1 + 0.32 * 0.3 + 0.04 * 1.0)


def test_an_interrupt_between_two_starts_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if started:
            raise KeyboardInterrupt
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    work = overheads._Work.products()
    with pytest.raises(KeyboardInterrupt):
        overheads._together(((work, 1, ()), (work, 1, ())))
    started[0].join(5.0)
    assert not started[0].is_alive()
