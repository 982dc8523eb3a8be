"""PREMA: tokens say who is a candidate, the shortest candidate runs, others drain or are checkpointed.

After "PREMA: A Predictive Multi-task Scheduling Algorithm For Preemptible Neural Processing Units" (HPCA
2020). Tokens, threshold and choice are those of the public code of Dysta
(SamsungLabs/Sparse-Multi-DNN-Scheduling, PREMA_Scheduler), which follows algorithm 2 of the paper; a
candidate has at least the threshold, since with more than it, as printed, nobody is one at the start. Waiting
is counted once, where that code adds up all waiting so far at every decision. The mechanism (algorithm 3) and
the period are as remembered of the paper.

Port to several cores: of all requests, waiting and running, as many are picked as there are cores, and a
picked one that waits takes the fastest idle core for its next layer, or that of a running one that is not
picked.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.messages import Decision, Preempt, Wake
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import How, Outcome, Run
from headway.policies.base import Policy
from headway.policies.placement import Placement
from headway.policies.registry import policy

LEVELS = (9, 3, 1)
"""Tokens of high, middle and low priority, and the thresholds (paper, table II)."""

MIDDLE_FROM, HIGH_FROM = 3, 9
"""Priorities from which a request is of middle and high priority: MoCA's classes of 0 to 11 (its public
code), which leave PREMA's 1, 3 and 9 as they are."""

GROWTH = 1.0
"""Tokens per isolated latency waited, in units of the priority's own (paper, algorithm 2)."""

PERIOD_S = 0.25e-3
"""A decision is taken at least this often while anybody waits: the paper's scheduling period, as
remembered."""


@policy("prema")
@policy("prema:checkpoint", drain=False)
class Prema(Policy):
    """PREMA (HPCA 2020): tokens grow with priority and slowdown, of those with enough the shortest runs.

    `growth` is how many times its priority's tokens a request gets for each isolated latency that it waits.
    """

    needs = frozenset({Capability.PREEMPT})

    def __init__(self, *, drain: bool = True, growth: float = GROWTH, period_s: float = PERIOD_S) -> None:
        self._drain = drain
        self._growth = growth
        self._period_s = period_s
        self._placement = Placement()
        self._waited_s: dict[int, float] = {}
        self._period_end_s = 0.0

    def decide(self, view: View) -> Iterator[Decision]:
        """Start those picked that wait, make room for the others, and come back after the period."""
        placement, now = self._placement, view.now
        placement.begin(view)
        waiting, running = list(view.ready), view.running
        tokens = {request.id: self._token(request, now) for request in waiting}
        tokens |= {run.request.id: self._token(run.request, None) for run in running}
        most = max(tokens.values())
        threshold = next(level for level in LEVELS if level <= most)
        ranks = {request.id: _estimate_s(request, view) for request in waiting}
        ranks |= {run.request.id: _estimate_of_running_s(run, view) for run in running}
        order = sorted(ranks, key=lambda id: (tokens[id] < threshold, ranks[id], id))
        picked = {id: place for place, id in enumerate(order[: len(view.device.cores)])}
        waiting = sorted((request for request in waiting if request.id in picked), key=lambda r: picked[r.id])
        left: list[Request] = []
        for request in waiting:
            core = placement.fastest(request)
            if core is None:
                left.append(request)
                continue
            self._waited_s[request.id] = self._waiting_s(request, now)
            yield placement.suited(request, core)
        yield from self._make_room(left, [run for run in running if run.request.id not in picked], view)
        if view.ready and now >= self._period_end_s:
            self._period_end_s = now + self._period_s
            yield Wake(self._period_end_s)

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Forget how long it waited."""
        self._waited_s.pop(request.id, None)

    def _make_room(self, waiting: list[Request], victims: list[Run], view: View) -> Iterator[Decision]:
        """The running requests with most left, for those picked that found no core."""
        stopping = sum(run.stopping is not None for run in victims)
        free = sorted(
            (run for run in victims if run.stopping is None), key=lambda run: _left_s(run, view), reverse=True
        )
        for request, run in zip(waiting[stopping:], free, strict=False):
            if not (self._drain and _drains(request, run, view)):
                yield Preempt(run, How.SPILL)

    def _token(self, request: Request, now: float | None) -> float:
        """Priority, and as much again (times `growth`) for every isolated latency that it has waited (not
        counting a run in progress, for which `now` is None)."""
        waited_s = self._waited_s.get(request.id, 0.0) if now is None else self._waiting_s(request, now)
        slowdown = waited_s / request.isolated_s if request.isolated_s > 0.0 else 0.0
        return _level(request) * (1.0 + self._growth * slowdown)

    def _waiting_s(self, request: Request, now: float) -> float:
        return self._waited_s.get(request.id, 0.0) + now - request.ready_since_s


def _level(request: Request) -> int:
    high, middle, low = LEVELS
    return high if request.priority >= HIGH_FROM else middle if request.priority >= MIDDLE_FROM else low


def _estimate_s(request: Request, view: View) -> float:
    """Seconds that a waiting request has left, each layer on its best core, alone on the machine."""
    partial, block = request.partial, request.next_block
    done_s = partial.done * view.table(request).best_s[block] if partial is not None else 0.0
    return view.remaining_s(request) - done_s


def _estimate_of_running_s(run: Run, view: View) -> float:
    """The same for a running one, which is never more than what it will be believed to have left if it is
    stopped. Measured by the core it is on and by who runs beside it, it would lose to another that
    is no shorter, which would lose to it in its turn, and the two would stop each other for ever."""
    table, block = view.table(run.request), run.next_block
    return min(_left_s(run, view), table.remaining_s[block] - run.resumed * table.best_s[block])


def _left_s(run: Run, view: View) -> float:
    """Seconds until the request of a run would be done."""
    return run.expected_end_s - view.now + view.table(run.request).remaining_s[run.blocks.stop]


def _drains(request: Request, run: Run, view: View) -> bool:
    """Whether the running request finishes first (algorithm 3): each would wait for what is left of the
    other, and that weighs more on the running one, relative to its isolated latency."""
    loss_of_running = view.remaining_s(request) * request.isolated_s
    loss_of_waiting = _left_s(run, view) * run.request.isolated_s
    return loss_of_running > loss_of_waiting
