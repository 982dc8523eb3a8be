"""How many requests of a tenant may run together, and how long they may wait for each other."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headway.config.quantities import Overhead
from headway.config.validation import Strict

MOST_BATCH = 64


class Batching(Strict):
    """Requests of one model that run as one, where the policy makes batches and no SLA is lost by it."""

    max_size: Annotated[int, Field(ge=2, le=MOST_BATCH, description="The largest batch.")]
    delay: Annotated[
        Overhead,
        Field(description="How long after its arrival a request may be kept for others to join it."),
    ] = 0.0
