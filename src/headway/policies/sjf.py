"""Shortest job first."""

from headway.core.protocols import View
from headway.core.request import Request
from headway.policies.listing import ListPolicy
from headway.policies.registry import policy


@policy("sjf")
class Sjf(ListPolicy):
    """Shortest estimated remaining time first, decided anew whenever a core is free."""

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """Optimistic seconds of work left."""
        return (view.remaining_s(request),)
