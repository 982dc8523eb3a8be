"""Planaria: every request the fewest cores that meet its deadline, and what is spare by score.

After "Planaria: Dynamic Architecture Fission for Spatial Multi-Tenant Acceleration of Deep Neural Networks"
(MICRO 2020) and its public code (he-actlab/planaria.code, scheduler/scheduler.py). At every arrival and end,
for all requests, with n_i the fewest cores with which i meets its deadline and p_i its priority:

- If all can be met and the n_i fit, each gets n_i; what is spare goes by p_i / (time left on n_i), rounded,
  the rest to the highest priorities.
- Else score_i = p_i / (slack n_i) if i can be met, -p_i / (time left on all) if not: n_i in the order of
  scores while there are cores, the last one what is left, those that cannot be met none; what is spare goes
  by positive scores.
- If none can be met, the cores are divided by |score|.

An allocation takes effect when every request is at its next tile.

Port: cores are subarrays, layers are split over them, and a request changes its cores at the end of its
layer, not when all are at the end of one: a layer on one core takes far longer than a tile. Another
allocation is also made when cores would idle. Priorities count from 1 there and from 0 here. On cores of
several types a time on n cores is that on a mixture like the device's, and a request keeps the cores that it
has. On lanes, where not every width of a model was measured, a request runs on the next lower one that was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from headway.core.device import Core
from headway.core.messages import Adjust, Decision, Dispatch, Preempt
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.base import Policy
from headway.policies.registry import policy
from headway.policies.spatial import Spatial, mode

MARGIN = 1.0
"""How much longer than alone a request is expected to take on its cores (public code: none)."""


class Task(NamedTuple):
    """A request in the eyes of the allocation."""

    request: Request
    fewest: int | None  # cores that meet its deadline; None if not even all do
    slack_s: float
    fewest_s: float  # time left on the fewest
    all_s: float  # time left on all cores

    @property
    def priority(self) -> float:
        """From 1 on."""
        return 1.0 + self.request.priority

    @property
    def score(self) -> float:
        """Its place when not all can be met: positive if it can be."""
        if self.fewest is None:
            return -self.priority / max(self.all_s, 1e-12)
        return self.priority / max(self.slack_s * self.fewest, 1e-12)


@policy("planaria")
class Planaria(Policy):
    """Planaria (MICRO 2020): the fewest cores that meet each deadline, spare ones by score, at every
    change.

    A width meets a deadline if `margin` times what is left on it does. Without `score_by_slack` the slack is
    left out of the score of those that can be met, so that those that need few cores come first.
    """

    needs = frozenset({Capability.SPLIT, Capability.REALLOCATE, Capability.PREEMPT})

    def __init__(self, *, margin: float = MARGIN, score_by_slack: bool = True) -> None:
        self._margin = margin
        self._score_by_slack = score_by_slack
        self._spatial = Spatial()
        self._present: set[int] = set()
        self._target: dict[int, int] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Make a new allocation if requests came or went or cores would idle; start those that are to run."""
        ready, idle = list(view.ready), list(view.idle)
        settled = [run for run in view.running if run.stopping is None]
        present = {run.request.id for run in (*view.running, *view.moving)} | {r.id for r in ready}
        pending = len(settled) < len(view.running) or len(view.moving) > 0
        if present != self._present or (idle and not pending):
            self._present = present
            tasks = [self._task(run.request, run, view) for run in settled]
            tasks += [self._task(request, None, view) for request in ready]
            promised = sum(len(run.moving_to or ()) for run in (*view.running, *view.moving))
            self._target = allocation(tasks, len(view.device.cores) - promised)
            for task in tasks:
                given = self._target[task.request.id]
                self._target[task.request.id] = self._runnable(task.request, given, view)
            yield from self._reallocated(settled, ready, idle, view)
        for request in ready:
            target = self._target.get(request.id, 0)
            width = self._runnable(request, min(target, len(idle)), view)
            cores = tuple(self._spatial.fastest_first(request, idle, view)[:width])
            if cores and (len(cores) == target or not pending):
                idle = [core for core in idle if core not in cores]
                yield Dispatch((request,), range(request.next_block, request.blocks), cores, mode(cores))

    def _reallocated(
        self, running: Sequence[Run], ready: Sequence[Request], idle: list[Core], view: View
    ) -> Iterator[Decision]:
        """Take cores from those that have more than they get, and give them to those that have less; what
        those that wait are to get stays idle."""
        pool = list(idle)
        for run in running:
            get = self._target[run.request.id]
            if get < len(run.cores):
                pool += run.cores[get:]
                yield Preempt(run, How.DRAIN) if get == 0 else Adjust(run, run.cores[:get])
        spare = pool[sum(self._target[request.id] for request in ready) :]
        for run in running:
            width = min(self._target[run.request.id], len(run.cores) + len(spare))
            more = self._runnable(run.request, width, view) - len(run.cores)
            if more > 0:
                yield Adjust(run, (*run.cores, *spare[:more]))
                idle[:] = [core for core in idle if core not in spare[:more]]
                del spare[:more]

    def _runnable(self, request: Request, cores: int, view: View) -> int:
        """The most cores up to so many on which a request can run."""
        while cores > 1 and self._spatial.remaining_s(request, cores, view, 0) == inf:
            cores -= 1
        return cores

    def _task(self, request: Request, run: Run | None, view: View) -> Task:
        block = request.next_block if run is None else run.next_block
        slack_s, most = request.deadline_s - view.now, len(view.device.cores)
        for cores in range(1, most + 1):
            left_s = self._spatial.remaining_s(request, cores, view, block)
            if self._margin * left_s <= slack_s:
                return Task(request, cores, slack_s if self._score_by_slack else 1.0, left_s, left_s)
        most = self._runnable(request, most, view)
        return Task(request, None, slack_s, 0.0, self._spatial.remaining_s(request, most, view, block))


def allocation(tasks: list[Task], cores: int) -> dict[int, int]:
    """How many cores each request gets, by its id."""
    able = [task for task in tasks if task.fewest is not None]
    given = {task.request.id: 0 for task in tasks}
    if len(able) == len(tasks) and sum(task.fewest or 0 for task in able) <= cores:
        for task in able:
            given[task.request.id] = task.fewest or 0
        weights = {task.request.id: task.priority / max(task.fewest_s, 1e-12) for task in able}
    elif able:
        left = cores
        for task in sorted(able, key=lambda task: (-task.score, task.request.arrival_s, task.request.id)):
            given[task.request.id] = min(left, task.fewest or 0)
            left -= given[task.request.id]
        weights = {task.request.id: task.score for task in able}
    else:
        weights = {task.request.id: -task.score for task in tasks}
    order = sorted(tasks, key=lambda task: (-task.request.priority, task.request.arrival_s, task.request.id))
    _spread(given, weights, cores - sum(given.values()), [task.request.id for task in order])
    return given


def _spread(given: dict[int, int], weights: Mapping[int, float], spare: int, order: list[int]) -> None:
    """Add spare cores in proportion to weights, rounded, the rest one by one in order."""
    total, left = sum(weights.values()), spare
    for id in order:
        if id in weights:
            more = min(left, round(spare * weights[id] / total))
            given[id] += more
            left -= more
    heirs = [id for id in order if id in weights]
    for at in range(left if heirs else 0):
        given[heirs[at % len(heirs)]] += 1
