"""The arrival processes that a scenario may name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from headway.config.quantities import Duration, Overhead, Rate
from headway.config.traces import Trace
from headway.config.validation import Positive, Share, Strict, exactly_one, mistake

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

    def faster(self, factor: float) -> Poisson:
        """The same with all times divided by `factor`."""
        return self.model_copy(update={"rate": self.rate * factor})


class Uniform(Strict):
    """Gaps drawn evenly between 0 and 2/rate."""

    process: Literal["uniform"]
    rate: Rate

    @property
    def mean_rate(self) -> float:
        """Requests per second in the long run."""
        return self.rate

    def faster(self, factor: float) -> Uniform:
        """The same with all times divided by `factor`."""
        return self.model_copy(update={"rate": self.rate * factor})


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

    def faster(self, factor: float) -> Mmpp:
        """The same with all times divided by `factor`: bursts have as many requests as before."""
        return self.model_copy(
            update={
                "rate": self.rate * factor,
                "mean_on": self.mean_on / factor,
                "mean_off": self.mean_off / factor,
            }
        )

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

    def faster(self, factor: float) -> Periodic:
        """The same with all times divided by `factor`, jitter and phase among them."""
        return self.model_copy(
            update={
                "rate": None,
                "period": self.period_s / factor,
                "jitter": self.jitter / factor,
                "phase": self.phase / factor,
            }
        )


class Closed(Strict):
    """Clients that each send a request, await its end, think, and send the next.

    Thinking takes an exponential time with the mean `think_time`, or exactly that with `think: fixed`.
    """

    process: Literal["closed"]
    clients: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    think_time: Overhead
    think: Literal["exponential", "fixed"] = "exponential"


class MocaStream(Strict):
    """A share of the requests of the scenario's `streams`, which are drawn from all tenants that have one."""

    process: Literal["moca-streams"]
    share: Annotated[Positive, Field(description="Weight among the tenants of the streams.")] = 1.0


class After(Strict):
    """One request whenever one of the parent's is done: a cascade.

    The deadline, and `expires`, count from the arrival of the request at the root of the cascade. A request
    whose parent was dropped, or ended otherwise without being done, is not sent but counts as requested and
    dropped. With a probability below 1 the others of the parent's requests ask for nothing at all.
    """

    process: Literal["after"]
    parent: Annotated[str, Field(min_length=1, description="The tenant whose requests cause these.")]
    probability: Annotated[
        Share, Field(description="Of a request of the parent to cause one, drawn for each.")
    ] = 1.0


class Streams(Strict):
    """Arrival streams as MoCA's artifact makes them (HPCA 2023; workload.h of its test suite).

    Each stream's first request comes at 0. After a request of a tenant with isolated latency T the stream's
    next one comes T x cap - step x U later, U a whole number drawn evenly from 0 to steps - 1, and at once
    where that is negative. Whose request it is, is drawn by the tenants' shares. Nothing waits for replies.
    MoCA has four streams, one for each pair of its tiles, steps of 45,000 cycles at 1 GHz, and a cap of 0.92
    for its light set, 1.42 for the heavy and 1.22 for the mixed one; its T is measured on two tiles, here it
    is the isolated latency of docs/scenario.md.
    """

    count: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] = 4
    cap: Positive = 0.92
    step: Overhead = 45e-6
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    speed: Annotated[Positive, Field(description="By which all gaps are divided.")] = 1.0

    def faster(self, factor: float) -> Streams:
        """The same with all gaps divided by `factor`."""
        return self.model_copy(update={"speed": self.speed * factor})

    def mean_gap_s(self, isolated_s: float) -> float:
        """Mean seconds from a request of a tenant with that isolated latency to the stream's next one."""
        gaps = [max(0.0, isolated_s * self.cap - self.step * number) for number in range(self.steps)]
        return sum(gaps) / self.steps / self.speed


RandomArrivals = Poisson | Uniform | Mmpp | Periodic
OpenArrivals = RandomArrivals | Trace
AnyArrivals = OpenArrivals | MocaStream | Closed | After
PROCESSES = ("poisson", "uniform", "mmpp", "periodic", "trace", "moca-streams", "closed", "after")


def _with_process(value: Any) -> Any:
    # pydantic's own message for a missing discriminator does not say what is accepted.
    if isinstance(value, dict) and "process" not in value:
        raise mistake(f"missing, but required; accepted: {', '.join(PROCESSES)}", "process")
    return value


Arrivals = Annotated[AnyArrivals, Field(discriminator="process"), BeforeValidator(_with_process)]
