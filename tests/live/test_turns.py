"""Threads that take turns with one engine: nothing is lost, nothing happens at once, and nobody waits."""

from __future__ import annotations

import threading

import pytest

from headway.core.messages import Cancel, Event, Tick
from headway.live.turns import Turns

LIMIT_S = 20.0


class Stepping:
    """Collects what was heard, and notices if two threads step at once."""

    def __init__(self) -> None:
        self.turns = Turns(self.step, self.failed)
        self.applied: list[Event] = []
        self.steps = 0
        self.failures = 0
        self.inside = threading.Lock()

    def step(self) -> None:
        assert self.inside.acquire(blocking=False), "two threads step at once"
        self.applied += self.turns.heard()
        self.steps += 1
        self.inside.release()

    def failed(self) -> None:
        self.failures += 1


def test_what_is_told_is_applied_at_once_and_what_was_left_before_it_comes_first() -> None:
    stepping = Stepping()
    stepping.turns.leave(Cancel(1))
    assert stepping.steps == 0
    stepping.turns.tell(Cancel(2))
    assert stepping.applied == [Cancel(1), Cancel(2)]
    assert stepping.turns.cpu_s > 0.0


def test_what_is_told_while_another_has_the_turn_waits_for_its_end_and_no_longer() -> None:
    stepping = Stepping()
    with stepping.turns:
        thread = threading.Thread(target=stepping.turns.tell, args=[Cancel(1)])
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive()  # it did not wait
        assert stepping.applied == []
    assert stepping.applied == [Cancel(1)]


def test_a_step_may_tell_of_more() -> None:
    stepping = Stepping()

    def step() -> None:
        events = stepping.turns.heard()
        stepping.applied += events
        if Cancel(1) in events:
            stepping.turns.tell(Cancel(2))

    stepping.turns = Turns(step, stepping.failed)
    stepping.turns.tell(Cancel(1))
    assert stepping.applied == [Cancel(1), Cancel(2)]


def test_many_threads_lose_nothing_and_keep_their_order() -> None:
    stepping = Stepping()
    threads, each = 8, 300

    def work(first: int) -> None:
        for id in range(first, first + each):
            (stepping.turns.leave if id % 3 == 0 else stepping.turns.tell)(Cancel(id))
            if id % 7 == 0:
                with stepping.turns:
                    stepping.step()

    workers = [threading.Thread(target=work, args=[each * index]) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIMIT_S)
    stepping.turns.tell(Tick())
    ids = [event.request_id for event in stepping.applied if isinstance(event, Cancel)]
    assert sorted(ids) == list(range(threads * each))
    for index in range(threads):
        own = [id for id in ids if id // each == index]
        assert own == sorted(own)
    assert stepping.failures == 0


def test_what_a_step_raises_elsewhere_is_raised_to_who_takes_the_turn_next() -> None:
    def step() -> None:
        raise ZeroDivisionError("a defect")

    stepping = Stepping()
    turns = Turns(step, stepping.failed)
    thread = threading.Thread(target=turns.tell, args=[Tick()])
    thread.start()
    thread.join(LIMIT_S)
    assert stepping.failures == 1
    with pytest.raises(ZeroDivisionError, match="a defect"), turns:
        pytest.fail("the turn was given")
    turns.tell(Tick())  # nothing is stepped any more
    assert stepping.failures == 1


def test_nothing_is_applied_after_the_end() -> None:
    stepping = Stepping()
    stepping.turns.close()
    stepping.turns.tell(Cancel(1))
    assert stepping.applied == []


def test_closing_does_not_wait_for_a_step_that_hangs() -> None:
    go_on, begun = threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        go_on.wait(LIMIT_S)

    turns = Turns(step, lambda: None)
    thread = threading.Thread(target=turns.tell, args=[Tick()])
    thread.start()
    assert begun.wait(LIMIT_S)
    closing = threading.Thread(target=turns.close)
    closing.start()
    closing.join(LIMIT_S / 2)
    assert not closing.is_alive()
    go_on.set()
    thread.join(LIMIT_S)
