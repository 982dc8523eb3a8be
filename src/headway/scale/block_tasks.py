"""The points of the comparison of lane policies, as tasks for many processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.wiring.block_points import BlockPoint, PreparedPoint
from headway.wiring.block_world import DEVICES

MOST_REQUESTS: Final = 10_000_000
"""Of all points together, for one policy."""

NEWCOMERS_TIMES: Final = 5
"""As many requests come in points with new models, since only the first hundred of each are looked at."""


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """What is varied. `requests` are those of a point over all seeds. New models come at
    `newcomer_utilisation` and `newcomer_sla`, with `newcomer_models` at a time, on every device; None: they
    do not come."""

    devices: tuple[str, ...] = DEVICES
    models: tuple[int, ...] = (4,)
    utilisations: tuple[float, ...] = (0.7, 1.2)
    slas: tuple[float, ...] = (2.0, 5.0)
    seeds: tuple[int, ...] = (101, 102, 103)
    requests: int = 1_800
    newcomer_models: int | None = 4
    newcomer_utilisation: float = 0.7
    newcomer_sla: float = 5.0

    def points(self) -> list[BlockPoint]:
        """Every point, with the first seed.

        Raises HeadwayError for values that make no point, and for more requests than can be simulated.
        """
        unknown = [device for device in self.devices if device not in DEVICES]
        if unknown:
            raise HeadwayError(f"--devices: found {unknown[0]!r}; accepted: {', '.join(DEVICES)}")
        if not all(1 <= count <= 64 for count in self.models):
            raise HeadwayError(f"--models: found {list(self.models)}; accepted: from 1 to 64")
        for option, values in (("--utilisations", self.utilisations), ("--slas", self.slas)):
            if not all(0.0 < value <= 1_000.0 for value in values):
                raise HeadwayError(f"{option}: found {list(values)}; accepted: above 0, at most 1000")
        each = self.requests // len(self.seeds)
        if each < 1:
            raise HeadwayError(f"--requests: found {self.requests}; accepted: at least one for each seed")
        points = [
            BlockPoint(device, count, utilisation, sla, self.seeds[0], each)
            for device, count, utilisation, sla in product(
                self.devices, self.models, self.utilisations, self.slas
            )
        ]
        if self.newcomer_models is not None:
            load = (self.newcomer_models, self.newcomer_utilisation, self.newcomer_sla)
            many = NEWCOMERS_TIMES * each
            points += [BlockPoint(device, *load, self.seeds[0], many, True) for device in self.devices]
        if len(points) * self.requests > MOST_REQUESTS:
            raise HeadwayError(
                f"--requests: found {self.requests:,} for each of {len(points)} points; accepted: at most"
                f" {MOST_REQUESTS:,} together"
            )
        return points


FULL: Final = BlockGrid(
    models=(2, 4, 8),
    utilisations=(0.3, 0.5, 0.7, 0.9, 1.2),
    slas=(2.0, 3.0, 5.0, 10.0),
    seeds=(101, 102, 103, 104, 105),
    requests=20_000,
)
"""All points, with 20,000 requests in each."""


@dataclass(frozen=True, slots=True)
class BlockTask:
    """A point under the policies that are still to be run. Implements `headway.scale.tasks.AnyTask`."""

    point: BlockPoint
    policies: tuple[str, ...]

    @property
    def cell(self) -> str:
        """What the point is called."""
        point = self.point
        text = f"{point.device}, {point.models} models, load {point.utilisation:g}, SLA {point.sla:g}"
        return f"{text}, newcomers" if point.newcomers else text

    @property
    def coordinates(self) -> Mapping[str, str | float | None]:
        """Where it lies."""
        point = self.point
        return {
            "device": point.device,
            "models": float(point.models),
            "utilisation": point.utilisation,
            "sla": point.sla,
            "newcomers": "yes" if point.newcomers else "no",
        }

    @property
    def seed(self) -> int:
        """The point's seed."""
        return self.point.seed

    def identity(self, policy: str, digest_of: Callable[[Path], str]) -> Mapping[str, Any]:
        """See `headway.scale.tasks.AnyTask.identity`."""
        return {"blocks": self.point.to_mapping(), "policy": policy}

    def begin(self) -> Callable[[str], Row]:
        """See `headway.scale.tasks.AnyTask.begin`."""
        prepared = PreparedPoint(self.point)
        return lambda policy: dict(prepared.run(policy))


def block_tasks(grid: BlockGrid, policies: Sequence[str]) -> list[BlockTask]:
    """A task for each point and seed. Raises HeadwayError as `BlockGrid.points` does."""
    return [
        BlockTask(replace(point, seed=seed), tuple(policies))
        for point in grid.points()
        for seed in grid.seeds
    ]
