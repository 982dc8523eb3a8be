"""Scenes on lanes, in milliseconds, for the tests of policies there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.core.protocols import CostTable
from headway.cost import OverlapLoss
from headway.policies import make
from headway.testing import Rows, play, toy_lane_table, toy_lanes, toy_request

MS = 1e-3


def scene(
    policy: object,
    requests: Sequence[tuple],
    models: Mapping[str, Mapping[int, Sequence[float]]],
    *,
    lanes: int = 2,
    w: float = 0.0,
    slowed: Mapping[int, float] | None = None,
) -> Rows:
    """The log of requests under a policy or a policy's name.

    Requests are (model, arrival, relative deadline) or with a mapping of further fields; models are the
    milliseconds of their blocks by number of threads, of which each lane has one. `slowed` is by how much
    some requests take longer than that, by position.
    """
    device = toy_lanes(lanes)
    tables: dict[str, CostTable] = {
        name: toy_lane_table(device, {width: [each * MS for each in row] for width, row in rows.items()})
        for name, rows in models.items()
    }
    made = []
    for at, (model, arrival, due, *more) in enumerate(requests):
        fields = more[0] if more else {}
        made.append(
            toy_request(at, model, tables, arrival_s=arrival * MS, deadline_s=(arrival + due) * MS, **fields)
        )
    chosen = make(policy) if isinstance(policy, str) else policy
    noise = {at: (factor,) * made[at].blocks for at, factor in (slowed or {}).items()}
    return play(chosen, device, tables, made, contention=OverlapLoss(w), noise=noise)


def starts(log: Rows) -> list[tuple]:
    """Runs as (request, start in ms, cores, first block, end block)."""
    return [
        (row.request, round(row.time_s / MS, 6), row.cores, row.first_block, row.end_block)
        for row in log.of("start")
    ]


def ends(log: Rows) -> dict[int, float]:
    """When each request was answered, in ms."""
    return {row.request: round(row.time_s / MS, 6) for row in log.of("reply")}
