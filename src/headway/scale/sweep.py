"""A scenario over values of some of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from math import prod
from typing import Final

from headway.config import Scenario
from headway.core.errors import HeadwayError
from headway.scale.tasks import Task

MOST_CELLS: Final = 10_000
ACCEPTED: Final = (
    "accepted: PLACE=VALUE,... or PLACE=FIRST:LAST:STEP, such as load=0.5:1.2:0.1 or"
    " hardware.dram.bandwidth=8GB/s,16GB/s"
)

Value = str | float


@dataclass(frozen=True, slots=True)
class Axis:
    """A place of the scenario, as in `Scenario.with_overrides`, and the values it takes."""

    place: str
    values: tuple[Value, ...]

    @classmethod
    def parse(cls, text: str) -> Axis:
        """From `PLACE=VALUE,...`, or `PLACE=FIRST:LAST:STEP` with both ends included.

        Raises HeadwayError for anything else.
        """
        place, equals, values = text.partition("=")
        if not (place.strip() and equals and values.strip()):
            raise HeadwayError(f"--over: found {text!r}; {ACCEPTED}")
        parts = [part.strip() for part in values.split(",")]
        if len(parts) == 1 and parts[0].count(":") == 2:
            return cls(place.strip(), _range(text, parts[0]))
        if not all(parts):
            raise HeadwayError(f"--over: found {text!r}, with an empty value; {ACCEPTED}")
        found = tuple(_value(part) for part in parts)
        if len(set(found)) < len(found):
            raise HeadwayError(f"--over: found {text!r}, with a value twice; accepted: each value once")
        return cls(place.strip(), found)


def sweep_tasks(
    scenario: Scenario, axes: Sequence[Axis], seeds: Sequence[int], policies: Sequence[str]
) -> list[Task]:
    """A task for each combination of values and each seed; the last axis changes fastest.

    Raises HeadwayError for a place or value that a scenario cannot have, for a place that is there twice,
    and for too many combinations.
    """
    places = [axis.place for axis in axes]
    twice = next((place for number, place in enumerate(places) if place in places[:number]), None)
    if twice is not None:
        raise HeadwayError(f"--over: {twice} is there twice; accepted: each place once")
    if "seed" in places:
        raise HeadwayError("--over: found seed; accepted: --seeds 1,2,3, so that policies are paired by seed")
    if "policy" in places:
        raise HeadwayError("--over: found policy; accepted: --policies edf,lucas, so that they are compared")
    count = prod(len(axis.values) for axis in axes)
    if count > MOST_CELLS:
        raise HeadwayError(f"--over: {count:,} combinations; at most {MOST_CELLS:,} are accepted")
    tasks = []
    for values in product(*(axis.values for axis in axes)):
        changes = dict(zip(places, values, strict=True))
        cell = " ".join(f"{place}={value}" for place, value in changes.items()) or scenario.name
        tasks += [
            Task(cell, changes, scenario.with_overrides(changes | {"seed": seed}), tuple(policies))
            for seed in seeds
        ]
    return tasks


def _range(text: str, values: str) -> tuple[float, ...]:
    try:
        first, last, step = (Decimal(part) for part in values.split(":"))
    except InvalidOperation:
        raise HeadwayError(f"--over: found {text!r}; {ACCEPTED}") from None
    if not (step.is_finite() and step > 0 and first.is_finite() and last.is_finite() and first <= last):
        raise HeadwayError(f"--over: found {text!r}; accepted: FIRST:LAST:STEP with LAST not below FIRST")
    count = int((last - first) / step) + 1
    if count > MOST_CELLS:
        raise HeadwayError(f"--over: {count:,} values; at most {MOST_CELLS:,} are accepted")
    return tuple(float(first + step * at) for at in range(count))


def _value(text: str) -> Value:
    """A whole number, a number, or text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
