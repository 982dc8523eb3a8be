"""Time and inbox of the live driver, real and virtual."""

from __future__ import annotations

import threading

import pytest

from headway.core.messages import Cancel, Tick
from headway.live.clock import LiveClock, VirtualClock, WallClock


@pytest.fixture(params=[WallClock, VirtualClock])
def clock(request: pytest.FixtureRequest) -> LiveClock:
    made: LiveClock = request.param()
    made.start()
    return made


def test_all_that_was_posted_comes_at_once_and_in_order(clock: LiveClock) -> None:
    events = [Cancel(1), Tick(), Cancel(2)]
    for event in events:
        clock.post(event)
    assert clock.wait(None) == events
    assert clock.wait(clock.now()) == []


def test_what_was_left_comes_with_the_next_event_and_before_it(clock: LiveClock) -> None:
    clock.leave(Cancel(1))
    clock.leave(Cancel(2))
    clock.post(Cancel(3))
    assert clock.wait(None) == [Cancel(1), Cancel(2), Cancel(3)]
    clock.leave(Cancel(4))
    assert clock.wait(clock.now()) == [Cancel(4)]


def test_what_was_left_ends_no_wait() -> None:
    clock = WallClock()
    clock.leave(Cancel(1))
    until_s = clock.now() + 5e-3
    assert clock.wait(until_s) == [Cancel(1)]
    assert clock.now() >= until_s


def test_waiting_ends_at_its_time_and_not_before(clock: LiveClock) -> None:
    until_s = clock.now() + 5e-3
    assert clock.wait(until_s) == []
    assert clock.now() >= until_s


def test_a_time_that_is_too_far_to_wait_for_is_no_error() -> None:
    clock = WallClock()
    threading.Timer(0.01, clock.post, [Cancel(1)]).start()
    assert clock.wait(1e300) == [Cancel(1)]


def test_a_time_that_is_past_is_not_waited_for(clock: LiveClock) -> None:
    clock.wait(1e-3)
    clock.post(Cancel(1))
    assert clock.wait(0.0) == [Cancel(1)]
    assert clock.wait(0.0) == []


def test_a_wait_ends_when_another_thread_posts() -> None:
    clock = WallClock()
    thread = threading.Timer(0.01, clock.post, [Cancel(1)])
    thread.start()
    assert clock.wait(clock.now() + 60.0) == [Cancel(1)]
    thread.join()


def test_calls_are_made_in_order_of_time_then_of_asking() -> None:
    clock, made = VirtualClock(), []
    for name, at_s in (("c", 2.0), ("a", 1.0), ("b", 1.0), ("d", 3.0)):
        clock.call_at(at_s, lambda name=name: made.append((name, clock.now())))  # type: ignore[misc]
    assert clock.wait(2.5) == []
    assert made == [("a", 1.0), ("b", 1.0), ("c", 2.0)]
    assert clock.now() == 2.5


def test_everything_of_one_instant_is_in_one_wait() -> None:
    clock = VirtualClock()
    for id in range(3):
        clock.call_at(1.0, lambda id=id: clock.post(Cancel(id)))  # type: ignore[misc]
    assert clock.wait(None) == [Cancel(0), Cancel(1), Cancel(2)]
    assert clock.now() == 1.0


def test_a_call_that_is_late_is_made_now() -> None:
    clock = VirtualClock()
    clock.wait(5.0)
    clock.call_at(1.0, lambda: clock.post(Tick()))
    assert clock.wait(None) == [Tick()]
    assert clock.now() == 5.0


def test_virtual_time_does_not_wait_for_what_never_comes() -> None:
    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        VirtualClock().wait(None)
