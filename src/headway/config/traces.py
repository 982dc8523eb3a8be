"""Arrivals taken from a recorded trace, and which of its rows a tenant takes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from headway.config.quantities import Duration, Overhead
from headway.config.validation import Positive, Strict, mistake

TraceFormat = Literal["azure-llm", "mooncake", "azure-functions-2019", "azure-functions-2021", "invitro-gpu"]

TRACE_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "azure-llm": ("input", "output"),
    "mooncake": ("input", "output"),
    "azure-functions-2019": ("function", "app", "duration"),
    "azure-functions-2021": ("function", "app", "duration"),
    "invitro-gpu": ("function", "app", "duration", "batch", "iterations"),
}
"""What the rows of each format can be told apart by."""

MINUTE_COUNTS: Final = frozenset({"azure-functions-2019", "invitro-gpu"})
"""Formats that give numbers per minute, without times within it."""

_Text = Annotated[str, Field(min_length=1, max_length=256)]


class Counts(Strict):
    """Numbers from `at_least` on and below `below`."""

    at_least: Annotated[int, Field(ge=0)] = 0
    below: Annotated[int | None, Field(ge=1)] = None


class Durations(Strict):
    """Times from `at_least` on and below `below`."""

    at_least: Overhead = 0.0
    below: Duration | None = None


class Rows(Strict):
    """Which rows of a trace: those that meet every condition given. Without any, all.

    Names of functions and apps are whole, or the beginnings of hashes; `duration` is the row's own, or the
    function's average where the format has no other. `input` and `output` count tokens.
    """

    function: Annotated[tuple[_Text, ...], Field(strict=False)] | None = None
    app: Annotated[tuple[_Text, ...], Field(strict=False)] | None = None
    input: Counts | None = None
    output: Counts | None = None
    duration: Durations | None = None
    batch: Counts | None = None
    iterations: Counts | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What the conditions are about."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


class Trace(Strict):
    """The requests of a recorded trace, or those of its rows that this tenant takes.

    The trace's first arrival, or `start` if that is given, becomes time 0. One trace may serve several
    tenants, each with a model and shapes for its share of the rows; rows that none takes are left out.
    """

    process: Literal["trace"]
    file: Annotated[
        str, Field(min_length=1, max_length=4096, description="A CSV file, relative to the scenario.")
    ]
    format: TraceFormat
    rows: Rows = Rows()
    speed: Annotated[Positive, Field(description="60: an hour of the trace passes in a minute.")] = 1.0
    start: Annotated[
        Overhead, Field(description="Rows before this time of the trace, from its first on, are left out.")
    ] = 0.0
    spread: Annotated[
        Overhead | None,
        Field(
            description="Each arrival is moved later by a time drawn evenly from 0 to this, in the trace's"
            " time. By default 1 min where the format has numbers per minute, else nothing."
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Trace:
        accepted = TRACE_COLUMNS[self.format]
        for column in self.rows.columns:
            if column not in accepted:
                raise mistake(
                    f"rows of {self.format} have none; accepted: {', '.join(accepted)}", "rows", column
                )
        return self

    @property
    def spread_s(self) -> float:
        """Seconds of the trace over which arrivals of one stamp are spread."""
        default_s = 60.0 if self.format in MINUTE_COUNTS else 0.0
        return default_s if self.spread is None else self.spread

    def faster(self, factor: float) -> Trace:
        """The same with all times divided by `factor`."""
        return self.model_copy(update={"speed": self.speed * factor})
