"""Requests split over several cores: how long the rest of one takes on n of them, and how n come about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from headway.core.block import Mode, Segment
from headway.core.device import Core, Device
from headway.core.protocols import CostTable, View
from headway.core.request import Request

_NEVER = float("inf")


class Spatial:
    """Seconds and bytes of what is left of a model on n cores at full bandwidth, computed once.

    On one core the blocks run one after the other, on the type that is best for the whole; on several each is
    split over all of them. Which cores the n are is not known beforehand: those of a mixture like the
    device's. A width that cannot be run (on lanes those that were not measured) takes for ever.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int], list[tuple[float, float]] | None] = {}
        self._left_s: dict[tuple[str, int], list[float]] = {}
        self._alone_s: dict[str, list[float]] = {}
        self._mixture: tuple[int, ...] = ()

    def remaining_s(self, request: Request, cores: int, view: View, block: int | None = None) -> float:
        """Seconds from a block (by default the request's next) to the end on that many cores."""
        at = (request.model, cores)
        left_s = self._left_s.get(at)
        if left_s is None:
            parts = self._of(request, cores, view)
            seconds = [_NEVER] * request.blocks if parts is None else [each for each, _ in parts]
            left_s = self._left_s[at] = [*reversed(list(accumulate(reversed(seconds)))), 0.0]
        return left_s[request.next_block if block is None else block]

    def block(self, request: Request, cores: int, view: View, block: int) -> tuple[float, float]:
        """Seconds and DRAM bytes of one block on that many cores."""
        parts = self._of(request, cores, view)
        return (_NEVER, 0.0) if parts is None else parts[block]

    def fastest_first(self, request: Request, cores: Sequence[Core], view: View) -> list[Core]:
        """Cores in the order of what the whole model takes on one of their type, then by index."""
        if len(view.device.kinds) == 1:
            return list(cores)
        alone_s = self._alone_s.get(request.model)
        if alone_s is None:
            rows = view.table(request).serial_s
            alone_s = self._alone_s[request.model] = [sum(column) for column in zip(*rows, strict=True)]
        kind_of = view.device.kind_of
        return sorted(cores, key=lambda core: (alone_s[kind_of[core.index]], core.index))

    def _of(self, request: Request, cores: int, view: View) -> list[tuple[float, float]] | None:
        at = (request.model, cores)
        if at not in self._parts:
            self._parts[at] = self._priced(view.table(request), cores, view.device)
        return self._parts[at]

    def _priced(self, table: CostTable, cores: int, device: Device) -> list[tuple[float, float]] | None:
        bandwidth = device.dram_bandwidth_bytes_s
        if cores == 1:
            runs = [_serial(table, kind) for kind in range(len(device.kinds))]
            segments = min(runs, key=lambda run: sum(segment.solo_s(bandwidth) for segment in run))
        else:
            self._mixture = self._mixture or mixture(device)
            try:
                option = table.option(Mode.SPLIT, 0, table.blocks, tuple(sorted(self._mixture[:cores])))
            except ValueError:  # not every width can be run
                return None
            segments = table.segments(option)
        return [(segment.solo_s(bandwidth), segment.dram_bytes) for segment in segments]


def mixture(device: Device) -> tuple[int, ...]:
    """Core types in an order of which every beginning has about the shares of the whole device."""
    counts, taken = device.kind_counts, [0] * len(device.kinds)
    order: list[int] = []
    for _ in device.cores:
        behind = [(given + 0.5) / count for given, count in zip(taken, counts, strict=True)]
        kind = behind.index(min(behind))
        taken[kind] += 1
        order.append(kind)
    return tuple(order)


def mode(cores: Sequence[Core]) -> Mode:
    """How a run goes over these cores."""
    return Mode.SERIAL if len(cores) == 1 else Mode.SPLIT


def runnable(request: Request, cores: Sequence[Core], view: View) -> tuple[Core, ...]:
    """As many of these cores, from the front, as the request can be split over; by index."""
    table, kind_of = view.table(request), view.device.kind_of
    for count in range(len(cores), 1, -1):
        taken = tuple(sorted(cores[:count], key=_index))
        try:
            table.option(
                Mode.SPLIT, request.next_block, request.blocks, tuple([kind_of[core.index] for core in taken])
            )
        except ValueError:  # not every width can be run
            continue
        return taken
    return tuple(cores[:1])


def _serial(table: CostTable, kind: int) -> Sequence[Segment]:
    return table.segments(table.option(Mode.SERIAL, 0, table.blocks, (kind,)))


def _index(core: Core) -> int:
    return core.index
