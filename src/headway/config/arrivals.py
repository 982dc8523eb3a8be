"""The arrival processes that a scenario may name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from headway.config.quantities import Duration, Overhead, Rate
from headway.config.validation import Strict, exactly_one, mistake

MOST_CLIENTS = 100_000
LEAST_REQUESTS_PER_CYCLE = 0.01  # of an on and an off phase; below it, nearly all phases drawn would be empty


class Poisson(Strict):
    """Independent arrivals: exponential gaps with mean 1/rate."""

    process: Literal["poisson"]
    rate: Rate

    @property
    def mean_rate(self) -> float:
        """Requests per second in the long run."""
        return self.rate


class Uniform(Strict):
    """Gaps drawn evenly between 0 and 2/rate."""

    process: Literal["uniform"]
    rate: Rate

    @property
    def mean_rate(self) -> float:
        """Requests per second in the long run."""
        return self.rate


class Mmpp(Strict):
    """A Markov-modulated Poisson process with two phases, whose lengths are exponential.

    In the on phase requests come `burst_ratio` times as densely as in the off phase; `rate` is the mean over
    both.
    """

    process: Literal["mmpp"]
    rate: Rate
    burst_ratio: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] = 4.0
    mean_on: Duration
    mean_off: Duration

    @model_validator(mode="after")
    def _check(self) -> Mmpp:
        least_s = LEAST_REQUESTS_PER_CYCLE / self.rate
        if self.mean_on + self.mean_off < least_s:
            raise mistake(
                f"mean_on and mean_off must be at least {least_s:g} s together at this rate;"
                " shorter phases make a Poisson process: use poisson",
                "mean_on",
            )
        return self

    @property
    def mean_rate(self) -> float:
        """Requests per second in the long run."""
        return self.rate

    @property
    def on_share(self) -> float:
        """The share of time in the on phase."""
        return self.mean_on / (self.mean_on + self.mean_off)

    @property
    def off_rate(self) -> float:
        """Requests per second in the off phase, such that both phases together have the mean rate."""
        return self.rate / (self.on_share * self.burst_ratio + 1 - self.on_share)


class Periodic(Strict):
    """Frame k arrives at phase + k x period, moved by up to `jitter` either way, evenly distributed.

    Give `period` or `rate` ("30 fps").
    """

    process: Literal["periodic"]
    period: Duration | None = None
    rate: Rate | None = None
    jitter: Annotated[
        Overhead, Field(description="At most half the period, so that frames keep their order.")
    ] = 0.0
    phase: Annotated[Overhead, Field(description="Time of the first frame.")] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Periodic:
        exactly_one(self.period, self.rate, 'period ("33 ms") and rate ("30 fps")')
        if self.jitter > self.period_s / 2:
            raise mistake(f"must be at most half the period, {self.period_s / 2:g} s", "jitter")
        return self

    @property
    def period_s(self) -> float:
        """Seconds from frame to frame."""
        return self.period if self.period is not None else 1 / (self.rate or 0.0)

    @property
    def mean_rate(self) -> float:
        """Requests per second in the long run."""
        return 1 / self.period_s


class Closed(Strict):
    """Clients that each send a request, await its end, think, and send the next.

    Thinking takes an exponential time with the mean `think_time`, or exactly that with `think: fixed`.
    """

    process: Literal["closed"]
    clients: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    think_time: Overhead
    think: Literal["exponential", "fixed"] = "exponential"


OpenArrivals = Poisson | Uniform | Mmpp | Periodic


def _with_process(value: Any) -> Any:
    # pydantic's own message for a missing discriminator does not say what is accepted.
    if isinstance(value, dict) and "process" not in value:
        raise mistake("missing, but required; accepted: poisson, uniform, mmpp, periodic, closed", "process")
    return value


Arrivals = Annotated[OpenArrivals | Closed, Field(discriminator="process"), BeforeValidator(_with_process)]
