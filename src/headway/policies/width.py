"""How many cores one run gets: one, all of them, or a fair share of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.messages import Dispatch
from headway.core.protocols import CostTable, View
from headway.core.request import Request
from headway.core.run import Run


class Width(StrEnum):
    """What a list policy gives each request."""

    NARROW = "narrow"  # one core
    WIDE = "wide"  # every core, one request at a time
    ADAPTIVE = "adaptive"  # as many cores as there are for each request, waiting or running


def widest(request: Request, cores: Sequence[Core], view: View) -> tuple[Core, ...]:
    """The most of these cores, from the front, over which the rest of a request can run; at least one."""
    for count in range(len(cores), 1, -1):
        if _split(request, cores[:count], view) is not None:
            return tuple(cores[:count])
    return tuple(cores[:1])


def fastest(request: Request, cores: Sequence[Core], view: View) -> tuple[Core, ...]:
    """As many of these cores, from the front, as end the rest of a request first; the fewest of equals."""
    best, best_s = tuple(cores[:1]), view.remaining_s(request)
    for count in range(2, len(cores) + 1):
        option = _split(request, cores[:count], view)
        if option is not None and option.seconds(view.device.dram_bandwidth_bytes_s) < best_s:
            best, best_s = tuple(cores[:count]), option.seconds(view.device.dram_bandwidth_bytes_s)
    return best


def remaining_over_s(
    request: Request, cores: Sequence[Core], view: View, *, skip: int = 0, batch: int = 1
) -> float:
    """Seconds that the rest of a request takes split over these cores, or on the best one if that is not
    possible. `skip` leaves out that many of the next blocks, `batch` is how many run together."""
    first = request.next_block + skip
    if first >= request.blocks:
        return 0.0
    option = _split(request, cores, view, first, batch)
    if option is None:
        return batch_table(request, batch, view).remaining_s[first]
    return option.seconds(view.device.dram_bandwidth_bytes_s)


def rest(request: Request, cores: tuple[Core, ...]) -> Dispatch:
    """The run of all that remains of a request, split if on several cores."""
    mode = Mode.SPLIT if len(cores) > 1 else Mode.SERIAL
    return Dispatch((request,), range(request.next_block, request.blocks), cores, mode)


def fair_share(requests: int, view: View) -> int:
    """Cores for each of so many requests; at least one."""
    return max(1, len(view.device.cores) // max(1, requests))


def misfits(waiting: int, idle: Sequence[Core], view: View) -> list[Run]:
    """Runs that would have another width if they started now, and have more than their present block left.

    Too wide ones only if somebody waits for their cores, too narrow ones only if nobody does.
    """
    running = view.running
    share = fair_share(waiting + len(running), view)
    found = []
    for run in running:
        if run.stopping is not None or run.blocks.stop - run.next_block < 2:
            continue
        if waiting:
            misfit = len(run.cores) > share
        else:
            room = [*run.cores, *idle][:share]
            misfit = len(run.cores) < len(room) and len(fastest(run.request, room, view)) > len(run.cores)
        if misfit:
            found.append(run)
    return found


def batch_table(request: Request, batch: int, view: View) -> CostTable:
    """The costs of so many requests like this one that run together."""
    table = view.table(request)
    return table if batch == 1 else table.of_batch(batch)


def _split(
    request: Request, cores: Sequence[Core], view: View, first: int | None = None, batch: int = 1
) -> Option | None:
    if len(cores) < 2:
        return None
    kind_of = view.device.kind_of
    try:
        return batch_table(request, batch, view).option(
            Mode.SPLIT,
            request.next_block if first is None else first,
            request.blocks,
            tuple([kind_of[core.index] for core in cores]),
        )
    except ValueError:  # not every width can be run
        return None
