"""Asking a policy, and what is made of its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.core.checks import PolicyError, PolicyFailed, answer_of, check_key
from headway.core.decision_time import DecisionTimes
from headway.core.fallback import Faults
from headway.core.messages import Decision
from headway.core.protocols import Policy
from headway.core.request import Request
from headway.core.run import Outcome, Run

if TYPE_CHECKING:
    from headway.core.engine import Engine

_RAISED = (Exception, SystemExit)  # what a policy may raise; an exit would end the run as if all was well


class Counsel:
    """A policy behind a guard: whatever it raises becomes a PolicyError that says where.

    With `forgiving`, failures of `key`, `on_finish` and `on_gone` are counted in `faults` instead, and the
    deadline stands in as key. `times` records how long decisions take.
    """

    def __init__(self, policy: Policy, times: DecisionTimes | None, *, forgiving: bool) -> None:
        self.policy = policy
        self.times = times
        self.forgiving = forgiving
        self.faults = Faults()

    def answer(self, engine: Engine) -> list[Decision]:
        """All decisions of the policy. Raises PolicyError if it fails, or gives no answer."""
        try:
            if self.times is None:
                return answer_of(engine)
            begin_s = self.times.clock()
            answer = answer_of(engine)
            self.times.seconds.append(self.times.clock() - begin_s)
            return answer
        except PolicyError:
            raise
        except _RAISED as error:
            raise PolicyFailed("decide", error) from error

    def key(self, request: Request, engine: Engine) -> tuple[float, ...]:
        """The policy's key for a request."""
        try:
            return check_key(self.policy.key(request, engine.view))
        except _RAISED as error:
            self._failed("key", error, engine.now)
            return (request.deadline_s,)

    def finished(self, run: Run, engine: Engine) -> None:
        """Tell the policy that a run is over."""
        try:
            self.policy.on_finish(run, engine.now - run.started_s, engine.view)
        except _RAISED as error:
            self._failed("on_finish", error, engine.now)

    def gone(self, request: Request, outcome: Outcome, engine: Engine) -> None:
        """Tell the policy that a request is over."""
        try:
            self.policy.on_gone(request, outcome, engine.view)
        except _RAISED as error:
            self._failed("on_gone", error, engine.now)

    def _failed(self, method: str, error: BaseException, now: float) -> None:
        failed = error if isinstance(error, PolicyError) else PolicyFailed(method, error)
        if not self.forgiving:
            raise failed from error
        self.faults.add(now, str(failed))
