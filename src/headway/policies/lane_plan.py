"""What policies that plan on lanes share: jobs, who would be late, and how far runs drift from belief."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp2
from typing import Final, NamedTuple

from headway.core.messages import Preempt
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import How, Run
from headway.policies.width import batch_table, remaining_over_s

GAIN: Final = 0.1
"""Weight of the last run in how much longer than believed runs take."""

MEMORY_S: Final = 1.0
"""After so long without a run to learn from, half of what was learnt is forgotten: if everything was dropped
because the machine was slow, nothing would otherwise show that it is not slow any more."""

MOST_DRIFT: Final = 4.0

_tuple: Final = tuple.__new__  # makes a job in half of the time that its class's own function takes


class Drift:
    """How much longer some runs take than they were believed to, by those that finished lately.

    `usual` is what that is believed to be where nothing was learnt lately.
    """

    __slots__ = ("_factor", "_learnt_s")

    def __init__(self) -> None:
        self._factor, self._learnt_s = 1.0, 0.0

    def at(self, now: float, usual: float = 1.0) -> float:
        """The factor now."""
        return usual + (self._factor - usual) * exp2((self._learnt_s - now) / MEMORY_S)

    def learn(self, ratio: float, now: float, usual: float = 1.0) -> None:
        """A run has taken that many times what it was believed to."""
        ratio = min(max(ratio, 1.0 / MOST_DRIFT), MOST_DRIFT)
        self._factor = (1.0 - GAIN) * self.at(now, usual) + GAIN * ratio
        self._learnt_s = now


class Drifts:
    """The drift of narrow and of wide runs; one that did not run lately drifts as all runs do."""

    __slots__ = ("_all", "_narrow", "_wide")

    def __init__(self) -> None:
        self._all, self._narrow, self._wide = Drift(), Drift(), Drift()

    def at(self, now: float) -> tuple[float, float]:
        """The factors of narrow and of wide runs now."""
        usual = self._all.at(now)
        return self._narrow.at(now, usual), self._wide.at(now, usual)

    def learn(self, ratio: float, narrow: bool, now: float) -> None:
        """A run has taken that many times what it was believed to."""
        self._all.learn(ratio, now)
        (self._narrow if narrow else self._wide).learn(ratio, now, self._all.at(now))


class Job(NamedTuple):
    """A request that waits, or goes on after the present block of its run, as a plan sees it.

    From `from_s` on it takes `narrow_s` on one lane and `wide_s` on `lanes`; `least_s` is the less of them.
    """

    deadline_s: float
    id: int
    request: Request
    run: Run | None
    from_s: float
    narrow_s: float
    wide_s: float
    least_s: float
    lanes: int

    @classmethod
    def of(
        cls,
        request: Request,
        run: Run | None,
        from_s: float,
        left: tuple[float, float, int],
        drifts: tuple[float, float],
    ) -> Job:
        """A job from what is left of it, as `LeftOver` tells, and the factors of drift.

        A run of several requests is due when the most urgent of them is.
        """
        narrow_s, wide_s, lanes = left
        of_narrow, of_wide = drifts
        narrow_s *= of_narrow
        due_s = request.deadline_s
        if run is not None and run.batch > 1:
            due_s = min(member.deadline_s for member in run.requests)
        if lanes == 1:
            fields = (due_s, request.id, request, run, from_s, narrow_s, narrow_s, narrow_s, 1)
            return _tuple(cls, fields)
        wide_s *= of_wide
        least_s = narrow_s if narrow_s < wide_s else wide_s
        fields = (due_s, request.id, request, run, from_s, narrow_s, wide_s, least_s, lanes)
        return _tuple(cls, fields)


class LeftOver:
    """By model, block and how many run together, what the rest takes with the device to itself."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], tuple[float, float, int]] = {}

    def seconds(self, request: Request, first: int, view: View, batch: int = 1) -> tuple[float, float, int]:
        """Seconds of the blocks from there on, on one lane and on as many as are fastest, and how many."""
        at = (request.model, first, batch)
        known = self._known.get(at)
        if known is None:
            known = self._known[at] = _left_s(request, first, view, batch)
        return known


def _left_s(request: Request, first: int, view: View, batch: int) -> tuple[float, float, int]:
    if first >= request.blocks:
        return 0.0, 0.0, 1
    skip = first - request.next_block
    cores = view.device.cores
    narrow_s = batch_table(request, batch, view).remaining_s[first]
    wide_s, lanes = narrow_s, 1
    for count in range(2, len(cores) + 1):
        over_s = remaining_over_s(request, cores[:count], view, skip=skip, batch=batch)
        if over_s < wide_s:
            wide_s, lanes = over_s, count
    return narrow_s, wide_s, lanes


def by_deadline(job: Job) -> tuple[float, int]:
    """The order of deadlines."""
    return job.deadline_s, job.id


def free_from(running: Sequence[Run], view: View) -> list[float]:
    """When each lane can take something else: now, or at the end of the block that runs on it."""
    free_s = [view.now] * len(view.device.cores)
    for run in running:
        for core in run.cores:
            free_s[core.index] = max(view.now, run.block_end_s)
    return free_s


def late(jobs: Sequence[Job], free_s: Sequence[float], stretch: float) -> int:
    """How many are late if each in turn takes the single lane that is free first."""
    free_s, count = list(free_s), 0
    for job in jobs:
        at_s = min(free_s)
        end_s = max(at_s, job.from_s) + job.narrow_s * stretch
        if end_s > job.deadline_s:
            count += 1
        else:
            free_s[free_s.index(at_s)] = end_s
    return count


def late_in_turn(jobs: Sequence[Job], now_s: float) -> int:
    """How many are late if one runs after the other, each over as many lanes as make it fastest."""
    count = 0
    for job in jobs:
        end_s = max(now_s, job.from_s) + job.least_s
        if end_s > job.deadline_s:
            count += 1
        else:
            now_s = end_s
    return count


def stops(
    jobs: Sequence[Job], wanted: Mapping[int, int], share: int, running: Sequence[Run]
) -> Iterator[Preempt]:
    """Runs that have no place in a plan, or another width there, stop at the end of their block.

    `wanted` are lanes by request; a run may be as wide as `share` where nobody waits for the lanes.
    """
    someone_waits = any(job.run is None for job in jobs)
    for run in running:
        if run.stopping is not None:
            continue
        count = wanted.get(run.request.id, 0)
        in_the_way = count == 0 or (len(run.cores) > max(count, share) and someone_waits)
        if in_the_way or (len(run.cores) < count and run.blocks.stop - run.next_block > 1):
            yield Preempt(run, How.DRAIN)
