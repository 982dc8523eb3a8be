"""Refusing at its arrival what cannot be in time, whatever the policy.

A request's finish is predicted from the engine's own state: what runs, what waits with earlier deadlines, and
the costs of all of it. Two schedules are followed, both earliest deadline first, and both what a policy could
do: side by side, each request on one lane and lanes slowed by each other; and one after the other, each over
as many lanes as make it fastest. The earlier finish counts, so that what is refused could not have been in
time by either. What is uncertain is left out: runs that take longer, and requests to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from typing import Any, Final, cast

from headway.core.messages import Decision, Drop
from headway.core.protocols import Policy, View
from headway.core.request import Request, State
from headway.core.run import Outcome, Run

REFUSED: Final = "would be late"
"""Reason of a drop by this check."""

LeastSeconds = Callable[[Request], float]
"""Seconds that the rest of a request takes alone on the device, on as many lanes as make it fastest."""


Pace = Callable[[Request], float]
"""The share, in (0, 1], of the seconds believed that a request's runs really take."""

FIRST_RUNS: Final = 3
"""The fastest of a model's first runs says how long it takes; the very first finds nothing in the caches."""

GAIN: Final = 0.1
LEAST_PACE: Final = 0.1
SILENCE_S: Final = 1.0
"""For every so long that a model is refused without a run, its pace is believed to be half of what it was: if
all its requests are refused because the machine was busy, or its profile is far too slow, nothing else would
ever show it."""


def _as_believed(request: Request) -> float:
    return 1.0


def predicted_finish_s(
    request: Request,
    view: View,
    *,
    least_s: LeastSeconds,
    speed: float,
    pace: Pace = _as_believed,
    share: Pace = _as_believed,
    without: Sequence[Request] = (),
) -> float:
    """When a waiting request will be done, by the earlier of two schedules; see the module.

    Args:
        request: it waits.
        view: of the engine; times are on its clock.
        least_s: of a request's rest, alone.
        speed: share of its full speed, in (0, 1], with which a run goes on while all lanes are busy.
        pace: of each request.
        share: what a request takes of its time alone if it runs in a batch with those that wait.
        without: waiting requests that are given up and have no part in this.
    """
    now, lanes = view.now, len(view.device.cores)
    gone = {each.id for each in without}
    ahead = [
        other
        for other in view.ready
        if other is not request and other.id not in gone and _before(other, request)
    ]
    ahead.sort(key=_order)
    mates = [other for other in ahead if other.model == request.model] if request.most_batch > 1 else []
    ahead = _before_batch(ahead, mates, request)
    ends_s = [now] * lanes
    at_once_s = now
    for run in view.running:
        # What is preempted leaves its lanes at the end of its block.
        stays = _before(run.request, request) and run.stopping is None
        end_s = run.expected_end_s if stays else min(run.block_end_s, run.expected_end_s)
        until_s = now + max(0.0, end_s - now) * pace(run.request)
        for core in run.cores:
            ends_s[core.index] = max(ends_s[core.index], until_s)
        at_once_s += (until_s - now) * len(run.cores) / lanes
    heapify(ends_s)
    for other in ahead:
        factor = pace(other) * share(other)
        left_s = view.remaining_s(other) * factor
        heapreplace(ends_s, ends_s[0] + left_s / (speed if lanes > 1 else 1.0))
        at_once_s += least_s(other) * factor
    busy = len(view.running) + len(ahead)
    own_pace = pace(request) * (share(request) if mates else 1.0)
    own_s = view.remaining_s(request) * own_pace
    side_by_side_s = ends_s[0] + own_s / (speed if busy and lanes > 1 else 1.0)
    return min(side_by_side_s, at_once_s + least_s(request) * own_pace)


def _before_batch(ahead: list[Request], mates: Sequence[Request], request: Request) -> list[Request]:
    """Those ahead of the batch that a request may join, its mates in this and other batches included.

    `mates` are those ahead of the same model; a batch starts where its first one is.
    """
    joined = len(mates) - len(mates) % request.most_batch
    if joined == len(mates):
        return ahead
    start = _order(mates[joined])
    return [other for other in ahead if other.model == request.model or _order(other) < start]


def _before(other: Request, request: Request) -> bool:
    return _order(other) < _order(request)


def _order(request: Request) -> tuple[bool, float, float, int]:
    """Earliest deadline first, best effort last."""
    return not request.strict, request.deadline_s, request.arrival_s, request.id


