"""Transfers that share a memory port: stalls, and what is left to do before and after the computation.

Arrays have one entry per mapping. Source: cost-model.md sections 1 and 3 (ZigZag's rules).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from headway.cost.arrays import Bools, Floats

Key = TypeVar("Key")
T = TypeVar("T")


class Activity(NamedTuple):
    """A transfer that recurs every `period` cycles, `repeats` times.

    It takes `real` cycles of the port and can take `allowed` without holding up the array. `average_bits`
    per cycle are what it needs overall, `least_bits` what must have passed before the array can start.
    """

    real: Floats
    allowed: Floats
    period: Floats
    repeats: Floats
    average_bits: Floats
    least_bits: Floats


def port_busy(activities: Sequence[Activity]) -> Floats:
    """Cycles that all transfers take of their port."""
    return sum((a.real * a.repeats for a in activities), np.zeros(len(activities[0].real)))


def port_stall(activities: Sequence[Activity], total: Floats) -> Floats:
    """Cycles that the array waits for a port by the peer's rules.

    One transfer: (real - allowed) per period. Several: what each lacks by itself, and what all together lack
    of the union of their windows. The first period does not count: it is loaded before.
    """
    present = [activity.repeats > 0 for activity in activities]
    counted = [np.where(on, a.repeats - 1, 0.0) for on, a in zip(present, activities, strict=True)]
    lacking = [(a.real - a.allowed) * n for a, n in zip(activities, counted, strict=True)]
    several = sum((on.astype(float) for on in present), np.zeros(len(total))) > 1
    alone = np.maximum(0.0, sum(lacking, np.zeros(len(total))))
    if not several.any():
        return alone
    positive = sum((np.maximum(0.0, each) for each in lacking), np.zeros(len(total)))
    negative = sum((np.minimum(0.0, each) for each in lacking), np.zeros(len(total)))
    windows = sum((a.allowed * n for a, n in zip(activities, counted, strict=True)), np.zeros(len(total)))
    union = _union(activities, present, total)
    return np.where(several, positive + np.maximum(0.0, negative + windows - union), alone)


def _union(activities: Sequence[Activity], present: Sequence[Bools], total: Floats) -> Floats:
    """Cycles of the whole run in which at least one transfer has its window.

    Windows open at the start of each period. Periods are products of the innermost loops, so each divides
    the longer ones; windows of equal periods lie in one another.
    """
    period = np.stack([np.where(on, a.period, 1.0) for on, a in zip(present, activities, strict=True)])
    allowed = np.stack([np.where(on, a.allowed, 0.0) for on, a in zip(present, activities, strict=True)])
    everything = (allowed >= period).any(axis=0)
    order = np.argsort(period, axis=0, kind="stable")
    period, allowed = np.take_along_axis(period, order, 0), np.take_along_axis(allowed, order, 0)
    covered = [allowed[0]]  # of one period of each, by it and all shorter ones
    for index in range(1, len(period)):
        shorter = covered[-1] * period[index] / period[index - 1]
        inside = _covered_until(allowed[index], index - 1, period, allowed, covered)
        covered.append(allowed[index] + shorter - inside)
    longest = covered[-1] * np.floor(total / period[-1])
    union: Floats = np.where(everything, total, longest)
    return union


def _covered_until(
    end: Floats, index: int, period: Floats, allowed: Floats, covered: Sequence[Floats]
) -> Floats:
    """Cycles of [0, end) in a window of the transfers up to `index`."""
    whole = np.floor(end / period[index])
    rest = end - whole * period[index]
    reached = whole * covered[index]
    if index == 0:
        return np.asarray(reached + np.minimum(rest, allowed[0]))
    beyond = (
        allowed[index]
        + _covered_until(rest, index - 1, period, allowed, covered)
        - _covered_until(allowed[index], index - 1, period, allowed, covered)
    )
    return np.asarray(reached + np.where(rest <= allowed[index], rest, beyond))


def at_ends(activities: Mapping[Key, Activity], bits: float) -> dict[Key, Floats]:
    """Cycles of each transfer for what must have passed before the array starts, or after it stops."""
    return {key: np.where(a.repeats > 0, a.least_bits / bits, 0.0) for key, a in activities.items()}


def unhidden(activities: Mapping[Key, Activity], bits: float, busy: Floats) -> dict[Key, Floats]:
    """Cycles of each transfer before the array starts, or after it stops, by the peer's rules.

    The whole first period of a recurring transfer; one-shot transfers borrow the cycles that recurring ones
    leave idle during the computation (`busy` cycles), the largest first, down to what must be there.
    """
    least = {key: np.ceil(a.least_bits / bits) for key, a in activities.items()}
    recurring = sum(
        (np.where(a.repeats > 1, a.average_bits, 0.0) for a in activities.values()), np.zeros(len(busy))
    )
    surplus = np.maximum(0.0, (bits - recurring) / bits * busy)
    keys = list(activities)
    once = np.stack([activities[key].repeats == 1 for key in keys])
    real = np.stack([np.where(activities[key].repeats > 0, activities[key].real, 0.0) for key in keys])
    spare = np.where(once, np.maximum(0.0, real - np.stack([least[key] for key in keys])), 0.0)
    order = np.argsort(-np.where(once, real, -1.0), axis=0, kind="stable")
    sorted_spare = np.take_along_axis(spare, order, 0)
    before = np.cumsum(sorted_spare, axis=0) - sorted_spare
    taken = np.clip(surplus - before, 0.0, sorted_spare)
    borrowed = np.zeros_like(taken)
    np.put_along_axis(borrowed, order, taken, 0)
    return {key: real[index] - borrowed[index] for index, key in enumerate(keys)}


def onload_cycles(
    first: Mapping[T, Floats], links: Mapping[str, Sequence[tuple[T, T, bool, bool]]], count: int
) -> Floats:
    """Cycles until both inputs have reached the array.

    A link takes as long as its slower end. Links of one input follow each other; those on ports that both
    inputs share exclude each other; the better order of the two counts. Of the links of which one end is
    shared only the topmost counts.
    """
    shared: dict[str, Floats] = {}
    rest: dict[str, Floats] = {}
    for operand, ways in links.items():
        parallel, half, serial = (np.zeros(count) for _ in range(3))
        for lower, upper, lower_shared, upper_shared in ways:
            cycles = np.maximum(first[lower], first[upper])
            if lower_shared and upper_shared:
                serial = serial + cycles
            elif lower_shared or upper_shared:
                half = cycles
            else:
                parallel = parallel + cycles
        shared[operand], rest[operand] = serial, half + parallel
    if len(links) == 1:
        return next(iter(rest.values())) + next(iter(shared.values()))
    one, two = links
    return np.minimum(
        shared[one] + np.maximum(shared[two] + rest[two], rest[one]),
        shared[two] + np.maximum(shared[one] + rest[one], rest[two]),
    )
