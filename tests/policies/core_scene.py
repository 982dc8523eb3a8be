"""Scenes on cores, in milliseconds and at 1 GB/s, for the tests of policies there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.core.block import Option
from headway.policies import make
from headway.testing import Rows, ToyTable, play, toy_device, toy_request

MS = 1e-3


def scene(
    policy: object,
    requests: Sequence[tuple],
    models: Mapping[str, object],
    *,
    cores: int = 1,
    kinds: Sequence[str] | None = None,
    slowed: Mapping[int, float] | None = None,
) -> Rows:
    """The log of requests under a policy or a policy's name.

    Requests are (model, arrival, relative deadline) or with a mapping of further fields. Models are lists of
    blocks, milliseconds of compute or (milliseconds, bytes), or such a list with a mapping of what else
    ToyTable takes, or `energy_pj` of a block by kind. `slowed` is by how much some requests take longer than
    that, by position.
    """
    device = toy_device(cores, kinds=kinds)
    tables = {name: table_of(device, blocks) for name, blocks in models.items()}
    made = []
    for at, (model, arrival, due, *more) in enumerate(requests):
        fields = more[0] if more else {}
        made.append(
            toy_request(at, model, tables, arrival_s=arrival * MS, deadline_s=(arrival + due) * MS, **fields)
        )
    chosen = make(policy) if isinstance(policy, str) else policy
    noise = {at: (factor,) * made[at].blocks for at, factor in (slowed or {}).items()}
    return play(chosen, device, tables, made, noise=noise)


class EnergyTable(ToyTable):
    """A toy table with a given energy per block and kind, in pJ."""

    def __init__(self, device: object, blocks: object, *, energy_pj: Sequence[float], **more: object) -> None:
        self._energy_pj = energy_pj
        super().__init__(device, blocks, **more)

    def _serial(self, first: int, end: int, kind: int) -> Option:
        return replace(super()._serial(first, end, kind), energy_pj=(end - first) * self._energy_pj[kind])


def table_of(device: object, blocks: object) -> ToyTable:
    """A table from a model of a scene."""
    more: dict[str, object] = {}
    if isinstance(blocks, tuple):
        blocks, more = blocks
    pairs = [block if isinstance(block, tuple) else (block, 0.0) for block in blocks]
    kind = EnergyTable if "energy_pj" in more else ToyTable
    return kind(device, [(ms * MS, size) for ms, size in pairs], **more)


def starts(log: Rows) -> list[tuple]:
    """Runs as (request, start in ms, cores, first block, end block)."""
    return [
        (row.request, round(row.time_s / MS, 6), row.cores, row.first_block, row.end_block)
        for row in log.of("start")
    ]


def order(log: Rows) -> list[int]:
    """Requests in the order in which their runs started."""
    return [row.request for row in log.of("start")]


def ends(log: Rows) -> dict[int, float]:
    """When each request was answered, in ms."""
    return {row.request: round(row.time_s / MS, 6) for row in log.of("reply")}


def outcomes(log: Rows) -> dict[int, str]:
    """How each request was answered."""
    return {row.request: row.outcome for row in log.of("reply")}
