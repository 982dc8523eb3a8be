"""First come, first served."""

from headway.policies.listing import ListPolicy
from headway.policies.registry import policy


@policy("fcfs")
class Fcfs(ListPolicy):
    """First come, first served, never preempted: what an unmanaged queue does."""
