"""How many requests a plan on lanes is expected to make late, and which of them should be left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from headway.policies.lane_plan import Job

SPREAD: Final = 0.1
"""A plan's end t seconds from now is believed to come at most so large a share of t earlier or later:
arrivals overtake, co-runners change. With wider margins nothing runs side by side where deadlines are tight,
with none more short requests are late."""

VALUE_POWER: Final = 0.5
"""That a request is in time is worth its weight times this power of the work of its whole model: between 0,
by which large requests are those left out, and 1, by which many small ones are late for a large one."""

CREDIT: Final = 0.5
"""Share of what running side by side gains over one after the other that admission counts on."""

Loss = Callable[[str, str], float]
"""The overlap loss of runs of two models."""

Value = Callable[[Job], float]
"""What it is worth that a request is in time."""


class Outlook:
    """Expected lateness of plans; without `margins` a request is late if its planned end is, and not else.

    What plans lose is the sum over requests of `value` times how likely they are late.
    """

    def __init__(self, loss: Loss, value: Value, *, margins: bool) -> None:
        self._loss, self._value = loss, value
        self._spread = SPREAD if margins else 0.0

    def lateness(self, end_s: float, deadline_s: float, now: float) -> float:
        """How likely a request is late whose planned end is at `end_s`, in [0, 1].

        The end is taken to lie evenly between a SPREAD of the way before it and as much after it.
        """
        spread_s = self._spread * (end_s - now)
        if spread_s <= 0.0:
            return 1.0 if end_s > deadline_s else 0.0
        share = (end_s + spread_s - deadline_s) / (2.0 * spread_s)
        return share if 0.0 < share < 1.0 else float(share >= 1.0)

    def side_by_side(
        self,
        jobs: Sequence[Job],
        lanes: int,
        at_s: float,
        busy: Sequence[tuple[float, int, str]],
        now: float,
    ) -> float:
        """What is lost if each in turn takes the single lane that is free first.

        `busy` holds for each lane on which a block still runs at `at_s` the seconds it takes from then on,
        and the request and the model of its run; a running request among the jobs keeps its lane. Runs that
        are together stretch each other by their pairs' losses. Who would be late anyway takes no lane.
        """
        loss, value, lateness, lost = self._loss, self._value, self.lateness, 0.0
        left = [seconds for seconds, _, _ in busy]
        runs = [(model, inf, 0.0, owner) for _, owner, model in busy]  # due when, worth what
        queue = iter(jobs)
        job = next(queue, None)
        while job is not None or left:
            if job is not None:
                model = job.request.model
                if job.run is not None:
                    place = next((at for at, run in enumerate(runs) if run[3] == job.id), None)
                    if place is not None:
                        left[place] += job.narrow_s
                        runs[place] = (runs[place][0], job.deadline_s, value(job), -1)
                        job = next(queue, None)
                        continue
                if len(left) < lanes:
                    more_s = job.narrow_s + (job.from_s - at_s if job.from_s > at_s else 0.0)
                    # Half of the stretch: co-runners end, too.
                    if len(runs) == 1:
                        stretch = 1.0 + 0.5 * loss(model, runs[0][0])
                    else:
                        stretch = 1.0 + 0.5 * sum([loss(model, run[0]) for run in runs])
                    if at_s + more_s * stretch > job.deadline_s:
                        lost += value(job)
                    else:
                        left.append(more_s)
                        runs.append((model, job.deadline_s, value(job), -1))
                    job = next(queue, None)
                    continue
            if len(left) == 2:
                place = 0 if left[0] < left[1] else 1
                least_s = left[place]
                left[1 - place] -= least_s
                step_s = least_s * (1.0 + loss(runs[0][0], runs[1][0]))
            else:
                place, step_s = self._advance(left, [run[0] for run in runs])
            at_s += step_s
            del left[place]
            _, due_s, worth, _ = runs.pop(place)
            if due_s < inf:
                lost += worth * lateness(at_s, due_s, now)
        return lost

    def _advance(self, left: list[float], models: Sequence[str]) -> tuple[int, float]:
        """Go on until one of the runs ends, of any number but two: which one, and after how many seconds."""
        if len(left) == 1:
            return 0, left[0]
        loss = self._loss
        stretches = [
            1.0 + sum([loss(model, other) for at, other in enumerate(models) if at != own])
            for own, model in enumerate(models)
        ]
        ends = [seconds * stretch for seconds, stretch in zip(left, stretches, strict=True)]
        step_s = min(ends)
        left[:] = [seconds - step_s / stretch for seconds, stretch in zip(left, stretches, strict=True)]
        return ends.index(step_s), step_s

    def in_turn(self, jobs: Sequence[Job], at_s: float, now: float) -> float:
        """What is lost if one runs after the other, each as fast as it can."""
        lost = 0.0
        for job in jobs:
            end_s = max(at_s, job.from_s) + job.least_s
            if job.deadline_s < inf:
                chance = self.lateness(end_s, job.deadline_s, now)
                lost += self._value(job) * chance
                if chance >= 1.0:
                    continue
            at_s = end_s
        return lost


def admitted(jobs: Sequence[Job], value: Value, gain: float, now: float) -> set[int]:
    """The ids of those that can be in time together; `jobs` are in order of deadline.

    The rule of Moore and Hodgson (1968; see `headway_admission`) for one machine that runs them one after
    the other, each as fast as it can: whenever one would be late, the one with most work per unit of value
    is left out. The work is what is left, so that one that is nearly through stays. Of the share `gain` that
    running them side by side saves, a CREDIT is counted on.
    """
    share = 1.0 - CREDIT * max(0.0, gain)
    taken: list[tuple[float, int, float]] = []
    is_heap = False
    end_s = now
    for job in jobs:
        work_s = share * job.least_s
        entry = (-job.least_s / value(job), job.id, work_s)
        if is_heap:
            heappush(taken, entry)
        else:
            taken.append(entry)
        end_s += work_s
        while taken and end_s > job.deadline_s:
            if not is_heap:
                heapify(taken)
                is_heap = True
            end_s -= heappop(taken)[2]
    return {id for _, id, _ in taken}
