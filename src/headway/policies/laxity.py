"""Least laxity first."""

from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.listing import PreemptiveListPolicy
from headway.policies.registry import policy
from headway.policies.width import Width


@policy("laxity")
@policy("laxity:wide", width=Width.WIDE)
@policy("laxity:adaptive", width=Width.ADAPTIVE)
class Laxity(PreemptiveListPolicy):
    """Least laxity first: deadline minus remaining work; requests that cannot be saved are dropped.

    Laxity at time t is (deadline - t) - remaining, so the order of waiting requests does not depend on t
    and deadline - remaining sorts them.
    """

    drops = True

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The latest start that still meets the deadline with optimistic work times."""
        return (request.deadline_s - self.remaining_s(request, view),)
