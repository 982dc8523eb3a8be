"""First come, first served."""

from headway.policies.listing import ListPolicy
from headway.policies.registry import policy
from headway.policies.width import Width


@policy("fcfs")
@policy("fcfs:wide", width=Width.WIDE)
class Fcfs(ListPolicy):
    """First come, first served, never preempted: what an unmanaged queue does."""
