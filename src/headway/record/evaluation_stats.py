"""From the rows of an evaluation to what is said of policies, cells and axes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Final

from headway.record.evaluation import Row
from headway.record.intervals import Interval, Ranking, interval, paired, ranking

CLOSE: Final = 0.01
"""A policy within one percentage point of the best in a cell counts as close to it."""
_PREFIXES: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
}
_QUANTITY: Final = re.compile(
    r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*((?:Ki|Mi|Gi|[kMGT])(?=[A-Za-z])|[num](?=s))?(\S*)"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What one policy achieved over all complete cells: means over cells, with 95 % intervals over seeds.

    `behind` is what its SLA satisfaction lacks to the first policy's with the same seed. `best` and `close`
    count the cells in which it is first, and in which it is at most one point behind; `worst_gap` is the most
    it lacks to the best of a cell. Figures that no run has are None.
    """

    policy: str
    sla: Interval
    behind: Interval | None
    gap: Interval | None
    rank: float | None
    best: int
    close: int
    worst_gap: float
    worst_tenant: Interval | None
    antt: Interval | None
    stp: Interval | None
    fairness: Interval | None
    energy_mj: Interval | None
    goodput_s: Interval | None
    dropped: float
    decision_p99_us: float | None


class Evaluation:
    """Rows in order, and what they say. Runs that failed count for nothing but `failures`."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.policies = tuple(dict.fromkeys(row["policy"] for row in rows))
        self.cells = tuple(dict.fromkeys(row["cell"] for row in rows))
        self.seeds = tuple(dict.fromkeys(row["seed"] for row in rows))
        self.failures = [row for row in rows if row["failed"]]
        self._by_place = {(row["policy"], row["cell"], row["seed"]): row for row in rows if not row["failed"]}

    @cached_property
    def coordinates(self) -> Mapping[str, Mapping[str, object]]:
        """Of each cell."""
        return {row["cell"]: row["coordinates"] for row in self.rows}

    def values(self, figure: str, policy: str, cell: str) -> dict[int, float]:
        """A figure of one policy in one cell, by seed; runs without it are left out."""
        found = {}
        for seed in self.seeds:
            row = self._by_place.get((policy, cell, seed))
            if row is not None and row.get(figure) is not None:
                found[seed] = float(row[figure])
        return found

    def mean(self, figure: str, policy: str, cell: str) -> float | None:
        """Over the seeds; None without any."""
        values = self.values(figure, policy, cell)
        return fmean(values.values()) if values else None

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The policies with at least one run that did not fail: one that always fails hides no other."""
        done = {policy for policy, _, _ in self._by_place}
        return tuple(policy for policy in self.policies if policy in done)

    @cached_property
    def complete(self) -> tuple[str, ...]:
        """Cells in which every compared policy has every seed; none without compared policies."""
        if not self.compared:
            return ()
        return tuple(
            cell
            for cell in self.cells
            if all(
                len(self.values("sla_satisfaction", policy, cell)) == len(self.seeds)
                for policy in self.compared
            )
        )

    @cached_property
    def ranking(self) -> Ranking | None:
        """By mean SLA satisfaction in the complete cells."""
        return ranking(
            {
                policy: [self.mean("sla_satisfaction", policy, cell) or 0.0 for cell in self.complete]
                for policy in self.compared
            }
        )

    def bound(self, cell: str) -> float | None:
        """The mean over seeds of the bound, the largest of the policies' where replies decide arrivals."""
        means = [self.mean("sla_bound", policy, cell) for policy in self.policies]
        return max((mean for mean in means if mean is not None), default=None)

    def by_seed(self, figure: str, policy: str, cells: Sequence[str]) -> dict[int, float]:
        """The mean over cells for each seed; a cell without the figure is left out for all seeds."""
        found: dict[int, list[float]] = defaultdict(list)
        for cell in cells:
            values = self.values(figure, policy, cell)
            if len(values) == len(self.seeds):
                for seed, value in values.items():
                    found[seed].append(value)
        return {seed: fmean(values) for seed, values in found.items()}

    def over(self, figure: str, policy: str, cells: Sequence[str]) -> Interval | None:
        """The mean over cells and seeds, with the interval that the seeds give."""
        values = self.by_seed(figure, policy, cells)
        return interval(list(values.values())) if values else None

    @cached_property
    def standings(self) -> list[Standing]:
        """The policies over all complete cells, the highest mean SLA satisfaction first."""
        cells = self.complete
        if not cells:
            return []
        slas = {policy: self.by_seed("sla_satisfaction", policy, cells) for policy in self.compared}
        order = sorted(self.compared, key=lambda policy: -fmean(slas[policy].values()))
        best = {
            cell: max(self.mean("sla_satisfaction", policy, cell) or 0.0 for policy in self.compared)
            for cell in cells
        }
        ranks = self.ranking.mean_ranks if self.ranking is not None else {}
        return [self._standing(policy, slas, order[0], best, ranks.get(policy)) for policy in order]

    def _standing(
        self,
        policy: str,
        slas: Mapping[str, Mapping[int, float]],
        first: str,
        best: Mapping[str, float],
        rank: float | None,
    ) -> Standing:
        cells = self.complete
        lacks = [best[cell] - (self.mean("sla_satisfaction", policy, cell) or 0.0) for cell in cells]
        own = [row for row in self.rows if row["policy"] == policy and not row["failed"]]
        requests = sum(row["requests"] for row in own)
        times = [row["decision_p99_us"] for row in own if row.get("decision_p99_us") is not None]
        return Standing(
            policy=policy,
            sla=interval(list(slas[policy].values())),
            behind=None if policy == first else paired(slas[first], slas[policy]),
            gap=paired(self.by_seed("sla_bound", policy, cells), slas[policy]),
            rank=rank,
            best=sum(lack <= 1e-12 for lack in lacks),
            close=sum(lack <= CLOSE + 1e-12 for lack in lacks),
            worst_gap=max(lacks),
            worst_tenant=self.over("sla_worst_tenant", policy, cells),
            antt=self.over("antt", policy, cells),
            stp=self.over("stp_eyerman", policy, cells),
            fairness=self.over("fairness", policy, cells),
            energy_mj=self.over("energy_mj", policy, cells),
            goodput_s=self.over("goodput_s", policy, cells),
            dropped=sum(row["dropped"] for row in own) / requests if requests else 0.0,
            decision_p99_us=max(times, default=None),
        )

    @cached_property
    def axes(self) -> dict[str, dict[str, tuple[float, str]]]:
        """Axes along which curves can be drawn: name -> the place of each cell on it, and how it is written.

        Those with at least two values, all numbers, or numbers with one unit ("512 KiB", "8 GB/s").
        """
        names = dict.fromkeys(name for place in self.coordinates.values() for name in place)
        axes = {}
        for name in names:
            read = {cell: _number(place.get(name)) for cell, place in self.coordinates.items()}
            known = {cell: value for cell, value in read.items() if value is not None}
            if len(known) < len(read) or len({unit for _, unit in known.values()}) != 1:
                continue
            axes[name] = {
                cell: (value, str(self.coordinates[cell][name])) for cell, (value, _) in known.items()
            }
        return {name: places for name, places in axes.items() if len({at for at, _ in places.values()}) > 1}


def _number(value: object) -> tuple[float, str] | None:
    """A number and its unit without prefix; None for anything else."""
    if isinstance(value, (int, float)):
        return float(value), ""
    found = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else (float(found[1]) * _PREFIXES[found[2] or ""], found[3])