class Admission:
    """A policy behind the check: strict requests that would be late are dropped when they arrive.

    Implements `headway.core.protocols.Policy`. `finish_s` holds when each request that was dropped, by this
    check or by the policy, would have been done; whoever reads it takes it out.

    Profiles that were taken on a busy machine promise less than the machine does at rest, so that the check
    learns from runs by how much they are faster than believed. That they are slower it leaves to the policy.

    Args:
        inner: the policy.
        least_s: as for `predicted_finish_s`.
        speed: likewise.
        checking: whether to check at all; False only notes when those would be done that the policy drops.
    """

    def __init__(self, inner: Policy, least_s: LeastSeconds, speed: float, *, checking: bool = True) -> None:
        self.inner = inner
        self.needs, self.at_block_ends = inner.needs, inner.at_block_ends
        self.needs_accelerator, self.needs_lanes = inner.needs_accelerator, inner.needs_lanes
        self.finish_s: dict[int, float] = {}
        self._least_s, self._speed, self.checking = least_s, speed, checking
        self._new: list[Request] = []
        self._paces: dict[str, _ModelPace] = {}
        self._now = 0.0

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The policy's own."""
        if self.checking and request.strict and not request.started:
            self._new.append(request)
        return self.inner.key(request, view)

    def decide(self, view: View) -> Iterable[Decision]:
        """Drops of what has just come, then what the policy decides about the rest."""
        self._now = view.now
        late: list[Request] = []
        if self._new:
            new, self._new = self._new, []
            for request in sorted(new, key=_order):
                if request.state is State.READY and self._finish(request, view, late) > request.deadline_s:
                    late.append(request)
        if not late:
            yield from self._noted(self.inner.decide(view), view)
            return
        for request in late:
            self._paces.setdefault(request.model, _ModelPace()).refused(view.now)
            yield Drop(request, REFUSED)
        rest = _Without(view, late)
        if rest.ready or view.running:
            yield from self._noted(self.inner.decide(cast(View, rest)), view)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Learn from it, and pass it on."""
        kinds = tuple([view.device.kind_of[core.index] for core in run.cores])
        table = view.table(run.request).of_batch(run.batch)
        option = table.option(run.mode, run.blocks.start, run.blocks.stop, kinds)
        believed_s = option.seconds(view.device.dram_bandwidth_bytes_s)
        if believed_s > 0.0:
            self._paces.setdefault(run.request.model, _ModelPace()).learn(actual_s / believed_s)
        self.inner.on_finish(run, actual_s, view)

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Passed on."""
        self.inner.on_gone(request, reason, view)

    def _noted(self, decisions: Iterable[Decision], view: View) -> Iterator[Decision]:
        for decision in decisions:
            if isinstance(decision, Drop) and decision.request.state is State.READY:
                self._finish(decision.request, view, ())
            yield decision

    def _pace(self, request: Request) -> float:
        known = self._paces.get(request.model)
        return 1.0 if known is None else known.at(self._now)

    def forget(self, model: str) -> None:
        """A model is gone."""
        self._paces.pop(model, None)

    def _finish(self, request: Request, view: View, without: Sequence[Request]) -> float:
        """Predict, and keep the prediction if it is late."""
        finish_s = predicted_finish_s(
            request,
            view,
            least_s=self._least_s,
            speed=self._speed,
            pace=self._pace,
            share=_batch_share(view),
            without=without,
        )
        if finish_s > request.deadline_s:
            self.finish_s[request.id] = finish_s
        return finish_s


def _batch_share(view: View) -> Pace:
    """What a request takes of its time alone if as many run together as wait and may."""
    waiting = Counter(request.model for request in view.ready if request.most_batch > 1)
    known: dict[tuple[str, int], float] = {}

    def share(request: Request) -> float:
        if request.most_batch == 1:
            return 1.0
        table = view.table(request)
        size = min(request.most_batch, table.most_batch, max(1, waiting[request.model]))
        found = known.get((request.model, size))
        if found is None:
            alone_s = table.remaining_s[0]
            found = min(1.0, table.of_batch(size).remaining_s[0] / (size * alone_s)) if alone_s else 1.0
            known[request.model, size] = found
        return found

    return share


class _ModelPace:
    """How much of the time believed a model's runs take."""

    __slots__ = ("_ratio", "_refused_s", "_runs")

    def __init__(self) -> None:
        self._ratio, self._runs = 1.0, 0
        self._refused_s: float | None = None  # when it was first refused since it last ran

    def learn(self, ratio: float) -> None:
        """A run has taken that share of what was believed."""
        self._runs += 1
        if self._runs <= FIRST_RUNS:
            self._ratio = ratio if self._runs == 1 else min(self._ratio, ratio)
        else:
            self._ratio += GAIN * (ratio - self._ratio)
        self._refused_s = None

    def refused(self, now: float) -> None:
        """A request was refused for what is believed."""
        if self._refused_s is None:
            self._refused_s = now

    def at(self, now: float) -> float:
        """The share now; above 1 counts as 1."""
        silences = 0 if self._refused_s is None else min(int((now - self._refused_s) / SILENCE_S), 30)
        return max(LEAST_PACE, min(1.0, self._ratio) / (1 << silences))


class _Without:
    """A view without some of the waiting requests; everything else is the view's own."""

    def __init__(self, view: View, hidden: Sequence[Request]) -> None:
        gone = {request.id for request in hidden}
        self._view = view
        self.ready = [request for request in view.ready if request.id not in gone]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)
