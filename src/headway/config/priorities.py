"""Priorities of requests: a tenant's own, or drawn for each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from headway.config.validation import Strict


@dataclass(frozen=True, slots=True)
class Classes:
    """Priorities, and how often each is drawn in proportion to the others."""

    priorities: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def mean(self) -> float:
        """The mean of what is drawn."""
        pairs = zip(self.priorities, self.weights, strict=True)
        return sum(priority * weight for priority, weight in pairs) / sum(self.weights)


DRAWS = {
    "prema": Classes((1, 3, 9), (1, 1, 1)),
    "moca": Classes((0, 1, 2, 4, 6, 8, 9, 11), (15, 18, 10, 15, 15, 15, 10, 10)),
}
"""PREMA (HPCA 2020): low, medium and high alike. MoCA (HPCA 2023): the histogram of its artifact's
workload.h, whose classes are low (0 to 2), medium (3 to 8) and high (9 to 11)."""


class DrawnPriority(Strict):
    """A priority drawn for each request: PREMA's {1, 3, 9}, or MoCA's 0 to 11."""

    draw: Literal["prema", "moca"]

    @property
    def classes(self) -> Classes:
        """What is drawn, and how often."""
        return DRAWS[self.draw]


Priority = Annotated[
    Annotated[int, Field(ge=0, le=1_000_000), Tag("fixed")] | Annotated[DrawnPriority, Tag("drawn")],
    Discriminator(lambda value: "drawn" if isinstance(value, (dict, DrawnPriority)) else "fixed"),
]
