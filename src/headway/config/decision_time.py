"""The time that a policy's decision takes in the simulator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headway.config.quantities import Overhead
from headway.config.validation import Strict
from headway.core.decision_time import DecisionCharge


class DecisionTime(Strict):
    """What a decision takes in virtual time: runs that it starts begin so much later, while their cores wait.

    Never measured, so that the same scenario gives the same log.
    """

    fixed: Annotated[Overhead, Field(description="Of every decision.")] = 0.0
    per_ready: Annotated[Overhead, Field(description="For each waiting request that it looks at.")] = 0.0
    per_idle_core: Annotated[Overhead, Field(description="For each idle core that it looks at.")] = 0.0

    def charge(self) -> DecisionCharge | None:
        """What the engine charges; None if decisions take no time."""
        if not (self.fixed or self.per_ready or self.per_idle_core):
            return None
        return DecisionCharge(self.fixed, self.per_ready, self.per_idle_core)
