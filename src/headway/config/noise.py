"""How far truth strays from belief in the simulator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from headway.config.quantities import Duration
from headway.config.validation import Strict, mistake


class Stalls(Strict):
    """Stretches of time in which the whole machine is slow, as one is that others use too.

    Both lengths are drawn from exponential distributions.
    """

    factor: Annotated[
        float, Field(ge=1, le=100, allow_inf_nan=False, description="How many times longer all takes then.")
    ]
    lasts: Annotated[Duration, Field(description="How long one lasts, in the mean.")]
    every: Annotated[Duration, Field(description="From one's beginning to the next one's, in the mean.")]

    @model_validator(mode="after")
    def _leave_time_between(self) -> Stalls:
        if not 0.0 < self.lasts < self.every:
            raise mistake(f"found {self.every:g} s; accepted: more than lasts ({self.lasts:g} s)", "every")
        return self


class Noise(Strict):
    """How far truth strays from belief."""

    solo_std: Annotated[
        float,
        Field(
            ge=0,
            le=3,
            allow_inf_nan=False,
            description="Standard deviation of the logarithm of a run's time alone; 0 for none.",
        ),
    ] = 0.1
    stalls: Annotated[
        Stalls | None, Field(description="In the simulator: times at which the whole machine is slow.")
    ] = None
