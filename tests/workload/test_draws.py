"""Draws that belong to numbers and names, and priorities drawn by index."""

from __future__ import annotations

from collections import Counter

import pytest
from tenant_loads import load

from headway.config.priorities import DRAWS, DrawnPriority
from headway.workload.draws import DrawnPriorities, NumberedDraws
from headway.workload.sources import ScenarioSource


def test_a_draw_depends_on_its_number_not_on_the_order() -> None:
    forwards, backwards = NumberedDraws(1, "a", "b"), NumberedDraws(1, "a", "b")
    numbers = range(0, 20_000, 7)
    found = [forwards.at(number) for number in numbers]
    assert found == [backwards.at(number) for number in reversed(numbers)][::-1]
    assert found != [NumberedDraws(1, "a", "c").at(number) for number in numbers]
    assert all(0.0 <= draw < 1.0 for draw in found)


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_priorities_come_as_often_as_their_weights_say(name: str) -> None:
    classes = DRAWS[name]
    drawn = DrawnPriorities(classes, 3, "tenant")
    counts = Counter(drawn.of(index) for index in range(20_000))
    assert set(counts) == set(classes.priorities)
    for priority, weight in zip(classes.priorities, classes.weights, strict=True):
        assert counts[priority] == pytest.approx(20_000 * weight / sum(classes.weights), rel=0.06)


def test_requests_carry_them_whatever_else_arrives() -> None:
    drawn = load("a", priority=DrawnPriority(draw="moca"))
    alone = [each.request for each in ScenarioSource([drawn], seed=3, count=200).first()]
    beside = [each.request for each in ScenarioSource([load("b"), drawn], seed=3, count=500).first()]
    by_index = {each.index: each.priority for each in beside if each.tenant == "a"}
    assert len({each.priority for each in alone}) == 8
    assert all(by_index[each.index] == each.priority for each in alone if each.index in by_index)
    assert drawn.mean_priority == pytest.approx(sum(p * w for p, w in zip(*_moca(), strict=True)) / 108)


def _moca() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return DRAWS["moca"].priorities, DRAWS["moca"].weights
