"""Which requests can be on time together, as far as core-time and memory traffic tell.

The rule is Moore's and Hodgson's for one machine (J. M. Moore, "An n job, one machine sequencing algorithm
for minimizing the number of late jobs", Management Science 15(1), 1968): take the jobs in order of deadline,
and whenever one would be late leave out the largest taken so far. If all jobs wait already, nothing makes
fewer of them late. Here the machine is a fluid of two resources, all cores and the memory, and the work that
the jobs ask of it is the least that they could. Cores and memory work side by side, so for C seconds of all
cores and D of the whole memory it needs STRETCH (max(C, D) + OVERLAP min(C, D)) seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headway.core.block import Option
from headway.core.request import Request
from headway.policies.lucas_menu import Menu

STRETCH = 1.2
"""The work of all is taken to last this many times the least it could: layers on a core that is not their
best, outputs that leave SRAM, and requests still to come. Tuned together with OVERLAP, by what was in time on
seeds other than those of the published results (docs/headway-policy.md)."""

OVERLAP = 0.3
"""Share of the lesser resource's time that is taken not to overlap with the other's."""

_TINY = 1e-3  # weight of the other resource where two ways of running take equally much of one


class Load(NamedTuple):
    """What a request asks for until it is done; they sort by deadline, best effort last.

    `cores_s` and `memory_s` are the seconds for which that takes all cores and the whole memory bandwidth at
    least; `size` is the larger of the two per unit of weight, infinite for best effort.
    """

    best_effort: bool
    deadline_s: float
    id: int
    cores_s: float
    memory_s: float
    size: float

    @classmethod
    def of(cls, request: Request, cores_s: float, memory_s: float) -> Load:
        """The load of a request that takes so much."""
        size = max(cores_s, memory_s) / request.weight if request.strict else float("inf")
        return cls(not request.strict, request.deadline_s, request.id, cores_s, memory_s, size)


class Least:
    """By block of a model, the least that the rest takes: seconds of all cores, of the whole memory, and,
    with the device to itself, on one core at a time."""

    __slots__ = ("alone_s", "cores_s", "memory_s")

    def __init__(self, menu: Menu, cores: int, bandwidth_bytes_s: float) -> None:
        def cores_s(option: Option) -> float:
            return (option.fixed_s + option.compute_s) / cores

        def memory_s(option: Option) -> float:
            return option.dram_bytes / bandwidth_bytes_s

        self.alone_s = menu.remaining_s
        self.cores_s = _least(menu, cores_s, memory_s)
        self.memory_s = _least(menu, memory_s, cores_s)


def _least(menu: Menu, first: Callable[[Option], float], second: Callable[[Option], float]) -> list[float]:
    """`first` of the runs on one core each that take the least of it, by dynamic programming."""
    least, other = [0.0] * (menu.blocks + 1), [0.0] * (menu.blocks + 1)
    for block in reversed(range(menu.blocks)):
        _, least[block], other[block] = min(
            (one + _TINY * two, one, two)
            for one, two in (
                (first(option) + least[option.end], second(option) + other[option.end])
                for option in menu.singles(block)
            )
        )
    return least


def left_out(
    plan: Sequence[Load], now: float, *, stretch: float = STRETCH, overlap: float = OVERLAP
) -> set[int]:
    """The ids of those that must be left out for the others to be on time; `plan` is sorted. O(n log n)."""
    out: set[int] = set()
    taken: list[tuple[float, int, float, float]] = []
    is_heap = False  # only once one must be left out; then the largest is first
    cores_s = memory_s = 0.0
    for _, deadline_s, id, more_cores_s, more_memory_s, size in plan:
        cores_s += more_cores_s
        memory_s += more_memory_s
        entry = (-size, id, more_cores_s, more_memory_s)
        if is_heap:
            heappush(taken, entry)
        else:
            taken.append(entry)
        least_s = (deadline_s - now) / stretch
        while taken and least_s < (
            cores_s + overlap * memory_s if cores_s > memory_s else memory_s + overlap * cores_s
        ):
            if not is_heap:
                heapify(taken)
                is_heap = True
            _, largest, less_cores_s, less_memory_s = heappop(taken)
            out.add(largest)
            cores_s -= less_cores_s
            memory_s -= less_memory_s
    return out
