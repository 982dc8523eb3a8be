"""Earliest deadline first."""

from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.listing import PreemptiveListPolicy
from headway.policies.registry import policy
from headway.policies.width import Width


@policy("edf")
@policy("edf:wide", width=Width.WIDE)
@policy("edf:adaptive", width=Width.ADAPTIVE)
class Edf(PreemptiveListPolicy):
    """Earliest deadline first (Liu and Layland, 1973), preemptive at block ends, nothing is dropped."""

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """The absolute deadline."""
        return (request.deadline_s,)
